"""The broker of a simulated node: it registers, follows the metadata, leads and follows partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kavka.controller.brokers import BrokerRequest, Heartbeat, HeartbeatReply
from kavka.controller.isr import InSync, IsrRequest
from kavka.metadata.delta import MetadataDelta, between
from kavka.metadata.features import SUPPORTED
from kavka.metadata.image import EMPTY, MetadataImage, PartitionImage
from kavka.model.errors import KafkaError
from kavka.model.transition import Transition
from kavka.model.types import Endpoint, Uuid
from kavka.replication.isr import IsrChange, IsrOutcome
from kavka.replication.leader import Leadership
from kavka.testing.sim.disk import PartitionFiles
from kavka.testing.sim.replica import Fetched, FetchFrom, Key, SimReplica

if TYPE_CHECKING:
    from kavka.controller.machine import Controller
    from kavka.testing.sim.node import SimNode

HEARTBEAT_MS: Final = 400
ASK_AGAIN_MS: Final = 900
FETCH_WAIT_MS: Final = 300
FETCH_TIMEOUT_MS: Final = 2_000
SHRINK_EVERY_MS: Final = 1_500
CHECKPOINT_EVERY_MS: Final = 2_000
_NOTHING: Final = between(EMPTY, EMPTY)


class SimBroker:
    """What a broker does in one life of its process."""

    def __init__(self, node: SimNode, leadership: type[Leadership]) -> None:
        self.node = node
        self.id = node.id
        self.world = node.world
        self.checks = node.checks
        self.min_isr = node.min_isr
        self.life = node.incarnation
        self.incarnation_id = Uuid(self.world.random.randbytes(16))
        self.epoch = -1
        self.leaving = False
        self.replicas: dict[Key, SimReplica] = {}
        self.image: MetadataImage = EMPTY
        self._leadership = leadership
        self._parked: list[tuple[int, int, list[FetchFrom], Callable[[Any], None]]] = []
        self._fetching: set[int] = set()
        self._asked_ms = -ASK_AGAIN_MS
        self._caught_up = False

    @property
    def brokers(self) -> Any:
        """The registered brokers."""
        return self.image.cluster.brokers

    def start(self) -> None:
        """Begin what is done again and again."""
        self._again(self.world.between(0, 100), HEARTBEAT_MS, self._report)
        self._again(SHRINK_EVERY_MS, SHRINK_EVERY_MS, self._shrink)
        self._again(CHECKPOINT_EVERY_MS, CHECKPOINT_EVERY_MS, self.checkpoint)
        self._again(50, 60, self._fetch_from_all)

    def _again(self, first_ms: int, every_ms: int, action: Callable[[], None]) -> None:
        def turn() -> None:
            if self._alive:
                if not self.node.paused:
                    action()
                self.world.after(every_ms, turn)

        self.world.after(first_ms, turn)

    @property
    def _alive(self) -> bool:
        return self.node.alive and self.node.incarnation == self.life

    # -- the controller -----------------------------------------------------------------------------------

    def _ask(self, decide: Callable[[Controller, int], Transition[Any]], answer: Callable[[Any], None]) -> None:
        self.node.ask_controller(decide, answer)

    def _report(self) -> None:
        if self.world.now_ms - self._asked_ms < ASK_AGAIN_MS and self._asked_ms >= 0:
            return
        self._asked_ms = self.world.now_ms
        if self.epoch < 0:
            self._register()
        else:
            self._beat()

    def _register(self) -> None:
        endpoint = Endpoint("PLAINTEXT", "sim", 9000 + self.id, "PLAINTEXT")
        request = BrokerRequest(
            self.id,
            self.node.cluster_id,
            self.incarnation_id,
            (endpoint,),
            SUPPORTED,
            (self.node.directory,),
            rack=f"r{self.id % 2}",
            previous_epoch=self.node.previous_epoch,
        )

        def registered(reply: Any) -> None:
            self._asked_ms = -1
            if isinstance(reply, int):
                self.epoch = reply
                self.apply(self.image, _NOTHING)

        self._ask(lambda machine, now_ms: machine.register_broker(request, now_ms), registered)

    def _beat(self) -> None:
        beat = Heartbeat(self.id, self.epoch, self.image.offset if self._caught_up else -1, want_shut_down=self.leaving)

        def heard(reply: Any) -> None:
            self._asked_ms = -1
            if isinstance(reply, HeartbeatReply) and reply.should_shut_down and self.leaving:
                self.node.stop_cleanly(self.epoch)

        self._ask(lambda machine, now_ms: machine.heartbeat(beat, now_ms), heard)

    def alter_isr(self, replica: SimReplica, change: IsrChange) -> None:
        """Send a change of in-sync replicas to the controller."""
        isr = tuple(InSync(one.id, one.epoch) for one in change.isr)
        request = IsrRequest(*change.key, change.leader_epoch, change.partition_epoch, isr)

        def decided(reply: Any) -> None:
            outcome = IsrOutcome(*change.key, -1)
            found = reply[0] if isinstance(reply, list) else reply
            if isinstance(found, PartitionImage):
                outcome = IsrOutcome(*change.key, 0, found.leader, found.leader_epoch, found.partition_epoch, found.isr)
            elif isinstance(found, KafkaError):
                outcome = IsrOutcome(*change.key, found.code)
            if self._alive and self.replicas.get(change.key) is replica:
                replica.answered(change, outcome)

        self._ask(lambda machine, _: machine.alter_partition(self.id, self.epoch, [request]), decided)
        self.world.after(ASK_AGAIN_MS, self._remind, replica, change)

    def _remind(self, replica: SimReplica, change: IsrChange) -> None:
        if self._alive and replica.leads and replica.leadership.pending is change:
            self.alter_isr(replica, change)

    def retry_isr(self, replica: SimReplica, change: IsrChange) -> None:
        """A change could not be asked for: the reminder that is due does so again."""

    # -- the metadata ---------------------------------------------------------------------------------------

    def apply(self, image: MetadataImage, delta: MetadataDelta | None) -> None:
        """Follow the committed metadata; without a delta, all of it.

        Nothing is led or followed before this life is registered: what is said of an earlier life is over by then.
        """
        self.image = image
        if not self._caught_up:
            if not 0 <= self.epoch <= image.offset:
                return
            self._caught_up, delta = True, None
        if delta is None:
            for key in [key for key in self.replicas if image.topics.partition(*key) is None]:
                self._drop(key)
            for topic in image.topics.by_id.values():
                self._follow(topic.id, topic.partitions)
            return
        for topic in delta.deleted_topics.values():
            for index in topic.partitions:
                self._drop((topic.id, index))
        for topic in delta.created_topics.values():
            self._follow(topic.id, topic.partitions)
        for id_, indexes in delta.changed_partitions.items():
            self._follow(id_, indexes)

    def _drop(self, key: Key) -> None:
        self.replicas.pop(key, None)
        self.node.disk.partitions.pop(key, None)

    def _follow(self, topic_id: Uuid, indexes: Any) -> None:
        for index in sorted(indexes):
            found = self.image.topics.partition(topic_id, index)
            assert found is not None
            key = (topic_id, index)
            if self.id not in found.replicas:
                self._drop(key)
                continue
            replica = self.replicas.get(key)
            if replica is None:
                files = self.node.disk.partitions.setdefault(key, PartitionFiles())
                replica = self.replicas[key] = SimReplica(self, key, files, self._leadership)
            replica.follow(found)

    # -- fetching ---------------------------------------------------------------------------------------------

    def _fetch_from_all(self) -> None:
        if self.epoch < 0:
            return
        by_leader: dict[int, list[SimReplica]] = {}
        for replica in self.replicas.values():
            now = replica.now
            if now is not None and now.leader not in (-1, self.id) and self.world.now_ms >= replica.retry_ms:
                by_leader.setdefault(now.leader, []).append(replica)
        for leader, replicas in by_leader.items():
            if leader not in self._fetching:
                self._fetch(leader, replicas)

    def _fetch(self, leader: int, replicas: list[SimReplica]) -> None:
        self._fetching.add(leader)
        asked = [replica.ask() for replica in replicas]
        done = False

        def over() -> None:
            nonlocal done
            if not done:
                done = True
                self._fetching.discard(leader)

        def answered(answers: list[Fetched] | None) -> None:
            if done or not self._alive:
                return
            over()
            for one, answer in zip(asked, answers or (), strict=False):
                replica = self.replicas.get(answer.key)
                if replica is not None:
                    replica.take(one, answer)
            self._fetch_from_all()

        self.node.network.call(self.node, leader, "fetch", (self.id, self.epoch, asked), answered)
        self.world.after(FETCH_TIMEOUT_MS, over)

    def serve_fetch(self, request: tuple[int, int, list[FetchFrom]], answer: Callable[[Any], None]) -> None:
        """Answer a follower when there is something for it, or after a while."""
        replica, broker_epoch, asked = request
        answers = self._answers(replica, broker_epoch, asked)
        if any(one.error or one.entries or one.diverging for one in answers):
            answer(answers)
            return
        parked = (replica, broker_epoch, asked, answer)
        self._parked.append(parked)
        self.world.after(FETCH_WAIT_MS, self._unpark, parked)

    def _answers(self, replica: int, broker_epoch: int, asked: list[FetchFrom]) -> list[Fetched]:
        found = []
        for one in asked:
            mine = self.replicas.get(one.key)
            found.append(Fetched(one.key, 3) if mine is None else mine.serve(replica, broker_epoch, one))
        return found

    def _unpark(self, parked: tuple[int, int, list[FetchFrom], Callable[[Any], None]]) -> None:
        if self._alive and parked in self._parked:
            self._parked.remove(parked)
            parked[3](self._answers(*parked[:3]))

    def has_news(self) -> None:
        """A log has grown, or more of it is committed: followers that wait are answered."""
        parked, self._parked = self._parked, []
        for one in parked:
            self._parked.append(one)
            self.world.after(0, self._unpark, one)

    def ask_offsets(self, replica: SimReplica) -> None:
        """Ask a leader where its log begins and ends."""
        epoch, now = replica.leader_epoch, replica.now
        assert now is not None

        def told(reply: tuple[int, int] | None) -> None:
            if reply is not None and self._alive:
                replica.reset(epoch, *reply)

        self.node.network.call(self.node, now.leader, "offsets", (replica.key, epoch), told)

    def serve_offsets(self, request: tuple[Key, int], answer: Callable[[Any], None]) -> None:
        """Say where a log that this node leads begins and ends."""
        key, epoch = request
        replica = self.replicas.get(key)
        if replica is not None and replica.leads and replica.leader_epoch == epoch:
            answer((replica.log.start_offset, replica.log.end_offset))
        else:
            answer(None)

    # -- again and again ----------------------------------------------------------------------------------------

    def _shrink(self) -> None:
        for replica in list(self.replicas.values()):
            replica.look_for_laggards()
            if replica.leads:
                replica.advance()

    def checkpoint(self) -> None:
        """Remember what is committed; the system writes some of the logs to the disk."""
        for replica in self.replicas.values():
            replica.files.high_watermark = replica.high_watermark
            if self.world.chance(0.3):
                replica.log.synced = self.world.between(replica.log.synced, replica.log.end_offset)
