"""A small cluster of pure parts: logs in memory, messages that arrive in any order or not at all, a plain controller.

Only what `kavka.replication` decides is the product's own; everything else here is as simple as it can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.replication.follower import committed_offset, reset, start_offset, truncation_offset
from kavka.replication.isr import IsrChange, IsrOutcome
from kavka.replication.leader import PartitionLeader

TOPIC = Uuid(b"t" * 16)
MIN_ISR = 2
MAX_LAG_MS = 1_000


class Entry(NamedTuple):
    epoch: int
    value: int


class View(NamedTuple):
    """What the metadata says of the partition."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    brokers: dict[int, Broker]


class Broker(NamedTuple):
    epoch: int
    active: bool


class Epochs:
    """The leader epochs of a log, found by looking at it; and those that began without writing."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    @property
    def latest(self) -> int:
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, offset: int) -> None:
        if epoch > self.latest:
            self.entries = [one for one in self.entries if one[1] < offset]
            self.entries.append((epoch, offset))

    def cut(self, offset: int) -> None:
        self.entries = [one for one in self.entries if one[1] < offset]

    def end_offset_for(self, epoch: int, log_end_offset: int, /) -> tuple[int, int]:
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = [one for one in self.entries if one[0] > epoch]
        lower = [one for one in self.entries if one[0] <= epoch]
        if not higher:
            return -1, -1
        return (lower[-1][0] if lower else epoch), higher[0][1]


@dataclass
class Fetch:
    """A request and, when the leader has served it, its answer."""

    follower: int
    leader: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_epoch: int
    answer: tuple[str, object, int] | None = None


@dataclass
class Node:
    """A replica: its log outlives it, all else does not."""

    id: int
    log: list[Entry] = field(default_factory=list)
    epochs: Epochs = field(default_factory=Epochs)
    high_watermark: int = 0
    leadership: PartitionLeader | None = None
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    broker_epoch: int = -1
    seen: int = 0
    brokers: dict[int, Broker] = field(default_factory=dict)

    def crash(self, seen: int, broker_epoch: int) -> None:
        """Lose everything but the log and what was checkpointed of it."""
        self.leadership = None
        self.leader = self.leader_epoch = self.partition_epoch = -1
        self.high_watermark = min(self.high_watermark, len(self.log))
        self.seen, self.broker_epoch = seen, broker_epoch

    def truncate(self, offset: int) -> None:
        self.epochs.cut(min(offset, len(self.log)))
        del self.log[offset:]
        self.high_watermark = min(self.high_watermark, len(self.log))


class World:
    """Three replicas; `choose` decides everything that chance decides."""

    def __init__(self, choose: Callable[[int], int], *, ack_early: bool = False, keep_tails: bool = False) -> None:
        self.choose = choose
        self.now_ms = 0
        self.ack_early = ack_early
        self.keep_tails = keep_tails
        self.nodes = {id_: Node(id_) for id_ in (1, 2, 3)}
        first = View(1, 0, 0, (1, 2, 3), {id_: Broker(id_, True) for id_ in self.nodes})
        self.views = [first]
        self.next_broker_epoch = 10
        self.network: list[Fetch] = []
        self.wishes: list[IsrChange] = []
        self.outcomes: list[tuple[int, IsrChange, IsrOutcome]] = []
        self.waiting: list[tuple[int, int, int, Entry]] = []
        self.acked: dict[int, Entry] = {}
        self.values = 0
        self.down: set[int] = set()
        for node in self.nodes.values():
            node.broker_epoch = node.id
            self.hear(node)

    # -- the controller -------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        return self.views[-1]

    def fail(self, node: Node) -> None:
        """A broker dies: it leaves the in-sync replicas, unless it is the last; another of them leads."""
        if len(self.down) == 2:
            return
        self.down.add(node.id)
        now = self.view
        brokers = {**now.brokers, node.id: Broker(now.brokers[node.id].epoch, False)}
        isr = tuple(id_ for id_ in now.isr if id_ != node.id) or now.isr
        alive = [id_ for id_ in isr if brokers[id_].active]
        leader = now.leader if now.leader != node.id else (alive[0] if alive else -1)
        epoch = now.leader_epoch + (leader != now.leader)
        self.views.append(View(leader, epoch, now.partition_epoch + 1, isr, brokers))
        self.check_leader()

    def recover(self, node: Node) -> None:
        """A broker comes back in a new life; if nobody leads and it was in sync last, it leads."""
        self.down.discard(node.id)
        self.next_broker_epoch += 1
        now = self.view
        brokers = {**now.brokers, node.id: Broker(self.next_broker_epoch, True)}
        leader, epoch = now.leader, now.leader_epoch
        if leader < 0 and node.id in now.isr:
            leader, epoch = node.id, epoch + 1
        self.views.append(View(leader, epoch, now.partition_epoch + 1, now.isr, brokers))
        node.crash(len(self.views) - 1, self.next_broker_epoch)
        self.hear(node)
        self.check_leader()

    def decide(self, change: IsrChange) -> None:
        """Answer a leader's wish as AlterPartition does."""
        now = self.view
        code = 0
        if change.leader_epoch != now.leader_epoch:
            code = 74
        elif change.partition_epoch != now.partition_epoch:
            code = 95
        elif any(
            not now.brokers[one.id].active or one.epoch not in (-1, now.brokers[one.id].epoch) for one in change.isr
        ):
            code = 107
        if code:
            outcome = IsrOutcome(TOPIC, 0, code)
        else:
            now = now._replace(isr=change.replicas, partition_epoch=now.partition_epoch + 1)
            self.views.append(now)
            outcome = IsrOutcome(TOPIC, 0, 0, now.leader, now.leader_epoch, now.partition_epoch, now.isr)
        self.outcomes.append((change.isr[0].id, change, outcome))

    # -- the nodes ------------------------------------------------------------------------------------

    def hear(self, node: Node) -> None:
        """A node takes over the next metadata that it has not seen."""
        if node.seen >= len(self.views):
            return
        view = self.views[node.seen]
        node.seen += 1
        node.brokers = view.brokers
        if view.partition_epoch < node.partition_epoch:
            return
        new_epoch = view.leader_epoch != node.leader_epoch
        unbroken = node.leader == node.id and view.leader_epoch <= node.leader_epoch + 1
        node.partition_epoch, node.leader, node.leader_epoch = view.partition_epoch, view.leader, view.leader_epoch
        if node.leader != node.id:
            node.leadership = None
            if new_epoch:
                node.truncate(start_offset(node.epochs, len(node.log), node.high_watermark))
            return
        if node.leadership is None or not unbroken:
            node.leadership = PartitionLeader(node.id, TOPIC, 0)
        if new_epoch:
            node.epochs.assign(view.leader_epoch, len(node.log))
        node.leadership.lead(view.leader_epoch, view.partition_epoch, self.nodes, view.isr, len(node.log), self.now_ms)
        self.advance(node)

    def append(self, node: Node) -> None:
        """A producer sends a record with acks=all to whoever takes itself for the leader."""
        if node.leadership is None or len(node.leadership.isr) < MIN_ISR:
            return
        self.values += 1
        entry = Entry(node.leader_epoch, self.values)
        node.leadership.appended(len(node.log), self.now_ms)
        node.log.append(entry)
        self.waiting.append((node.id, node.leader_epoch, len(node.log), entry))
        if self.ack_early:
            self.acked[len(node.log) - 1] = entry
        self.advance(node)

    def advance(self, node: Node) -> None:
        if node.leadership is None:
            return
        found = node.leadership.high_watermark(len(node.log), MIN_ISR, self.now_ms, MAX_LAG_MS, node.brokers)
        node.high_watermark = max(node.high_watermark, found)
        for one in list(self.waiting):
            leader, epoch, end, entry = one
            if leader == node.id and epoch == node.leader_epoch and end <= node.high_watermark:
                self.waiting.remove(one)
                if node.leadership.enough(MIN_ISR):
                    self.acked[end - 1] = entry

    def shrink(self, node: Node) -> None:
        if node.leadership is not None:
            change = node.leadership.shrink(len(node.log), self.now_ms, MAX_LAG_MS, node.brokers)
            if change is not None:
                self.wishes.append(change)

    def learn(self, node: Node, change: IsrChange, outcome: IsrOutcome) -> None:
        if node.leadership is not None:
            if node.leadership.answered(change, outcome):
                self.wishes.append(change)
            node.partition_epoch = max(node.partition_epoch, node.leadership.partition_epoch)
            self.advance(node)

    # -- copying --------------------------------------------------------------------------------------

    def ask(self, node: Node) -> None:
        if node.leader not in (-1, node.id) and not any(one.follower == node.id for one in self.network):
            self.network.append(
                Fetch(node.id, node.leader, node.broker_epoch, node.leader_epoch, len(node.log), node.epochs.latest)
            )

    def serve(self, fetch: Fetch) -> None:
        node = self.nodes[fetch.leader]
        leadership = node.leadership
        if leadership is None or fetch.leader_epoch != node.leader_epoch:
            self.network.remove(fetch)
            return
        try:
            follower = leadership.follower(fetch.follower, fetch.leader_epoch)
            if fetch.last_epoch >= 0:
                epoch, end = node.epochs.end_offset_for(fetch.last_epoch, len(node.log))
                if epoch < 0:
                    fetch.answer = ("out of range", len(node.log), 0)
                    return
                if epoch < fetch.last_epoch or end < fetch.offset:
                    fetch.answer = ("diverging", (epoch, end), 0)
                    return
            if fetch.offset > len(node.log):
                fetch.answer = ("out of range", len(node.log), 0)
                return
            leadership.fetched(follower, fetch.broker_epoch, fetch.offset, 0, len(node.log), self.now_ms, node.brokers)
        except KafkaError:
            self.network.remove(fetch)
            return
        change = leadership.expand(follower, node.high_watermark, node.brokers)
        if change is not None:
            self.wishes.append(change)
        self.advance(node)
        some = node.log[fetch.offset : fetch.offset + 1 + self.choose(3)]
        fetch.answer = ("records", some, node.high_watermark)

    def take_in(self, fetch: Fetch) -> None:
        node = self.nodes[fetch.follower]
        self.network.remove(fetch)
        if (
            fetch.answer is None
            or node.leader == node.id
            or node.leader_epoch != fetch.leader_epoch
            or len(node.log) != fetch.offset
        ):
            return
        kind, what, high_watermark = fetch.answer
        if kind == "diverging":
            if not self.keep_tails:
                node.truncate(truncation_offset(what, node.epochs, len(node.log)))  # type: ignore[arg-type]
        elif kind == "out of range":
            found = reset(len(node.log), 0, what)  # type: ignore[arg-type]
            node.truncate(found.offset)
        else:
            for entry in what:  # type: ignore[attr-defined]
                if entry.epoch > node.epochs.latest:
                    node.epochs.assign(entry.epoch, len(node.log))
                node.log.append(entry)
            node.high_watermark = committed_offset(node.high_watermark, high_watermark, len(node.log))

    # -- one step -------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let something happen."""
        alive = [node for node in self.nodes.values() if node.id not in self.down]
        node = alive[self.choose(len(alive))]
        pick = self.choose(100)
        self.now_ms += self.choose(4) * 2
        if pick < 20:
            self.append(node)
        elif pick < 42:
            self.ask(node)
        elif pick < 72:
            if self.network:
                self.deliver(self.network[self.choose(len(self.network))])
        elif pick < 82:
            self.hear(node)
        elif pick < 87:
            if self.wishes:
                self.decide(self.wishes.pop(self.choose(len(self.wishes))))
        elif pick < 92:
            if self.outcomes:
                id_, change, outcome = self.outcomes.pop(self.choose(len(self.outcomes)))
                self.learn(self.nodes[id_], change, outcome)
        elif pick < 94:
            self.now_ms += 300
            self.shrink(node)
        elif pick < 95:
            self.fail(node)
        elif self.down:
            self.recover(self.nodes[sorted(self.down)[0]])
        self.check()

    def deliver(self, fetch: Fetch) -> None:
        gone = fetch.follower in self.down or fetch.leader in self.down
        if gone or self.choose(20) == 0:
            self.network.remove(fetch)
        elif fetch.answer is None:
            self.serve(fetch)
        else:
            self.take_in(fetch)

    # -- what must hold -------------------------------------------------------------------------------

    def check(self) -> None:
        """Logs that have the same epoch at an offset are the same before it; what is committed is the same."""
        nodes = list(self.nodes.values())
        for one in nodes:
            assert one.high_watermark <= len(one.log)
            for other in nodes:
                both = min(len(one.log), len(other.log))
                last = max((n for n in range(both) if one.log[n].epoch == other.log[n].epoch), default=-1)
                assert one.log[: last + 1] == other.log[: last + 1], "one of two logs is no prefix of the other"
                committed = min(one.high_watermark, other.high_watermark)
                assert one.log[:committed] == other.log[:committed], "committed records differ"
        self.check_leader()

    def check_leader(self) -> None:
        """Whoever is made leader has all that was acknowledged."""
        if self.view.leader > 0:
            log = self.nodes[self.view.leader].log
            for offset, entry in self.acked.items():
                assert offset < len(log), "an acknowledged record is lost"
                assert log[offset] == entry, "an acknowledged record is another one"
