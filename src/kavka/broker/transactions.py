"""The transaction coordinator of a node put together: its shards, the markers they have written, and verification."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar, Final

from kavka.coordinator.txn.codec import CODEC
from kavka.coordinator.txn.machine import TransactionCoordinator
from kavka.metadata.image import MetadataImage
from kavka.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from kavka.model.settings import Values, coordinators
from kavka.model.settings.broker import REQUEST_TIMEOUT_MS
from kavka.runtime.coordinators import HostNode, InternalTopic, LogCoordinator
from kavka.runtime.markers import Markers, MarkerWriter
from kavka.runtime.shard import ShardRuntime
from kavka.runtime.shards import Shards
from kavka.runtime.transactions import SpareIds, Transactions
from kavka.runtime.verification import Verification

LINGER_MS: Final = 0


class TransactionCoordination(LogCoordinator):
    """The transaction coordinator of a node: its shards follow the metadata."""

    key_type: ClassVar[int | None] = 1

    def __init__(self, node: HostNode) -> None:
        settings, ids = node.settings, SpareIds(node.new_producer_id)
        timeout_ms = settings[REQUEST_TIMEOUT_MS]

        def new_machine(image: MetadataImage) -> TransactionCoordinator:
            return TransactionCoordinator(settings.values, image, new_producer_id=ids.take)

        groups = node.made.of_topic(CONSUMER_OFFSETS).shards
        self.writer = MarkerWriter(node.replicas, groups, node.force, node.clock, timeout_ms)
        self.markers = Markers(node.replicas, self.writer, node.ask)
        self.shards: Shards[TransactionCoordinator] = Shards(
            TRANSACTION_STATE,
            settings[coordinators.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
            node.replicas,
            new_machine,
            CODEC,
            ShardRuntime(
                node.loop,
                node.clock,
                node.timers,
                node.force,
                timeout_ms,
                LINGER_MS,
                publish=self.markers.publish,
            ),
        )
        self.transactions = Transactions(self.shards, ids)
        self.verification = Verification(node.replicas, self.transactions, node.ask, node.clock)
        settings.subscribe(self.shards.configure)

    @property
    def services(self) -> Iterable[object]:
        """What handlers may ask for."""
        return self.transactions, self.writer, self.verification

    def internal_topic(self, values: Values) -> InternalTopic:
        """`__transaction_state`."""
        return InternalTopic(
            TRANSACTION_STATE,
            values[coordinators.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
            coordinators.TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "unclean.leader.election.enable": "false",
                "min.insync.replicas": str(values[coordinators.TRANSACTION_STATE_LOG_MIN_ISR]),
                "segment.bytes": str(values[coordinators.TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
            },
        )

    async def run(self) -> None:
        """Load shards, write markers and verify until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.shards.run())
            tasks.create_task(self.markers.run())
            tasks.create_task(self.verification.run())
