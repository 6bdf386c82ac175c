"""A few replica managers that copy from each other over loopback, led by a real controller machine without a log."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kavka.broker.context import Context
from kavka.broker.dispatch import Dispatcher
from kavka.broker.handlers import load
from kavka.broker.handlers.fetch import FetchHandler
from kavka.broker.handlers.marks import NOTHING, handler
from kavka.broker.handlers.produce import ProduceHandler
from kavka.client.connection import Connection
from kavka.client.connector import Connector
from kavka.controller.bootstrap import bootstrap_records
from kavka.controller.brokers import BrokerRequest, Heartbeat
from kavka.controller.configs import Op
from kavka.controller.isr import InSync, IsrRequest
from kavka.controller.machine import Controller
from kavka.controller.topics import NewTopic
from kavka.metadata.features import SUPPORTED
from kavka.metadata.image.configs import ConfigResource, ResourceType
from kavka.metadata.live import LiveSettings
from kavka.metadata.records.topics import PartitionChangeRecord
from kavka.model.clock import SystemClock
from kavka.model.errors import KafkaError, NetworkException
from kavka.model.settings import broker_values
from kavka.model.types import Endpoint, Uuid
from kavka.net.limits import ConnectionLimits
from kavka.net.server import Server, SocketOptions, bind
from kavka.pacing.lane import Lane
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kavka.records.batch import records, scan
from kavka.records.builder import BatchBuilder
from kavka.replica.dirs import LogDir
from kavka.replica.fetchers import Fetchers
from kavka.replica.fetching import FetchSessions
from kavka.replica.isr import IsrManager
from kavka.replica.loading import Loading
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.replica.stopping import stop_cleanly
from kavka.replica.syncing import Syncer
from kavka.replica.waiting import Purgatory
from kavka.replication.isr import IsrChange, IsrOutcome
from kavka.storage.dirs import take_clean_shutdown
from kavka.storage.disk import RealDisk

CLUSTER = "XtzFyRoARCCFvqzNMVkX_Q"
SERVED = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.API_VERSIONS, ApiKey.DELETE_RECORDS)
LISTENER = "REPLICATION"
CLOCK = SystemClock()
DEADLINE_SECONDS = 20


@handler(ApiVersionsRequest, NOTHING)
async def api_versions(request: ApiVersionsRequest, ctx: Context) -> ApiVersionsResponse:
    """What these nodes serve."""
    rows = [
        ApiVersion(api_key=key, min_version=API[key].min_version, max_version=API[key].latest_stable_version)
        for key in SERVED
    ]
    return ApiVersionsResponse(error_code=0, api_keys=rows)


def load_handler(stem: str) -> Callable[..., Any]:
    return api_versions if stem == "api_versions" else load(stem)


async def eventually(holds: Callable[[], object], what: str = "") -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():
            await asyncio.sleep(0.005)


class Node:
    """One broker without coordinators: its replicas, what it serves of them, and whom it follows."""

    def __init__(self, cluster: Cluster, node_id: int, rack: str | None) -> None:
        self.cluster = cluster
        self.id = node_id
        self.rack = rack
        self.epoch = -1
        self.port = 0
        self.root = cluster.root / f"node-{node_id}"
        self.disk = RealDisk(max_open=256)
        self.directory_id = Uuid(bytes([node_id]) * 16)
        self.controller_hears = True
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load what is on disk, register, follow and serve."""
        self.root.mkdir(exist_ok=True)
        clean = take_clean_shutdown(self.disk, str(self.root)) is not None
        loop = asyncio.get_running_loop()
        directory = LogDir(self.disk, str(self.root), self.directory_id, clean=clean)
        names = (f"{number:032x}" for number in itertools.count(random.getrandbits(64)))
        new_name = names.__next__
        self.settings = LiveSettings(self.id, self.cluster.values, self.cluster.machine.image)
        self.replicas = ReplicaManager(self.id, self.disk, [directory], self.settings, CLOCK, new_name)
        self.checkpoints = self.replicas.checkpoints
        self.syncer = Syncer(loop)
        self.waiting = Purgatory(loop)
        listener = bind(LISTENER, "127.0.0.1", self.port, SocketOptions())
        self.port = listener.port
        self.fetchers = Fetchers(
            self.replicas, self.syncer, Connector(), CLOCK, listener=LISTENER, broker_epoch=lambda: self.epoch
        )
        self.isr = IsrManager(self.replicas, self._alter_isr, CLOCK)
        self.epoch = self.cluster.register(self)
        loading = Loading(self.replicas, self.disk, CLOCK, new_name)
        assert await loading.run(self.cluster.machine.image, asyncio.Event())
        self.fetchers.start(self.cluster.machine.image)
        self.cluster.live[self.id] = self
        started = loop.create_future()
        self._running = asyncio.create_task(self._run(listener, started))
        await started
        self.cluster.unfence(self)

    async def _run(self, listener: Any, started: asyncio.Future[None]) -> None:
        sessions = FetchSessions(100, 120_000, lambda: random.randint(1, 2**31 - 1))
        async with asyncio.TaskGroup() as tasks:
            hot: Any = {
                ApiKey.PRODUCE: ProduceHandler(self.replicas, self.syncer, CLOCK, self.waiting, Lane()),
                ApiKey.FETCH: FetchHandler(self.replicas, sessions, self.waiting, CLOCK, 50 << 20),
            }
            services = [self.replicas, self.checkpoints, self.waiting]
            stems = ("api_versions", "list_offsets", "delete_records")
            dispatcher = Dispatcher(stems, services, hot, tasks, CLOCK, load=load_handler)
            limits = ConnectionLimits(100, 100)
            server = Server([listener], dispatcher, limits, SocketOptions(), CLOCK)
            for service in (server, self.fetchers, self.isr):
                tasks.create_task(service.run())
            started.set_result(None)

    async def stop(self, *, clean: bool = False) -> None:
        """Stop at once, as a killed process does; or write everything out first."""
        self.cluster.live.pop(self.id, None)
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
            self._running = None
            self.fetchers.close()
            self.syncer.close()
            if clean:
                stop_cleanly(self.replicas, self.epoch)

    async def _alter_isr(self, changes: Sequence[IsrChange]) -> Sequence[IsrOutcome]:
        await asyncio.sleep(0)
        if not self.controller_hears:
            raise NetworkException("no controller")
        wanted = [
            IsrRequest(*one.key, one.leader_epoch, one.partition_epoch, tuple(map(InSync._make, one.isr)))
            for one in changes
        ]
        outcomes = self.cluster.write(self.cluster.machine.alter_partition(self.id, self.epoch, wanted))
        return [outcome_of(one, outcome) for one, outcome in zip(changes, outcomes, strict=True)]

    def partition(self, topic: str = "orders", index: int = 0) -> Partition:
        return self.replicas.find(topic, index)

    def values_of(self, topic: str = "orders", index: int = 0) -> list[bytes]:
        """All that a replica has, committed or not."""
        partition = self.partition(topic, index)
        found: list[bytes] = []
        offset = partition.log_start_offset
        while offset < partition.log_end_offset:
            data = partition.read_own(offset, 64 << 20)
            for batch in scan(data):
                found += [record.value or b"" for record in records(data, batch)]
                offset = batch.last_offset + 1
        return found


