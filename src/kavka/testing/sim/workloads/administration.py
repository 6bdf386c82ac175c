"""An administrator: what the controller has acknowledged is so, and stays so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from kavka.client.admin import Admin
from kavka.client.admin_cluster import UpgradeType
from kavka.client.admin_configs import ConfigResource, ResourceType
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.testing.sim.client import SimClient, Workload
from kavka.testing.sim.node import CONTROLLER_PORT

RETENTION = "retention.ms"
MAX_TOPICS = 6


class Administration(Workload):
    """Topics come and go, partitions move, voters change."""

    def __init__(self) -> None:
        self._there: dict[str, int | None] = {}
        """By name of what was surely created: its retention, None if that is not known."""
        self._gone: set[str] = set()
        self._unknown: set[str] = set()
        self._next = 0
        self._done = 0
        self._found: dict[str, int] = {}

    async def run(self, client: SimClient) -> None:
        """Do one thing after the other."""
        acts: list[Callable[[SimClient, Admin], Awaitable[None]]] = [
            *[self._create] * 4,
            *[self._configure] * 4,
            *[self._delete] * 2,
            *[self._move] * 3,
            *[self._voters] * 3,
            self._grow,
            self._elect,
            self._look,
            self._features,
        ]
        pool = client.pool()
        admin = client.admin(pool)
        while client.busy:
            try:
                await client.chance.choice(acts)(client, admin)
                self._done += 1
            except KafkaError:
                pass  # what is not known any more was noted before
            await asyncio.sleep(client.chance.uniform(0.05, 1))
        await pool.close()

    async def _create(self, client: SimClient, admin: Admin) -> None:
        if len(self._there) >= MAX_TOPICS:
            return
        self._next += 1
        name, retention = f"adm-{self._next}", 10**9 + self._next
        self._unknown.add(name)
        await admin.create_topic(name, partitions=client.chance.randint(1, 3), configs={RETENTION: str(retention)})
        self._unknown.discard(name)
        self._there[name] = retention

    def _any_topic(self, client: SimClient) -> str | None:
        return client.chance.choice(sorted(self._there)) if self._there else None

    async def _configure(self, client: SimClient, admin: Admin) -> None:
        if (name := self._any_topic(client)) is None:
            return
        self._next += 1
        retention, was_known = 10**9 + self._next, self._there[name] is not None
        self._there[name] = None  # for good, if this fails: a request that was given up may still arrive
        await admin.alter_configs(ConfigResource(ResourceType.TOPIC, name), set={RETENTION: str(retention)})
        if was_known:
            self._there[name] = retention

    async def _delete(self, client: SimClient, admin: Admin) -> None:
        if (name := self._any_topic(client)) is None:
            return
        del self._there[name]
        self._unknown.add(name)
        await admin.delete_topic(name)
        self._unknown.discard(name)
        self._gone.add(name)

    async def _grow(self, client: SimClient, admin: Admin) -> None:
        if (name := self._any_topic(client)) is not None:
            await admin.create_partitions(name, 4)

    async def _move(self, client: SimClient, admin: Admin) -> None:
        """Move a partition of any topic to other brokers, or back."""
        ids = [node.id for node in client.cluster.nodes]
        topics = [topic.name for topic in await admin.list_topics(internal=True)]
        if topics:
            name = client.chance.choice(topics)
            client.chance.shuffle(ids)
            await admin.reassign({TopicPartition(name, 0): ids[:3]})
            await admin.reassignments()

    async def _elect(self, client: SimClient, admin: Admin) -> None:
        await admin.elect_leaders()

    async def _voters(self, client: SimClient, admin: Admin) -> None:
        quorum = await admin.describe_quorum()
        chance = client.chance
        if quorum.observers and (len(quorum.voters) <= 3 or chance.random() < 0.5):
            observer = chance.choice(quorum.observers)
            address = next(node.machine.address for node in client.cluster.nodes if node.id == observer.id)
            await admin.add_voter(observer.id, observer.directory_id, {"CONTROLLER": (address, CONTROLLER_PORT)})
        elif len(quorum.voters) > 3 or chance.random() < 0.3:
            voter = chance.choice(quorum.voters)
            await admin.remove_voter(voter.id, voter.directory_id)

    async def _look(self, client: SimClient, admin: Admin) -> None:
        await admin.describe_cluster(include_fenced=True)
        await admin.describe_log_dirs()
        await admin.list_groups()
        await admin.describe_topics([topic.name for topic in await admin.list_topics()])

    async def _features(self, client: SimClient, admin: Admin) -> None:
        features = await admin.describe_features()
        level = features.finalized["metadata.version"]
        down = UpgradeType.SAFE_DOWNGRADE
        await admin.update_features({"metadata.version": level - 1}, upgrade_type=down, validate_only=True)

    async def finish(self, client: SimClient) -> None:
        """See what is there."""
        pool = client.pool()
        admin = client.admin(pool)
        resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in await admin.list_topics()]
        for resource, configs in (await admin.describe_configs(*resources)).items():
            self._found[resource.name] = int(configs[RETENTION].value or -1)
        await pool.close()

    def faults(self) -> Iterable[str]:
        """What is not as it was acknowledged."""
        for name, retention in self._there.items():
            if name not in self._found:
                yield f"topic {name} was created and is not there"
            elif retention is not None and self._found[name] != retention:
                yield f"{RETENTION} of {name} was set to {retention} and is {self._found[name]}"
        for name in sorted(self._gone & self._found.keys()):
            yield f"topic {name} was deleted and is there"

    def counts(self) -> dict[str, int]:
        """How much was done."""
        return {"administrative acts": self._done}
