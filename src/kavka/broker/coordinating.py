"""The coordinators of a node: made soon after it is ready, or when a request needs them before that.

What they consist of is imported then, so that a node starts without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.model.clock import Clock
from kavka.model.types import Uuid
from kavka.replica.manager import ReplicaManager
from kavka.replica.syncing import Syncer

if TYPE_CHECKING:
    from kavka.broker.coordination import GroupCoordination
    from kavka.broker.transactions import TransactionCoordination
    from kavka.runtime.verification import Verification

PARTS: Final = ("kavka.broker.transactions", "kavka.coordinator.groups", "kavka.coordinator.txn.machine")


class Coordinators(NamedTuple):
    """The coordinators of groups and of transactions."""

    groups: GroupCoordination
    transactions: TransactionCoordination


class Coordinating:
    """The coordinators of a node, as its broker has them before and after they are made."""

    def __init__(
        self,
        replicas: ReplicaManager,
        syncer: Syncer,
        clock: Clock,
        new_id: Callable[[], Uuid],
        new_producer_id: Callable[[], Awaitable[int]],
        ask: Callable[[int, Any], Awaitable[Any]],
    ) -> None:
        self._given = (replicas, syncer, clock, new_id, new_producer_id, ask)
        self._made: Coordinators | None = None
        self._wanted = asyncio.Event()

    async def load(self) -> None:
        """Import what the coordinators consist of, beside what is being done, and make them."""
        loop = asyncio.get_running_loop()
        for part in PARTS:
            await loop.run_in_executor(None, import_module, part)
        self.made()

    def made(self) -> Coordinators:
        """The coordinators, from now on if there are none yet."""
        if self._made is None:
            from kavka.broker.coordination import GroupCoordination
            from kavka.broker.transactions import TransactionCoordination

            replicas, syncer, clock, new_id, new_producer_id, ask = self._given
            groups = GroupCoordination(replicas, syncer, clock, new_id)
            groups.start()
            transactions = TransactionCoordination(replicas, groups, syncer, clock, new_producer_id, ask)
            self._made = Coordinators(groups, transactions)
            self._wanted.set()
        return self._made

    def __iter__(self) -> Iterator[object]:
        """What handlers may ask for; makes the coordinators."""
        groups, transactions = self.made()
        yield from (groups.groups, transactions.transactions, transactions.writer, transactions.verification)

    def verification(self) -> Verification:
        """Who says whether a producer may write to a partition in its transaction."""
        return self.made().transactions.verification

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have."""
        if self._made is not None:
            yield from self._made.groups.apply(image, delta)
            yield from self._made.transactions.apply(image, delta)

    async def run(self) -> None:
        """Take over what this node leads, until cancelled."""
        await self._wanted.wait()
        groups, transactions = self.made()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(groups.run())
            tasks.create_task(transactions.run())

    def close(self) -> None:
        """Tell whoever waits to look elsewhere."""
        if self._made is not None:
            self._made.groups.close()
            self._made.transactions.close()
