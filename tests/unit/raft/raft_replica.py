"""One core with a log in memory and no chance, for tests that look at single steps."""

from __future__ import annotations

from typing import Any, TypeVar

from raft_log import Entry, MemoryLog
from raft_world import voter

from kavka.raft.core import Raft, RaftConfig
from kavka.raft.effects import BecomeLeader, Effect, ElectionState, Persist, Reply, Send, WriteControl
from kavka.raft.messages import Fetch, Request, Vote, VoteReply
from kavka.raft.voters import ControlChange, ReplicaKey, VoterHistory, VoterSet

T = TypeVar("T")
NOW = 10_000


def key(id_: int) -> ReplicaKey:
    return voter(id_).key


def voters(*ids: int) -> VoterSet:
    return VoterSet(voter(id_) for id_ in ids)


def of(kind: type[T], effects: list[Effect]) -> list[T]:
    """The effects of one kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


def sent(effects: list[Effect]) -> dict[int, Request]:
    """The requests by destination."""
    return {effect.to: effect.request for effect in of(Send, effects)}


def reply_of(effects: list[Effect]) -> Any:
    """The one reply."""
    (reply,) = of(Reply, effects)
    return reply.reply


class StartedReplica:
    """Replica 1 of a quorum, started."""

    def __init__(
        self,
        *others: int,
        me: int = 1,
        state: ElectionState | None = None,
        epochs: tuple[int, ...] = (),
        kraft_version: int = 1,
        observer: bool = False,
        offset: int = -1,
        **config: Any,
    ) -> None:
        self.log = MemoryLog()
        self.log.append([Entry(epoch, n) for n, epoch in enumerate(epochs)])
        self.log.synced = self.log.end_offset
        ids = others if observer else (me, *others)
        self.voters = voters(*ids)
        history = (
            VoterHistory(None, [ControlChange(offset, self.voters, kraft_version)])
            if kraft_version
            else VoterHistory(VoterSet(known._replace(key=ReplicaKey(known.key.id)) for known in self.voters))
        )
        self.raft = Raft(voter(me), self.log, history, lambda low, high: low, state=state, config=RaftConfig(**config))
        self.now = NOW
        self.started = self.raft.start(NOW)

    def ask(self, request: Request, token: Any = "token") -> list[Effect]:
        return self.raft.on_request(request, self.now, token)

    def answer(self, effects: list[Effect], to: int, reply: Any) -> list[Effect]:
        """Answer what was sent to a node."""
        (request_id,) = [effect.request_id for effect in of(Send, effects) if effect.to == to]
        return self.raft.on_response(request_id, reply, self.now)

    def pass_time(self, milliseconds: int) -> list[Effect]:
        """Let time pass, with the ticks that are due in it."""
        end, effects = self.now + milliseconds, []
        while self.raft.next_deadline_ms() <= end:
            self.now = max(self.now, self.raft.next_deadline_ms())
            effects += self.raft.tick(self.now)
        self.now = end
        return effects

    def append(self, *values: Any) -> list[Effect]:
        """As the leader: write records, and force them."""
        self.log.append([Entry(self.raft.epoch, value) for value in values])
        effects = self.raft.on_appended(self.now)
        return effects + self.sync()

    def sync(self) -> list[Effect]:
        self.log.synced = self.log.end_offset
        return self.raft.on_synced(self.log.end_offset, self.now)

    def write(self, effects: list[Effect]) -> list[Effect]:
        """Do as a BecomeLeader or WriteControl says, and force it."""
        more: list[Effect] = []
        for effect in effects:
            change = None
            if isinstance(effect, BecomeLeader):
                self.log.append([Entry(effect.epoch, "leader")])
                if effect.write_voters is not None:
                    change = ControlChange(self.log.end_offset, effect.write_voters, effect.kraft_version)
            elif isinstance(effect, WriteControl):
                change = ControlChange(self.log.end_offset, effect.voters, effect.kraft_version)
            else:
                continue
            if change is not None:
                self.log.append([Entry(effect.epoch, "voters", change)])
            more += self.raft.on_appended(self.now, [change] if change else [])
            more += self.sync()
        return more

    def win(self) -> list[Effect]:
        """Let the others elect this replica, and let it write the beginning of its epoch."""
        effects = self.pass_time(2_000) if self.raft.role.value != "prospective" else []
        while not self.raft.is_leader:
            asked = [effect for effect in of(Send, effects) if isinstance(effect.request, Vote)]
            effects = []
            for effect in asked:
                reply = VoteReply(0, self.raft.epoch, granted=True)
                effects += self.raft.on_response(effect.request_id, reply, self.now)
        return effects + self.write(effects)

    def fetch(self, id_: int, offset: int | None = None, **fields: Any) -> list[Effect]:
        """Let a replica fetch, from the log's end if no offset is said."""
        offset = self.log.end_offset if offset is None else offset
        last = self.log.entries[offset - 1 - self.log.start_offset].epoch if offset > self.log.start_offset else 0
        fetch = Fetch(self.raft.epoch, key(id_), offset, last)
        return self.ask(fetch._replace(**fields), ("fetch", id_))

    @property
    def persisted(self) -> ElectionState:
        return of(Persist, self.started)[-1].state
