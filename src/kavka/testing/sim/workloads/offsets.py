"""Committed offsets as registers: what was acknowledged, or read once, is never forgotten.

As with Kafka, a coordinator that has been replaced and has not heard of it yet may tell what was true before. So what
was seen counts for the coordinator that told it and for those after it, which are told by the partition's leader epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from kavka.client.group_link import GroupLink
from kavka.client.group_offsets import commit_offsets, fetch_offsets
from kavka.metadata.names import CONSUMER_OFFSETS
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.runtime.shards import partition_of
from kavka.testing.sim.client import SimClient, Workload

TOPIC: Final = "pages"
GROUPS: Final = ("ledger", "journal")
PAGE: Final = TopicPartition(TOPIC, 0)
PATIENT_MS: Final = 600_000
"""A request that is given up may still arrive, and undo a later one; so none is given up."""
FOR_EVER: Final = 1 << 31


class Seen(NamedTuple):
    """What was found or written, from when to when, and between which leader epochs the coordinator was then."""

    began: float
    ended: float
    value: int
    least_epoch: int
    most_epoch: int


class Register:
    """A committed offset that only grows: what was acknowledged of it, and what was found."""

    def __init__(self) -> None:
        self.written: list[Seen] = []
        self.read: list[Seen] = []

    def faults(self, name: str) -> Iterable[str]:
        """Nobody may see less than what was acknowledged or seen before."""
        known = sorted([*self.written, *self.read], key=lambda look: look.ended)
        for look in self.read:
            for earlier in known:
                if earlier.ended >= look.began:
                    break
                if earlier.value > look.value and earlier.most_epoch <= look.least_epoch:
                    was, now = f"{earlier.value} at {earlier.ended:.3f} s", f"{look.value} at {look.began:.3f} s"
                    yield f"{name} was {was} and is {now}"
                    break


class Offsets(Workload):
    """One writer per group, whose numbers only grow, and readers everywhere."""

    def __init__(self) -> None:
        self._registers = {group: Register() for group in GROUPS}

    async def prepare(self, client: SimClient) -> None:
        """Create the topic that the offsets are of."""
        await client.create_topic(TOPIC, partitions=1)

    async def run(self, client: SimClient) -> None:
        """Commit and look."""
        async with asyncio.TaskGroup() as tasks:
            for group in GROUPS:
                tasks.create_task(self._write(client, group))
                for _ in range(2):
                    tasks.create_task(self._look(client, group))

    async def _write(self, client: SimClient, group: str) -> None:
        pool, number = client.pool(timeout_ms=PATIENT_MS), 0
        link = GroupLink(pool, group)
        while client.busy:
            number += 1
            began, before = client.now, epochs(client, group)
            while True:
                try:
                    await commit_offsets(link, {PAGE: number})
                    break
                except KafkaError:
                    await asyncio.sleep(0.05)  # the same number again
            self._registers[group].written.append(await seen(client, link, began, before, number))
            await asyncio.sleep(client.chance.uniform(0.005, 0.15))
        await pool.close()

    async def _look(self, client: SimClient, group: str) -> None:
        pool = client.pool()
        link = GroupLink(pool, group)
        while client.busy:
            await self._read_once(client, link, group)
            await asyncio.sleep(client.chance.uniform(0.002, 0.08))
        await pool.close()

    async def _read_once(self, client: SimClient, link: GroupLink, group: str) -> None:
        began, before = client.now, epochs(client, group)
        try:
            found = await fetch_offsets(link)
        except KafkaError:
            return
        value = found[PAGE].offset if PAGE in found else 0
        self._registers[group].read.append(await seen(client, link, began, before, value))

    async def finish(self, client: SimClient) -> None:
        """A last look."""
        pool = client.pool()
        for group in GROUPS:
            await self._read_once(client, GroupLink(pool, group), group)
        await pool.close()

    def faults(self) -> Iterable[str]:
        """Nobody may see less than what was acknowledged or seen before."""
        for group, register in self._registers.items():
            yield from register.faults(group)

    def counts(self) -> dict[str, int]:
        """How many commits were acknowledged."""
        return {"committed offsets": sum(len(register.written) for register in self._registers.values())}


def epochs(client: SimClient, group: str) -> dict[int, int]:
    """By node: the leader epoch of the group's partition as that node knows it."""
    index = partition_of(group, client.cluster.coordinator_partitions)
    return client.cluster.leader_epochs(CONSUMER_OFFSETS, index)


async def seen(client: SimClient, link: GroupLink, began: float, before: dict[int, int], value: int) -> Seen:
    """What the coordinator that a link leads to has just told."""
    node = await link.node()
    after = epochs(client, link.group_id)
    return Seen(began, client.now, value, before.get(node, -1), after.get(node, FOR_EVER))
