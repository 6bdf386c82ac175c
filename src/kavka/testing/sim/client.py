"""A machine with clients on it, and what a workload is."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kavka.client.admin import Admin
from kavka.client.consumer import Consumer
from kavka.client.dial import Transport
from kavka.client.fetched import ConsumerRecord
from kavka.client.group_consumer import GroupConsumer
from kavka.client.pool import Pool
from kavka.client.producer import Producer
from kavka.model.errors import KafkaError, TopicAlreadyExists
from kavka.model.types import TopicPartition, Uuid
from kavka.testing.sim.machine import Process
from kavka.testing.sim.network import Network, SimDial
from kavka.testing.sim.node import BROKER_PORT, SimNode

if TYPE_CHECKING:
    from kavka.testing.sim.cluster import SimCluster


class SimClient:
    """What a workload has: the shipped client on a machine of its own, the time, and chance."""

    def __init__(self, cluster: SimCluster, process: Process) -> None:
        self.cluster = cluster
        self.process = process
        self._network: Network = cluster.network

    @property
    def chance(self) -> random.Random:
        """Chance, which is the same in every run of a seed."""
        return self.process.random

    @property
    def now(self) -> float:
        """The world's time in seconds: one for all machines."""
        return self.cluster.world.now

    @property
    def busy(self) -> bool:
        """Whether there is still something to be done: until the trouble is over."""
        return self.cluster.busy

    async def calm(self) -> None:
        """Wait until all nodes are well again, and stay so."""
        while not self.cluster.is_calm:  # noqa: ASYNC110  (no event is shared by several loops)
            await asyncio.sleep(0.05)

    def spawn(self, main: Callable[[SimClient], Coroutine[Any, Any, None]]) -> Process:
        """Another process, on a machine of its own, that can be killed: `die` ends it without a word."""
        return self.cluster.spawn(main)

    async def ended(self, *processes: Process) -> None:
        """Wait until processes have come to their end."""
        while any(process.alive for process in processes):  # noqa: ASYNC110  (no event is shared by several loops)
            await asyncio.sleep(0.05)

    async def connect(self, node: SimNode, port: int, receiver: asyncio.BufferedProtocol) -> Transport:
        """Connect to a node by oneself; raises NetworkException."""
        return await self._network.connect(self.process, node.machine.address, port, receiver)

    def pool(self, port: int = BROKER_PORT, **options: Any) -> Pool:
        """The connections of one client."""
        process = self.process
        addresses = [f"{node.machine.address}:{port}" for node in self.cluster.nodes]
        process.random.shuffle(addresses)
        given = {"timeout_ms": 5_000, "connect_timeout_ms": 2_000, "metadata_max_age_ms": 5_000, **options}
        return Pool(addresses, dial=SimDial(self._network, process), draw=process.random.random, **given)

    def producer(self, pool: Pool, **options: Any) -> Producer:
        """A producer."""
        given = {"request_timeout_ms": 3_000, "delivery_timeout_ms": 60_000, **options}
        return Producer(pool, clock=self.process, **given)

    def consumer(self, pool: Pool, **options: Any) -> Consumer:
        """A consumer by assignment."""
        return Consumer(pool, **options)

    def member(self, pool: Pool, **options: Any) -> GroupConsumer:
        """A consumer that is a member of a group."""
        chance = self.process.random
        return GroupConsumer(pool, new_id=lambda: Uuid(chance.randbytes(16)), **options)

    async def follow(self, topic: str, given: Callable[[ConsumerRecord], None], **options: Any) -> None:
        """Read a topic as it comes, for as long as there is trouble: one reader after another, each from the start."""
        while self.busy:
            pool = self.pool()
            try:
                async with self.consumer(pool, **options) as consumer:
                    await consumer.assign(topic, start="start")
                    stop_at = self.now + self.chance.uniform(1, 20)
                    while self.busy and self.now < stop_at:
                        for record in await consumer.read(timeout_ms=500):
                            given(record)
            except KafkaError:
                await asyncio.sleep(0.1)
            finally:
                await pool.close()

    async def insist(self, ask: Callable[[], Awaitable[object]]) -> None:
        """Ask for something however often that must be: an answer may be lost on the way."""
        while True:
            try:
                await ask()
                return
            except KafkaError:
                await asyncio.sleep(0.1)

    async def create_topic(self, name: str, **options: Any) -> None:
        """Create a topic, however often that must be asked for."""
        pool = self.pool()

        async def create() -> None:
            with contextlib.suppress(TopicAlreadyExists):
                await self.admin(pool).create_topic(name, **options)

        await self.insist(create)
        await pool.close()

    def admin(self, pool: Pool) -> Admin:
        """An admin client."""
        return Admin(pool)


class Workload:
    """Something that clients do while nodes fail, and what must be true of it.

    A module in `workloads` that has a subclass is all it takes to have one more in every run that its share allows.
    """

    share: ClassVar[float] = 1.0
    """In what part of the runs it takes part."""
    settings: ClassVar[Mapping[str, str]] = {}
    """What it needs nodes to be configured with."""
    listeners: ClassVar[Mapping[str, int]] = {}
    """The names and ports of listeners that it needs nodes to have beside their own."""

    async def prepare(self, client: SimClient) -> None:
        """Before there is any trouble: create what is needed."""

    async def run(self, client: SimClient) -> None:
        """While there is: go on until the client is not busy any more."""

    async def finish(self, client: SimClient) -> None:
        """When all is well again: look at what has become of it."""

    def faults(self) -> Iterable[str]:
        """What is wrong."""
        return ()

    def counts(self) -> dict[str, int]:
        """How much was done."""
        return {}


def name_of(tp: TopicPartition) -> str:
    """A partition as histories have it."""
    return f"{tp.topic}-{tp.partition}"
