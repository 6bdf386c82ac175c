"""What is known of the quorum on this node: who leads, who votes, what is committed, how far each is."""

from __future__ import annotations

from kavka.model.clock import Clock
from kavka.model.errors import KafkaError, KafkaStorageError
from kavka.model.types import Endpoint
from kavka.quorum.settings import Member, QuorumSettings
from kavka.quorum.status import QuorumStatus, ReplicaStatus
from kavka.quorum.voters import ControlState
from kavka.raft.core import Raft, ReplicaProgress
from kavka.raft.messages import VoterChangeReply
from kavka.raft.voters import NOBODY


class QuorumView:
    """A replica of the metadata log as others see it; it knows little until it is open."""

    def __init__(self, member: Member, settings: QuorumSettings, clock: Clock) -> None:
        self.member = member
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
        """Who leads; -1 if that is not known."""
        return NOBODY if self._raft is None else self._raft.leader_id

    @property
    def leader_epoch(self) -> int:
        """The newest epoch that this node knows."""
        return 0 if self._raft is None else self._raft.epoch

    @property
    def is_leader(self) -> bool:
        """Whether this node leads."""
        return self._raft is not None and self._raft.is_leader

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader's controller listener is."""
        if self._raft is None or self._raft.leader_id < 0:
            return None
        known = self._raft.leader_endpoints
        return next((one for one in known if one.listener == self.settings.listener), known[0] if known else None)

    @property
    def kraft_version(self) -> int:
        """The version of the quorum's protocol."""
        return 0 if self._raft is None else self._raft.kraft_version

    @property
    def high_watermark(self) -> int:
        """What is before this offset is committed; -1 if that is not known."""
        return -1 if self._raft is None else self._raft.high_watermark

    def control_at(self, offset: int) -> ControlState:
        """What the control records before an offset say: a snapshot there says it too."""
        version, voters = self.raft.history.at(offset - 1)
        return ControlState(version, tuple(voters)) if version else ControlState()

    def status(self) -> QuorumStatus:
        """Who leads, who votes, and as the leader how far each is."""
        raft = self.raft
        now_ms = self._clock.monotonic_ms()
        shift = self._clock.now_ms() - now_ms
        voters, observers = raft.progress(now_ms)
        return QuorumStatus(
            raft.leader_id,
            raft.epoch,
            raft.high_watermark,
            tuple(_status(one, shift) for one in voters),
            tuple(_status(one, shift) for one in observers),
            tuple(raft.voters),
        )

    def leads(self, epoch: int) -> bool:
        """Whether this node leads an epoch."""
        return self._raft is not None and self._raft.is_leader and self._raft.epoch == epoch

    def change_refused(self, error: KafkaError) -> VoterChangeReply:
        """The answer to a change of the voters that makes no sense."""
        raft = self.raft
        return VoterChangeReply(error.code, error.message, raft.epoch, raft.leader_id, raft.leader_endpoints)


def _status(one: ReplicaProgress, shift: int) -> ReplicaStatus:
    fetched = one.last_fetch_ms + shift if one.last_fetch_ms >= 0 else -1
    caught_up = one.last_caught_up_ms + shift if one.last_caught_up_ms >= 0 else -1
    return ReplicaStatus(one.key.id, one.key.directory_id, one.end_offset, fetched, caught_up)
