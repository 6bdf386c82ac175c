"""What was committed is written down, and a log that lacks some of it is not gone on with."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kavka.model.errors import KafkaStorageError
from kavka.quorum.commit_mark import FILE, CommitMark
from kavka.storage.disk import RealDisk


@pytest.fixture
def mark(tmp_path: Path) -> CommitMark:
    return CommitMark(RealDisk(), str(tmp_path))


def test_a_log_that_has_what_was_committed_is_gone_on_with(mark: CommitMark) -> None:
    mark.write(10)
    for end in (10, 11):
        mark.check("log", 0, end, accept_loss=False)
    assert mark.offset == 10


def test_a_shorter_log_is_refused_with_the_ways_out(mark: CommitMark) -> None:
    mark.write(10)
    with pytest.raises(KafkaStorageError, match=r"ends at offset 9, but everything before 10 .* Restore .* --accept"):
        mark.check("log", 0, 9, accept_loss=False)


def test_what_is_missing_is_given_up_once_when_told_to(mark: CommitMark, caplog: pytest.LogCaptureFixture) -> None:
    mark.write(10)
    with caplog.at_level(logging.WARNING):
        mark.check("log", 0, 9, accept_loss=True)
    assert "starting with what is left" in caplog.text
    mark.check("log", 0, 9, accept_loss=False)


def test_without_a_mark_any_log_is_gone_on_with(mark: CommitMark) -> None:
    mark.check("log", 0, 0, accept_loss=False)
    assert mark.offset == 0


def test_a_damaged_mark_says_so_and_stops_nobody(
    mark: CommitMark, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(b"\0\0\0")
    mark.check("log", 0, 0, accept_loss=False)
    assert FILE in caplog.text
