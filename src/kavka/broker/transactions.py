"""The transaction coordinator of a node put together: its shards, the markers they have written, and verification."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kavka.broker.coordination import GroupCoordination, forcing
from kavka.coordinator.record import encode_record
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage, ResourceType
from kavka.metadata.names import TRANSACTION_STATE
from kavka.model.clock import Clock
from kavka.model.settings import coordinators
from kavka.model.settings.broker import REQUEST_TIMEOUT_MS
from kavka.replica.manager import ReplicaManager
from kavka.replica.syncing import Syncer
from kavka.runtime.coordinators import Coordinators
from kavka.runtime.markers import Ask, Markers, MarkerWriter
from kavka.runtime.shard import RecordCodec, Surroundings
from kavka.runtime.timers import Timers
from kavka.runtime.transactions import SpareIds, Transactions
from kavka.runtime.verification import Verification

if TYPE_CHECKING:
    from kavka.coordinator.txn.machine import TransactionCoordinator

LINGER_MS: Final = 0


class TransactionCoordination:
    """The transaction coordinator of a node: its shards follow the metadata."""

    def __init__(
        self,
        replicas: ReplicaManager,
        groups: GroupCoordination,
        syncer: Syncer,
        clock: Clock,
        new_producer_id: Callable[[], Awaitable[int]],
        ask: Ask,
    ) -> None:
        self._replicas = replicas
        values, force, loop = replicas.values, forcing(syncer), asyncio.get_running_loop()
        ids = SpareIds(new_producer_id)

        def new_machine(image: MetadataImage) -> TransactionCoordinator:
            from kavka.coordinator.txn.machine import TransactionCoordinator  # not at start-up: few clusters have any

            return TransactionCoordinator(replicas.values, image, new_producer_id=ids.take)

        def decode(key: bytes | None, value: bytes | None) -> Any:
            from kavka.coordinator.txn.records import decode_transaction

            return decode_transaction(key, value)

        self.writer = MarkerWriter(replicas, groups.shards, force, clock, values[REQUEST_TIMEOUT_MS])
        self.markers = Markers(replicas, self.writer, ask)
        self.shards: Coordinators[TransactionCoordinator] = Coordinators(
            TRANSACTION_STATE,
            values[coordinators.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
            replicas,
            new_machine,
            RecordCodec(encode_record, decode),
            Surroundings(
                loop,
                clock,
                Timers(loop),
                force,
                values[REQUEST_TIMEOUT_MS],
                LINGER_MS,
                publish=self.markers.publish,
            ),
        )
        self.transactions = Transactions(self.shards, ids)
        self.verification = Verification(replicas, self.transactions, ask, clock)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have."""
        if any(resource.type == ResourceType.BROKER for resource in delta.configs):
            self.shards.configure(self._replicas.values)
        yield from self.shards.apply(image, delta)

    async def run(self) -> None:
        """Take over what this node leads, and load shards and write markers until cancelled."""
        self.shards.start(self._replicas.image)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.shards.run())
            tasks.create_task(self.markers.run())
            tasks.create_task(self.verification.run())

    def close(self) -> None:
        """Tell whoever waits to look elsewhere."""
        self.shards.close()
