"""The markers that end transactions: written to every partition of a transaction, again and again until they are there.

A coordinator decides how a transaction ends, then the markers are written, then it is complete. A partition that was
deleted needs none. Partitions that this node leads are written at once; the leaders of others are asked to.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kavka.client.deadline import within
from kavka.metadata.image.metadata import MetadataImage
from kavka.metadata.names import CONSUMER_OFFSETS
from kavka.model.clock import Clock
from kavka.model.errors import (
    BY_CODE,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimedOut,
    TransactionCoordinatorFenced,
    UnknownServerError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from kavka.model.types import TopicPartition
from kavka.protocol.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kavka.records.control import txn_marker_batch
from kavka.replica.offset_wait import Done
from kavka.runtime.shard import CoordinatorState, Port, Shard, settle
from kavka.runtime.shards import Shards

if TYPE_CHECKING:
    from kavka.coordinator.txn.machine import TransactionCoordinator
    from kavka.coordinator.txn.requests import MarkersDue

logger = logging.getLogger(__name__)

Ask = Callable[[int, Any], Awaitable[Any]]
"""Asks another node; raises KafkaError if it does not answer."""
Outcomes = dict[TopicPartition, KafkaError | None]

RETRY_SECONDS: Final = 0.02
RETRY_MAX_SECONDS: Final = 1.0
NOBODY: Final = -1
NOT_READY: Final = (CoordinatorNotAvailable, CoordinatorLoadInProgress, NotCoordinator)


class MarkerReplicas(Protocol):
    """Where the partitions are."""

    image: MetadataImage

    @property
    def node_id(self) -> int:
        """This node."""

    def held(self, topic: str, index: int, /) -> LeadingPort | None:
        """A partition if it is held here."""


class LeadingPort(Port, Protocol):
    """A partition that may be led by this node."""

    leader_epoch: int


class TxnMarkerEntry(NamedTuple):
    """The end of a producer's transaction, for whichever partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    version: int


