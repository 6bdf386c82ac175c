"""The quorum-state file in Kafka's layout."""

from __future__ import annotations

import pytest

from kavka.model.errors import KafkaStorageError
from kavka.model.types import Uuid
from kavka.quorum.state import QuorumState, read_quorum_state, write_quorum_state
from kavka.storage.disk import RealDisk

DISK = RealDisk()


def test_it_is_written_as_kafka_writes_it(tmp_path):
    write_quorum_state(DISK, str(tmp_path), QuorumState(leader_epoch=1, leader_id=1))
    expected = (
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    assert (tmp_path / "quorum-state").read_bytes() == expected


def test_it_is_read_back(tmp_path):
    state = QuorumState(leader_epoch=7, leader_id=-1, voted_id=2, voted_directory_id=Uuid(b"d" * 16))
    write_quorum_state(DISK, str(tmp_path), state)
    assert read_quorum_state(DISK, str(tmp_path)) == state


def test_the_older_layout_is_read_too(tmp_path):
    (tmp_path / "quorum-state").write_text(
        '{"clusterId":"","leaderId":1,"leaderEpoch":9,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],'
        '"data_version":0}'
    )
    assert read_quorum_state(DISK, str(tmp_path)) == QuorumState(leader_epoch=9, leader_id=1)


def test_none_is_there_before_the_first_election(tmp_path):
    assert read_quorum_state(DISK, str(tmp_path)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"data_version":2}', '{"data_version":1,"leaderId":"x"}'])
def test_what_cannot_be_read_is_an_error_that_names_the_file(tmp_path, text):
    (tmp_path / "quorum-state").write_text(text)
    with pytest.raises(KafkaStorageError, match="quorum-state"):
        read_quorum_state(DISK, str(tmp_path))
