"""Which schemas are registered for the records of a topic, as far as this node has asked: the registry's leader knows.

Rules: nothing is remembered of what is not registered, for it may be by now. What is, is asked for again after a
minute, so that deleting a schema has its effect; if the registry cannot be reached then, what was known holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass
from typing import Final, Protocol

from kavka.model.clock import Clock
from kavka.model.errors import KafkaError
from kavka.records.framing import KnownSchemas, Refused, SchemaRules, SchemasNotKnown, Unknown

logger = logging.getLogger(__name__)

KNOWN_MS: Final = 60_000
MOST_TOPICS: Final = 1_000
MOST_SCHEMAS: Final = 10_000
"""How many of a topic's schemas are remembered."""

Done = Callable[[Refused | KafkaError], None]


class Registered(Protocol):
    """Who knows what is registered."""

    async def registered(self, name: bytes, topic: str, part: str, strategy: str) -> bool:
        """Whether a schema that a record names is registered for a topic; raises KafkaError if that cannot be told."""


@dataclass(eq=False, slots=True)
class Memory:
    """What is known of a topic's schemas, and what was before it was asked for again."""

    now: KnownSchemas
    since_ms: int
    before: KnownSchemas


class SchemaIds:
    """Asks the registry for schemas that records name."""

    def __init__(self, registry: Callable[[], Awaitable[Registered]], clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._topics: dict[tuple[str, SchemaRules], Memory] = {}
        self._questions: deque[tuple[Unknown, Done]] = deque()
        self._asked = asyncio.Event()

    def known(self, topic: str, rules: SchemaRules) -> KnownSchemas:
        """What is known of a topic's schemas by now."""
        return self._memory(topic, rules).now

    def _memory(self, topic: str, rules: SchemaRules) -> Memory:
        now_ms = self._clock.monotonic_ms()
        found = self._topics.get((topic, rules))
        if found is None:
            if len(self._topics) >= MOST_TOPICS:
                del self._topics[next(iter(self._topics))]
            empty = KnownSchemas(topic, rules)
            found = self._topics[topic, rules] = Memory(empty, now_ms, empty)
        elif now_ms - found.since_ms >= KNOWN_MS or len(found.now.keys) + len(found.now.values) > MOST_SCHEMAS:
            found.now, found.before = KnownSchemas(topic, rules), found.now
            found.since_ms = now_ms
        return found

    def ask(self, unknown: Unknown, done: Done) -> None:
        """Find out about schemas, and call back later: with those that are not registered, or with why nobody knows."""
        self._questions.append((unknown, done))
        self._asked.set()

    async def run(self) -> None:
        """Ask, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._asked.wait()
                self._asked.clear()
                while self._questions:
                    tasks.create_task(self._answer(*self._questions.popleft()))

    async def _answer(self, unknown: Unknown, done: Done) -> None:
        known, rules = unknown.known, unknown.known.rules
        try:
            keys = await self._refused(known, "key", rules.key, unknown.keys)
            values = await self._refused(known, "value", rules.value, unknown.values)
        except KafkaError as error:
            done(SchemasNotKnown(f"the schema registry cannot be asked: {error}"))
        except Exception:  # nothing of one schema may reach those who ask for all
            logger.exception("whether the schemas of %s are registered cannot be told", known.topic)
            done(SchemasNotKnown("the schema registry cannot be asked"))
        else:
            done(Refused(keys, values))

    async def _refused(self, known: KnownSchemas, part: str, strategy: str | None, names: Set[bytes]) -> set[bytes]:
        """Those of some schemas that are not registered; the others are known from now on."""
        refused: set[bytes] = set()
        if strategy is None:
            return refused
        registry = await self._registry()
        failure: KafkaError | None = None
        for name in names:
            memory = self._memory(known.topic, known.rules)
            now, before = ((each.keys if part == "key" else each.values) for each in (memory.now, memory.before))
            right = name in now
            if not right and failure is None:
                try:
                    right = await registry.registered(name, known.topic, part, strategy)
                except KafkaError as error:
                    failure = error  # the others are not waited for as long, one after the other
            if not right and failure is not None:
                if name not in before:
                    raise failure
                right = True
            if right:
                now.add(name)
                (known.keys if part == "key" else known.values).add(name)
            else:
                refused.add(name)
        return refused
