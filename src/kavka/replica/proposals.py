"""The ISR changes that the partitions of a node propose, until the controller is asked for them."""

from __future__ import annotations

import asyncio

from kavka.replica.partition import Partition
from kavka.replication.isr import IsrChange


class IsrProposals:
    """The newest proposal of each partition."""

    def __init__(self) -> None:
        self._wanted: dict[Partition, IsrChange] = {}
        self._proposed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._wanted

    def __getitem__(self, partition: Partition) -> IsrChange:
        return self._wanted[partition]

    def add(self, partition: Partition, change: IsrChange) -> None:
        """Add a proposal, in place of an earlier one."""
        self._wanted[partition] = change
        self._proposed.set()

    def drop(self, partition: Partition) -> None:
        """The partition is gone."""
        self._wanted.pop(partition, None)

    def take(self) -> dict[Partition, IsrChange]:
        """All proposals, which are the caller's business from now on."""
        wanted, self._wanted = self._wanted, {}
        self._proposed.clear()
        return wanted

    async def wait(self) -> None:
        """Wait until there is one."""
        await self._proposed.wait()