def outcome_of(change: IsrChange, found: Any) -> IsrOutcome:
    """The controller's answer as the wire would carry it."""
    if isinstance(found, KafkaError):
        return IsrOutcome(change.topic_id, change.partition, found.code)
    return IsrOutcome(
        change.topic_id, change.partition, 0, found.leader, found.leader_epoch, found.partition_epoch, found.isr
    )


class Cluster:
    """The nodes, and the metadata that they follow."""

    def __init__(self, root: Path, nodes: int = 3, racks: Sequence[str | None] = (), **settings: object) -> None:
        self.root = root
        texts = {"node.id": "1", "replica.fetch.backoff.ms": "200", **settings}
        self.values = broker_values({key: str(value) for key, value in texts.items()})
        numbers = itertools.count(1)
        self.machine = Controller(
            100,
            CLUSTER,
            self.values,
            draw=random.Random(7).randint,
            new_id=lambda: Uuid((1 << 100 | next(numbers)).to_bytes(16, "big")),
        )
        self.now_ms = 0
        self.live: dict[int, Node] = {}
        self.write(self.machine.activate(bootstrap_records(), 0))
        racks = racks or [None] * nodes
        self.nodes = {number + 1: Node(self, number + 1, racks[number]) for number in range(nodes)}
        self._lines: dict[int, Connection] = {}
        self._dialling = asyncio.Lock()

    async def __aenter__(self) -> Cluster:
        for node in self.nodes.values():
            await node.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for line in self._lines.values():
            line.close()
        for node in self.nodes.values():
            await node.stop()
        await asyncio.sleep(0)

    # -- metadata -------------------------------------------------------------------------------------

    def write(self, transition: Any) -> Any:
        """Commit what the controller decided and let the nodes follow."""
        self.commit(transition.records)
        return transition.reply

    def commit(self, changes: Sequence[Any]) -> None:
        """Commit records."""
        if changes:
            offset = self.machine.image.offset + len(changes)
            delta = self.machine.replay(changes, offset, 1)
            for node in list(self.live.values()):
                for follow in (node.settings.apply, node.replicas.apply, node.fetchers.apply):
                    for _ in follow(self.machine.image, delta) or ():
                        pass

    def register(self, node: Node) -> int:
        endpoint = Endpoint(LISTENER, "127.0.0.1", node.port, "PLAINTEXT")
        incarnation = Uuid(random.randbytes(16))
        request = BrokerRequest(
            node.id, CLUSTER, incarnation, (endpoint,), SUPPORTED, (node.directory_id,), node.rack, -1
        )
        self.now_ms += 60_000  # the session of its last life is over
        epoch: int = self.write(self.machine.register_broker(request, self.now_ms))
        return epoch

    def unfence(self, node: Node) -> None:
        beat = Heartbeat(node.id, node.epoch, self.machine.image.offset)
        self.write(self.machine.heartbeat(beat, self.now_ms))

    def fence(self, node: Node) -> None:
        """Take a broker for dead, as the controller does when its session ends."""
        beat = Heartbeat(node.id, node.epoch, self.machine.image.offset, want_fence=True)
        self.write(self.machine.heartbeat(beat, self.now_ms))

    def topic(self, name: str = "orders", replicas: Sequence[int] = (1, 2, 3), **configs: object) -> None:
        texts: dict[str, str | None] = {key.replace("_", "."): str(value) for key, value in configs.items()}
        self.write(self.machine.create_topics([NewTopic(name, assignments=[(0, replicas)], configs=texts)]))

    def configure(self, kind: ResourceType, name: str, **configs: object) -> None:
        changes = {key.replace("_", "."): (Op.SET, str(value)) for key, value in configs.items()}
        outcome = self.write(self.machine.incremental_alter_configs({ConfigResource(kind, name): changes}))
        assert set(outcome.values()) == {None}, outcome

    def image(self, name: str = "orders", index: int = 0) -> Any:
        return self.machine.image.topics.by_name[name].partitions[index]

    def change(self, name: str = "orders", **fields: Any) -> None:
        """Change a partition as the controller would."""
        topic = self.machine.image.topics.by_name[name]
        self.commit([PartitionChangeRecord(partition_id=0, topic_id=topic.id, **fields)])

    def leader(self, name: str = "orders") -> Node:
        return self.nodes[self.image(name).leader]

    # -- clients ----------------------------------------------------------------------------------------

    async def line(self, node: Node) -> Connection:
        """A connection of a client to a node."""
        async with self._dialling:
            known = self._lines.get(node.id)
            if known is None or known.closed:
                known = self._lines[node.id] = await Connector().connect("127.0.0.1", node.port)
            return known

    async def produce(
        self, *values: bytes, topic: str = "orders", acks: int = -1, timeout_ms: int = 10_000, to: Node | None = None
    ) -> tuple[int, int]:
        """Send one batch; error code and base offset."""
        builder = BatchBuilder()
        for value in values:
            builder.append(None, value, CLOCK.now_ms())
        data = PartitionProduceData(index=0, records=builder.build())
        topic_data = TopicProduceData(name=topic, partition_data=[data])
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic_data])
        connection = await self.line(to or self.leader(topic))
        answer = await connection.request(request, ProduceResponse, version=11)
        row = answer.responses[0].partition_responses[0]
        return row.error_code, row.base_offset


Scenario = Callable[[Cluster], Awaitable[None]]


def play(root: Path, scenario: Scenario, nodes: int = 3, racks: Sequence[str | None] = (), **settings: object) -> None:
    """Run a scenario on a fresh cluster."""

    async def whole() -> None:
        texts = {key.replace("_", "."): value for key, value in settings.items()}
        async with Cluster(root, nodes, racks, **texts) as cluster:
            await scenario(cluster)

    asyncio.run(whole())
