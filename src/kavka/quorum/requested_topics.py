"""Topics that a client needs and that the broker creates beside its answer: the internal topics of streams groups.

Nobody waits for them. Who asks again before they are there hears what went wrong, for a while in which nobody tries
anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kavka.controller.topics import CreatedTopic, NewTopic
from kavka.model.clock import Clock
from kavka.model.errors import KafkaError

logger = logging.getLogger(__name__)

MAX_REMEMBERED: Final = 1000
"""How many failures are remembered at most; those that are forgotten soonest make way."""


class Creation(Protocol):
    """Who creates topics."""

    async def create(self, topics: Sequence[NewTopic]) -> Mapping[str, CreatedTopic | KafkaError]:
        """What became of each topic; raises KafkaError."""


class _Failure(NamedTuple):
    why: str
    until_ms: int


class RequestedTopics:
    """Topics that are being created, and those that could not be."""

    def __init__(self, creation: Creation, clock: Clock) -> None:
        self._creation = creation
        self._clock = clock
        self._in_flight: set[str] = set()
        self._failed: dict[str, _Failure] = {}
        self._wanted: asyncio.Queue[tuple[list[NewTopic], int]] = asyncio.Queue()

    def request(self, topics: Iterable[NewTopic], remember_ms: int) -> None:
        """Have topics created that are not being created, and have not failed just now."""
        now_ms = self._clock.monotonic_ms()
        chosen = [topic for topic in topics if topic.name not in self._in_flight and not self._why(topic.name, now_ms)]
        if chosen:
            self._in_flight.update(topic.name for topic in chosen)
            self._wanted.put_nowait((chosen, remember_ms))

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """Why topics could not be created a while ago."""
        now_ms = self._clock.monotonic_ms()
        return {name: why for name in names if (why := self._why(name, now_ms)) is not None}

    def _why(self, name: str, now_ms: int) -> str | None:
        found = self._failed.get(name)
        return found.why if found is not None and found.until_ms > now_ms else None

    async def run(self) -> None:
        """Create what is asked for, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                topics, remember_ms = await self._wanted.get()
                tasks.create_task(self._create(topics, remember_ms))

    async def _create(self, topics: list[NewTopic], remember_ms: int) -> None:
        names = [topic.name for topic in topics]
        try:
            outcomes = await self._creation.create(topics)
        except KafkaError as error:
            outcomes = dict.fromkeys(names, error)
        finally:
            self._in_flight.difference_update(names)
        until_ms = self._clock.monotonic_ms() + remember_ms
        for name, outcome in outcomes.items():
            if isinstance(outcome, KafkaError):
                logger.warning("creating topic %s failed: %s", name, outcome)
                self._failed[name] = _Failure(str(outcome), until_ms)
        self._forget()

    def _forget(self) -> None:
        now_ms = self._clock.monotonic_ms()
        newest = sorted(self._failed.items(), key=lambda failed: failed[1].until_ms)[-MAX_REMEMBERED:]
        self._failed = {name: failure for name, failure in newest if failure.until_ms > now_ms}
