"""What a node remembers of registered schemas, and what it does when the registry cannot be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kavka.model.clock import ManualClock
from kavka.model.errors import CoordinatorNotAvailable, KafkaError
from kavka.records.framing import Refused, SchemaRules, SchemasNotKnown, Unknown
from kavka.runtime.schema_ids import KNOWN_MS, SchemaIds

RULES = SchemaRules(key="RecordNameStrategy", value="TopicNameStrategy")
ONE = b"\x00\x00\x00\x00\x01"
TWO = b"\x00\x00\x00\x00\x02"


class World:
    """A registry that has some schemas, or does not answer."""

    def __init__(self) -> None:
        self.has: set[tuple[bytes, str, str, str]] = {(ONE, "orders", "value", "TopicNameStrategy")}
        self.answers = True
        self.fails = False
        self.asked: list[bytes] = []

    async def registered(self, name: bytes, topic: str, part: str, strategy: str) -> bool:
        self.asked.append(name)
        await asyncio.sleep(0)
        if self.fails:
            raise ZeroDivisionError
        if not self.answers:
            raise CoordinatorNotAvailable("it is away")
        return (name, topic, part, strategy) in self.has


class Node:
    def __init__(self) -> None:
        self.world = World()
        self.clock = ManualClock()
        self.ids = SchemaIds(self._open, self.clock)

    async def _open(self) -> World:
        return self.world

    async def judged(self, *values: bytes, keys: frozenset[bytes] = frozenset()) -> Refused | KafkaError:
        known = self.ids.known("orders", RULES)
        told: asyncio.Future[Refused | KafkaError] = asyncio.get_running_loop().create_future()
        self.ids.ask(Unknown(known, keys, frozenset(values)), told.set_result)
        found = await told
        if isinstance(found, Refused):
            assert known.values >= set(values) - set(found.values)
        return found


def played(play: Callable[[Node], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        node = Node()
        running = asyncio.ensure_future(node.ids.run())
        await play(node)
        running.cancel()

    asyncio.run(run())


def test_what_is_registered_is_known_from_then_on() -> None:
    async def play(node: Node) -> None:
        assert await node.judged(ONE) == Refused()
        assert node.ids.known("orders", RULES).values == {ONE}
        assert node.ids.known("other", RULES).values == set()
        assert node.ids.known("orders", SchemaRules(value="RecordNameStrategy")).values == set()

    played(play)


def test_what_is_not_registered_is_asked_for_every_time() -> None:
    async def play(node: Node) -> None:
        assert await node.judged(ONE, TWO) == Refused(set(), {TWO})
        node.world.has.add((TWO, "orders", "value", "TopicNameStrategy"))
        assert await node.judged(TWO) == Refused()

    played(play)


def test_keys_are_asked_for_by_their_own_strategy() -> None:
    async def play(node: Node) -> None:
        assert await node.judged(keys=frozenset({ONE})) == Refused({ONE}, set())
        node.world.has.add((ONE, "orders", "key", "RecordNameStrategy"))
        assert await node.judged(keys=frozenset({ONE})) == Refused()
        assert node.ids.known("orders", RULES).keys == {ONE}

    played(play)


def test_nothing_is_taken_while_nobody_can_be_asked() -> None:
    async def play(node: Node) -> None:
        node.world.answers = False
        found = await node.judged(ONE)
        assert isinstance(found, SchemasNotKnown)
        assert found.retriable
        assert node.ids.known("orders", RULES).values == set()
        node.world.answers = True
        assert await node.judged(ONE) == Refused()

    played(play)


def test_a_schema_that_is_deleted_is_refused_a_minute_later() -> None:
    async def play(node: Node) -> None:
        await node.judged(ONE)
        node.world.has.clear()
        assert node.ids.known("orders", RULES).values == {ONE}
        node.clock.advance(KNOWN_MS)
        assert node.ids.known("orders", RULES).values == set()
        assert await node.judged(ONE) == Refused(set(), {ONE})

    played(play)


def test_what_was_known_holds_while_the_registry_is_away() -> None:
    async def play(node: Node) -> None:
        await node.judged(ONE)
        node.world.answers = False
        for _ in range(3):
            node.clock.advance(KNOWN_MS)
            assert await node.judged(ONE) == Refused()
            assert node.ids.known("orders", RULES).values == {ONE}
        assert isinstance(await node.judged(TWO), SchemasNotKnown)

    played(play)


def test_a_registry_that_is_away_is_waited_for_once() -> None:
    async def play(node: Node) -> None:
        node.world.has.add((TWO, "orders", "value", "TopicNameStrategy"))
        assert await node.judged(ONE, TWO) == Refused()
        node.world.answers = False
        node.clock.advance(KNOWN_MS)
        node.world.asked.clear()
        assert await node.judged(ONE, TWO) == Refused()
        assert len(node.world.asked) == 1

    played(play)


def test_an_error_that_nobody_thought_of_refuses_for_now_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def play(node: Node) -> None:
        node.world.fails = True
        assert isinstance(await node.judged(ONE), SchemasNotKnown)
        node.world.fails = False
        assert await node.judged(ONE) == Refused()

    played(play)
    assert "ZeroDivisionError" in caplog.text
