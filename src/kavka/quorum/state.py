"""The quorum-state file: the epoch this node has seen, whom it voted for and who leads, in Kafka's layout."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from kavka.model.errors import KafkaStorageError
from kavka.model.types import Uuid
from kavka.storage.disk import Disk

FILE: Final = "quorum-state"
NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class QuorumState:
    """What a voter must not forget: it must never vote twice in an epoch, nor go back to an earlier one."""

    leader_epoch: int
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: Uuid = Uuid.ZERO


def read_quorum_state(disk: Disk, directory: str) -> QuorumState | None:
    """The state in a metadata log's directory; None if this node never took part."""
    path = f"{directory}/{FILE}"
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(data)
        version = fields["data_version"]
        if version not in (0, 1):
            raise KafkaStorageError(f"{path} has version {version}, which this software does not know")
        return QuorumState(
            leader_epoch=int(fields["leaderEpoch"]),
            leader_id=int(fields["leaderId"]),
            voted_id=int(fields["votedId"]),
            voted_directory_id=Uuid.parse(fields["votedDirectoryId"]) if version else Uuid.ZERO,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise KafkaStorageError(f"{path} is not a quorum state: {error}") from None


def write_quorum_state(disk: Disk, directory: str, state: QuorumState) -> None:
    """Remember a state, durably before anything acts on it."""
    fields = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": str(state.voted_directory_id),
        "data_version": 1,
    }
    disk.replace_file(f"{directory}/{FILE}", json.dumps(fields, separators=(",", ":")).encode())