class MarkerWriter:
    """Writes markers to the partitions that this node leads."""

    def __init__(
        self,
        replicas: MarkerReplicas,
        groups: Shards[Any],
        force: Callable[[Port, Done], None],
        clock: Clock,
        timeout_ms: int,
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._force = force
        self._clock = clock
        self._timeout_ms = timeout_ms

    async def write(self, partition: TopicPartition, marker: TxnMarkerEntry) -> None:
        """Write a marker and wait until it is committed; raises KafkaError."""
        port = self._replicas.held(partition.topic, partition.partition)
        if port is None:
            raise UnknownTopicOrPartition(f"{partition} has no replica on this node")
        batch = txn_marker_batch(
            commit=marker.commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._clock.now_ms(),
        )
        if partition.topic == CONSUMER_OFFSETS:
            await self._write_offsets(partition.partition, batch, marker)
            return
        offset = port.append_own(batch, self._clock.now_ms(), marker.version)
        await self._committed(port, offset)

    async def _write_offsets(self, index: int, batch: bytes, marker: TxnMarkerEntry) -> None:
        """The groups whose offsets the transaction commits must hear of it."""
        try:
            shard = self._groups.at(index)
            await shard.end_transaction(batch, marker.producer_id, committed=marker.commit, version=marker.version)
        except NOT_READY as error:  # what a transaction coordinator knows of a partition
            raise NotLeaderOrFollower(error.message) from error

    async def _committed(self, port: Port, offset: int) -> None:
        """Wait until what is at an offset is on disk, if it has to be, and on the in-sync replicas."""
        loop = asyncio.get_running_loop()
        committed: asyncio.Future[None] = loop.create_future()
        wait = port.when_committed(offset + 1, lambda error: settle(committed, None, error))
        try:
            if port.sync_due:
                forced: asyncio.Future[None] = loop.create_future()
                self._force(port, lambda error: settle(forced, None, error))
                await forced
            async with within(self._timeout_ms / 1000):
                await committed
        except TimeoutError:
            raise RequestTimedOut(f"a marker in {port.topic_partition} was not replicated in time") from None
        finally:
            wait.cancel()


class Markers:
    """Sees to it that the markers of every transaction that this node has decided are written."""

    def __init__(self, replicas: MarkerReplicas, writer: MarkerWriter, ask: Ask) -> None:
        self._replicas = replicas
        self._writer = writer
        self._ask = ask
        self._due: asyncio.Queue[tuple[Shard[TransactionCoordinator], MarkersDue]] = asyncio.Queue()
        self.pending = 0

    def publish(self, shard: Shard[TransactionCoordinator], news: MarkersDue) -> None:
        """A transaction's end is decided."""
        self.pending += 1
        self._due.put_nowait((shard, news))

    async def run(self) -> None:
        """Write markers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                shard, due = await self._due.get()
                tasks.create_task(self._finish(shard, due))

    async def _finish(self, shard: Shard[TransactionCoordinator], due: MarkersDue) -> None:
        try:
            while True:
                if await self._tried(shard, due):
                    return
                await asyncio.sleep(RETRY_MAX_SECONDS)
        finally:
            self.pending -= 1

    async def _tried(self, shard: Shard[TransactionCoordinator], due: MarkersDue) -> bool:
        """Try to finish a transaction; whether there is nothing left to try."""
        try:
            if await self._write_all(shard, due):
                await shard.submit(lambda machine, now_ms: machine.complete(due.transactional_id, due.producer, now_ms))
        except KafkaError as error:
            # The shard starts over, and its machine publishes what is left to do; or it is somebody else's now.
            logger.info("not completing the transaction of %s here: %s", due.transactional_id, error)
        except Exception:
            # One transaction's fault: it is tried again, and the others are not kept from their end.
            logger.exception("completing the transaction of %s failed, retrying", due.transactional_id)
            return False
        return True

    async def _write_all(self, shard: Shard[TransactionCoordinator], due: MarkersDue) -> bool:
        """Write a transaction's markers; whether all are there, and not this node the wrong one to write them."""
        machine = shard.machine
        left = set(due.partitions)
        delay = RETRY_SECONDS
        while True:
            if shard.state is not CoordinatorState.ACTIVE or shard.machine is not machine:
                return False
            outcomes = await self._write_some(left, self._marker(shard, due))
            for partition, error in outcomes.items():
                if isinstance(error, TransactionCoordinatorFenced):
                    logger.warning(
                        "writing the transaction marker of %s to %s failed: %s", due.transactional_id, partition, error
                    )
                    return False
                if error is None or isinstance(error, InvalidProducerEpoch | UnsupportedVersion):
                    if error is not None:
                        logger.warning(
                            "%s: skipping the transaction marker of %s: %s", partition, due.transactional_id, error
                        )
                    left.discard(partition)
            if not left:
                return True
            await asyncio.sleep(delay)
            delay = min(2 * delay, RETRY_MAX_SECONDS)

    def _marker(self, shard: Shard[TransactionCoordinator], due: MarkersDue) -> TxnMarkerEntry:
        port = shard.port
        found = self._replicas.held(*port.topic_partition)
        epoch = found.leader_epoch if found is not None else 0
        return TxnMarkerEntry(due.producer.producer_id, due.producer.producer_epoch, due.commit, epoch, due.version)

    async def _write_some(self, partitions: Iterable[TopicPartition], marker: TxnMarkerEntry) -> Outcomes:
        """Try to write markers to partitions once, wherever they are led."""
        outcomes: Outcomes = {}
        by_node: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition in sorted(partitions):
            leader = self._leader_of(partition)
            if leader is None:
                logger.info("%s was deleted, skipping its transaction marker", partition)
                outcomes[partition] = None
            else:
                by_node[leader].append(partition)
        tries = [self._write_at(node, there, marker) for node, there in by_node.items() if node != NOBODY]
        for found in await asyncio.gather(*tries):
            outcomes |= found
        return outcomes

    def _leader_of(self, partition: TopicPartition) -> int | None:
        topic = self._replicas.image.topics.by_name.get(partition.topic)
        found = topic.partitions.get(partition.partition) if topic is not None else None
        return None if found is None else found.leader

    async def _write_at(self, node: int, partitions: list[TopicPartition], marker: TxnMarkerEntry) -> Outcomes:
        if node != self._replicas.node_id:
            return await self._send(node, partitions, marker)
        outcomes: Outcomes = {}
        for partition, result in zip(
            partitions,
            await asyncio.gather(
                *(self._writer.write(partition, marker) for partition in partitions), return_exceptions=True
            ),
            strict=True,
        ):
            if result is not None and not isinstance(result, KafkaError):
                logger.error("writing a transaction marker to %s failed", partition, exc_info=result)
                result = UnknownServerError()
            outcomes[partition] = result
        return outcomes

    async def _send(self, node: int, partitions: list[TopicPartition], marker: TxnMarkerEntry) -> Outcomes:
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, index in partitions:
            topics[topic].append(index)
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=marker.commit,
                    topics=[
                        WritableTxnMarkerTopic(name=name, partition_indexes=there) for name, there in topics.items()
                    ],
                    coordinator_epoch=marker.coordinator_epoch,
                    transaction_version=marker.version,
                )
            ]
        )
        try:
            response: WriteTxnMarkersResponse = await self._ask(node, request)
        except KafkaError as error:
            return dict.fromkeys(partitions, error)
        return {
            TopicPartition(topic.name, row.partition_index): error_of(row.error_code)
            for result in response.markers
            for topic in result.topics
            for row in topic.partitions
        }


def error_of(code: int) -> KafkaError | None:
    """What another node says of a partition."""
    return BY_CODE.get(code, UnknownServerError)() if code else None
