"""What is known of the quorum on this node: the leader, the voters, the high watermark, each replica's progress."""

from __future__ import annotations

from kavka.model.clock import Clock
from kavka.model.errors import KafkaError, KafkaStorageError
from kavka.model.types import Endpoint
from kavka.quorum.settings import MetadataReplica, QuorumSettings
from kavka.quorum.status import QuorumStatus, ReplicaStatus
from kavka.quorum.voters import ControlState
from kavka.raft.core import Raft, ReplicaProgress
from kavka.raft.messages import VoterChangeReply
from kavka.raft.voters import NOBODY


class QuorumView:
    """A replica of the metadata log as others see it; it knows little until it is open."""

    def __init__(self, replica: MetadataReplica, settings: QuorumSettings, clock: Clock) -> None:
        self.replica = replica
        self.settings = settings
        self._clock = clock
        self._raft: Raft | None = None

    @property
    def raft(self) -> Raft:
        """The core."""
        if self._raft is None:
            raise KafkaStorageError("the quorum is not open")
        return self._raft

    @property
    def leader_id(self) -> int:
        """The leader's id; -1 if none is known."""
        return NOBODY if self._raft is None else self._raft.leader_id

    @property
    def leader_epoch(self) -> int:
        """The newest epoch that this node knows."""
        return 0 if self._raft is None else self._raft.epoch

    @property
    def is_leader(self) -> bool:
        """Whether this node is the leader."""
        return self._raft is not None and self._raft.is_leader

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The leader's controller endpoint."""
        if self._raft is None or self._raft.leader_id < 0:
            return None
        known = self._raft.leader_endpoints
        return next(
            (endpoint for endpoint in known if endpoint.listener == self.settings.listener), known[0] if known else None
        )

    @property
    def kraft_version(self) -> int:
        """The version of the quorum's protocol."""
        return 0 if self._raft is None else self._raft.kraft_version

    @property
    def high_watermark(self) -> int:
        """The high watermark; -1 if it is not known."""
        return -1 if self._raft is None else self._raft.high_watermark

    def control_at(self, offset: int) -> ControlState:
        """What the control records before an offset say: a snapshot there says it too."""
        version, voters = self.raft.history.at(offset - 1)
        return ControlState(version, tuple(voters)) if version else ControlState()

    def status(self) -> QuorumStatus:
        """The leader, the voters, and on the leader each replica's progress."""
        raft = self.raft
        now_ms = self._clock.monotonic_ms()
        shift = self._clock.now_ms() - now_ms
        voters, observers = raft.progress(now_ms)
        return QuorumStatus(
            raft.leader_id,
            raft.epoch,
            raft.high_watermark,
            tuple(_status(progress, shift) for progress in voters),
            tuple(_status(progress, shift) for progress in observers),
            tuple(raft.voters),
        )

    def leads(self, epoch: int) -> bool:
        """Whether this node leads an epoch."""
        return self._raft is not None and self._raft.is_leader and self._raft.epoch == epoch

    def change_refused(self, error: KafkaError) -> VoterChangeReply:
        """The answer to a change of the voters that makes no sense."""
        raft = self.raft
        return VoterChangeReply(error.code, error.message, raft.epoch, raft.leader_id, raft.leader_endpoints)


def _status(progress: ReplicaProgress, shift: int) -> ReplicaStatus:
    fetched = progress.last_fetch_ms + shift if progress.last_fetch_ms >= 0 else -1
    caught_up = progress.last_caught_up_ms + shift if progress.last_caught_up_ms >= 0 else -1
    return ReplicaStatus(progress.key.id, progress.key.directory_id, progress.end_offset, fetched, caught_up)
