"""How many files may be open: too few is said at once, and few with what they are enough for."""

from __future__ import annotations

import logging

import pytest

from kavka.broker.main import check_open_files


def test_a_node_that_could_serve_nobody_says_why() -> None:
    assert "only 64 files may be open at a time (ulimit -n)" in (check_open_files(64) or "")


def test_few_are_told_with_what_they_are_enough_for(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert check_open_files(1024) is None
    assert "enough for 480 connections" in caplog.text


def test_many_are_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    assert check_open_files(1 << 20) is None
    assert not caplog.records
