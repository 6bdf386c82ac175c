"""Groups whose members come, go and vanish: the group reads everything, and forgets those that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Literal

from kavka.model.errors import KafkaError
from kavka.testing.sim.client import SimClient, Workload

TOPIC = "clicks"
PARTITIONS = 3
Protocol = Literal["consumer", "classic"]
LAST_LOOK_SECONDS: Final = 40.0
GROUPS: dict[str, Protocol] = {"new": "consumer", "old": "classic"}


class Members(Workload):
    """Two groups, one of each protocol, read what a producer writes."""

    share = 0.8

    def __init__(self) -> None:
        self._sent: set[str] = set()
        self._given: dict[str, set[str]] = {group: set() for group in GROUPS}
        self._lives = 0
        self._vanished = 0

    async def prepare(self, client: SimClient) -> None:
        """Create the topic."""
        await client.create_topic(TOPIC, partitions=PARTITIONS)

    async def run(self, client: SimClient) -> None:
        """Write, and have members read."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write(client))
            for group in GROUPS:
                for _ in range(2):
                    tasks.create_task(self._seat(client, group))

    async def _write(self, client: SimClient) -> None:
        chance, pool, number = client.chance, client.pool(), 0
        async with client.producer(pool) as producer:
            while client.busy:
                number += 1
                value = str(number)
                try:
                    await producer.send_and_wait(TOPIC, value.encode(), partition=chance.randrange(PARTITIONS))
                    self._sent.add(value)
                except KafkaError:
                    pass  # nobody was promised anything
                await asyncio.sleep(chance.uniform(0.02, 0.3))
        await pool.close()

    async def _seat(self, client: SimClient, group: str) -> None:
        """One member after another, each a process of its own; some leave, some vanish."""
        chance = client.chance
        while client.busy:
            self._lives += 1
            end = client.now + chance.uniform(1, 12)
            vanishes = chance.random() < 0.5
            lives = client.spawn(lambda other, end=end: self._live(other, group, end))  # type: ignore[misc]
            while lives.alive and client.busy and not (vanishes and client.now >= end):  # noqa: ASYNC110  (its own loop)
                await asyncio.sleep(0.1)
            if vanishes and lives.alive:
                self._vanished += 1
                lives.die()
            await asyncio.sleep(chance.uniform(0, 2))

    async def _live(self, client: SimClient, group: str, end: float) -> None:
        pool = client.pool()
        options = {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 500, "rebalance_timeout_ms": 3_000}
        member = client.member(
            pool,
            group=group,
            topics=[TOPIC],
            protocol=GROUPS[group],
            start="start",
            auto_commit_ms=500,
            **(options if group == "old" else {}),
        )
        try:
            async with member:
                while client.now < end and not self._all_given(client, group):
                    for record in await member.read(timeout_ms=300):
                        self._given[group].add((record.value or b"").decode())
        except KafkaError:
            await asyncio.sleep(0.1)
        finally:
            await pool.close()

    def _all_given(self, client: SimClient, group: str) -> bool:
        return not client.busy and self._sent <= self._given[group]

    async def finish(self, client: SimClient) -> None:
        """A last member of each group reads what nobody has; then all are gone."""
        pool = client.pool()
        for group in GROUPS:
            deadline = client.now + LAST_LOOK_SECONDS
            while not self._all_given(client, group) and client.now < deadline:
                await self._live(client, group, client.now + 30)
            while (await client.admin(pool).describe_group(group)).members:  # noqa: ASYNC110  (the brokers tell nobody)
                await asyncio.sleep(0.5)
        await client.admin(pool).list_groups()
        await pool.close()

    def faults(self) -> Iterable[str]:
        """What the groups were not given."""
        for group, given in self._given.items():
            if missing := self._sent - given:
                yield f"LOST: {group} was never given {sorted(missing)[:5]}"

    def counts(self) -> dict[str, int]:
        """How many members there were."""
        return {"members": self._lives, "members that vanished": self._vanished}
