"""Topics made, changed and deleted while nodes crash: what was acknowledged must be so afterwards."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from crash.history import History, Sender

PATIENCE_S = 60.0
SETTING = "retention.ms"


@dataclass
class Made:
    """A topic as it was acknowledged last."""

    partitions: int
    retention: str


@dataclass
class Pending:
    """An operation whose answer is not there yet."""

    topic: str
    answer: Future[object]
    acknowledge: Callable[[], None]


class Administration:
    """One operation at a time, at random."""

    def __init__(self, bootstrap: str, rng: random.Random) -> None:
        self._rng = rng
        self._admin = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._pending: Pending | None = None
        self._count = 0
        self.made: dict[str, Made] = {}
        self.deleted: set[str] = set()
        self.acknowledged = 0

    def step(self) -> None:
        """Note the answer to the last operation, and start another."""
        if self._pending is not None:
            if not self._pending.answer.done():
                return
            self.settle()
        if len(self.made) < 3 or self._rng.random() < 0.5:
            self._create()
        elif self._rng.random() < 0.6:
            self._alter(self._rng.choice(sorted(self.made)))
        else:
            self._delete(self._rng.choice(sorted(self.made)))

    def settle(self) -> None:
        """Wait for the answer; an operation that failed leaves a topic of which nothing is known."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            pending.answer.result(PATIENCE_S)
        except KafkaException:
            self.made.pop(pending.topic, None)
            return
        pending.acknowledge()
        self.acknowledged += 1

    def check(self) -> None:
        """Everything acknowledged is so."""
        topics = self._admin.list_topics(timeout=PATIENCE_S).topics
        for name, made in self.made.items():
            assert name in topics, f"{name} was created and acknowledged, but is gone"
            assert len(topics[name].partitions) == made.partitions
        back = self.deleted & set(topics)
        assert not back, f"deleted and acknowledged, but there again: {sorted(back)}"
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in self.made]
        if not resources:
            return
        for resource, answer in self._admin.describe_configs(resources).items():
            retention = answer.result(PATIENCE_S)[SETTING].value
            assert retention == self.made[resource.name].retention, f"{resource.name} has another {SETTING}"

    def _create(self) -> None:
        name = f"made-{self._count}"
        self._count += 1
        made = Made(self._rng.randint(1, 3), str(self._rng.randint(10**6, 10**9)))
        topic = NewTopic(name, made.partitions, 1, config={SETTING: made.retention})
        answer = self._admin.create_topics([topic], request_timeout=PATIENCE_S)[name]
        self._pending = Pending(name, answer, lambda: self.made.update({name: made}))

    def _alter(self, name: str) -> None:
        retention = str(self._rng.randint(10**6, 10**9))
        entry = ConfigEntry(SETTING, retention, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        (answer,) = self._admin.incremental_alter_configs([resource], request_timeout=PATIENCE_S).values()
        self._pending = Pending(name, answer, lambda: setattr(self.made[name], "retention", retention))

    def _delete(self, name: str) -> None:
        answer = self._admin.delete_topics([name], request_timeout=PATIENCE_S)[name]

        def acknowledge() -> None:
            del self.made[name]
            self.deleted.add(name)

        self._pending = Pending(name, answer, acknowledge)


def work(sender: Sender, administration: Administration, history: History, records: int, changes: int) -> None:
    """Send and administrate until so many more records and changes were acknowledged."""
    goal, wanted = history.acknowledgements + records, administration.acknowledged + changes
    deadline = time.monotonic() + PATIENCE_S
    while history.acknowledgements < goal or administration.acknowledged < wanted:
        assert time.monotonic() < deadline, f"no progress in {PATIENCE_S:g} s; {history.failures[:3]}"
        sender.burst()
        administration.step()


def create_topic(bootstrap: str, name: str, partitions: int, config: dict[str, str] | None = None) -> None:
    """Create a topic and wait until it is there."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])[name].result(PATIENCE_S)
