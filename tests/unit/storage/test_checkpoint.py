from __future__ import annotations

import pytest

from kavka.model.errors import KafkaStorageError
from kavka.model.types import TopicPartition
from kavka.storage.checkpoint import encode_epochs, read_epochs, read_offsets, write_offsets


def test_offsets_are_written_as_kafka_writes_them(disk, tmp_path):
    path = str(tmp_path / "recovery-point-offset-checkpoint")
    offsets = {TopicPartition("a", 0): 5, TopicPartition("b-c", 12): 2**62}
    write_offsets(disk, path, offsets)
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == f"0\n2\na 0 5\nb-c 12 {2**62}\n"
    assert read_offsets(disk, path) == offsets


def test_a_missing_file_and_an_empty_one_have_no_offsets(disk, tmp_path):
    assert read_offsets(disk, str(tmp_path / "none")) == {}
    for text in ("", "0\n", "0\n0\n"):
        (tmp_path / "some").write_text(text)
        assert read_offsets(disk, str(tmp_path / "some")) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n0\n", "version"),
        ("x\n0\n", "version"),
        ("0\nmany\n", "malformed line: 'many'"),
        ("0\n1\na 0\n", "malformed line: 'a 0'"),
        ("0\n1\na x 5\n", "malformed line"),
        ("0\n2\na 0 5\n", "should have 2 entries but has 1"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_reason_on_one_line(disk, tmp_path, text, message):
    path = tmp_path / "log-start-offset-checkpoint"
    path.write_text(text)
    with pytest.raises(KafkaStorageError, match=message) as raised:
        read_offsets(disk, str(path))
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_bytes_that_are_not_text_are_refused(disk, tmp_path):
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KafkaStorageError, match="not text"):
        read_offsets(disk, str(tmp_path / "x"))


def test_leader_epochs_read_back(disk, tmp_path):
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(encode_epochs([(0, 0), (3, 17)]))
    assert path.read_text() == "0\n2\n0 0\n3 17\n"
    assert read_epochs(disk, str(path)) == [(0, 0), (3, 17)]
    path.write_text("0\n1\n3\n")
    with pytest.raises(KafkaStorageError, match="malformed"):
        read_epochs(disk, str(path))
