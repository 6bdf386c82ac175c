"""Committed offsets as registers: what was acknowledged, or read once, is never forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.testing.virtual.client import Client, Workload

TOPIC = "pages"
GROUPS = ("ledger", "journal")
PAGE = TopicPartition(TOPIC, 0)
PATIENT_MS = 600_000
"""A request that is given up may still arrive, and undo a later one; so none is given up."""


class Seen(NamedTuple):
    """What one look at a register found, and from when to when it looked."""

    began: float
    ended: float
    value: int


class Offsets(Workload):
    """One writer per group, whose numbers only grow, and readers everywhere."""

    def __init__(self) -> None:
        self._written: dict[str, list[Seen]] = {group: [] for group in GROUPS}
        self._read: dict[str, list[Seen]] = {group: [] for group in GROUPS}

    async def prepare(self, client: Client) -> None:
        """Create the topic that the offsets are of."""
        pool = client.pool()
        await client.admin(pool).create_topic(TOPIC, partitions=1)
        await pool.close()

    async def run(self, client: Client) -> None:
        """Commit and look."""
        async with asyncio.TaskGroup() as tasks:
            for group in GROUPS:
                tasks.create_task(self._write(client, group))
                for _ in range(2):
                    tasks.create_task(self._look(client, group))

    async def _write(self, client: Client, group: str) -> None:
        pool, number = client.pool(timeout_ms=PATIENT_MS), 0
        while client.busy:
            number += 1
            began = client.now
            while True:
                try:
                    await client.admin(pool).alter_group_offsets(group, {PAGE: number})
                    break
                except KafkaError:
                    await asyncio.sleep(0.05)  # the same number again
            self._written[group].append(Seen(began, client.now, number))
            await asyncio.sleep(client.chance.uniform(0.01, 0.4))
        await pool.close()

    async def _look(self, client: Client, group: str) -> None:
        pool = client.pool()
        while client.busy:
            await self._read_once(client, pool, group)
            await asyncio.sleep(client.chance.uniform(0.005, 0.2))
        await pool.close()

    async def _read_once(self, client: Client, pool: object, group: str) -> None:
        began = client.now
        try:
            found = await client.admin(pool).group_offsets(group)  # type: ignore[arg-type]
        except KafkaError:
            return
        self._read[group].append(Seen(began, client.now, found[PAGE].offset if PAGE in found else 0))

    async def finish(self, client: Client) -> None:
        """A last look."""
        pool = client.pool()
        for group in GROUPS:
            await self._read_once(client, pool, group)
        await pool.close()

    def faults(self) -> Iterable[str]:
        """Nobody may see less than what was acknowledged or seen before."""
        for group in GROUPS:
            known = sorted([*self._written[group], *self._read[group]], key=lambda one: one.ended)
            at, highest = 0, 0
            for look in sorted(self._read[group], key=lambda one: one.began):
                while at < len(known) and known[at].ended < look.began:
                    highest = max(highest, known[at].value)
                    at += 1
                if look.value < highest:
                    yield f"{group} was {highest} and is {look.value} at {look.began:.3f} s"

    def counts(self) -> dict[str, int]:
        """How many commits were acknowledged."""
        return {"committed offsets": sum(map(len, self._written.values()))}
