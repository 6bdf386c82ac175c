"""What the partitions of a node want changed of their in-sync replicas, until the controller is asked for it."""

from __future__ import annotations

import asyncio

from kavka.replica.partition import Partition
from kavka.replication.isr import IsrChange


class IsrProposals:
    """The newest wish of each partition."""

    def __init__(self) -> None:
        self._wanted: dict[Partition, IsrChange] = {}
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._wanted

    def __getitem__(self, partition: Partition) -> IsrChange:
        return self._wanted[partition]

    def add(self, partition: Partition, change: IsrChange) -> None:
        """Note a wish; an earlier one is overtaken."""
        self._wanted[partition] = change
        self._some.set()

    def drop(self, partition: Partition) -> None:
        """The partition is gone."""
        self._wanted.pop(partition, None)

    def take(self) -> dict[Partition, IsrChange]:
        """All wishes, which are the caller's business from now on."""
        wanted, self._wanted = self._wanted, {}
        self._some.clear()
        return wanted

    async def wait(self) -> None:
        """Wait until there is one."""
        await self._some.wait()
