"""What a quorum tells of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kavka.model.types import Uuid
from kavka.quorum.voters import Voter


class ReplicaStatus(NamedTuple):
    """The progress of a replica of the metadata log."""

    id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """What DescribeQuorum tells: all of it at the leader, on other nodes only the leader and the voters."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaStatus, ...]
    observers: tuple[ReplicaStatus, ...]
    nodes: tuple[Voter, ...]
