"""Patterns of topics: RE2's, matched whole, kept in step with the metadata."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from kavka.coordinator.requests import Client
from kavka.metadata.delta import apply
from kavka.metadata.image import EMPTY
from kavka.metadata.records.topics import RemoveTopicRecord, TopicRecord
from kavka.model.errors import InvalidRegularExpression
from kavka.model.types import Uuid
from kavka.runtime.patterns import MAX_PATTERNS, Patterns

CLIENT = Client("c", "/h", 1)


def id_of(name):
    return Uuid(name.encode().rjust(16, b"\0")[-16:])


class World:
    """Patterns and the topics they match."""

    def __init__(self, *topics):
        self.image = EMPTY
        self.patterns = Patterns()
        self.change(*(TopicRecord(name=name, topic_id=id_of(name)) for name in topics))
        self.patterns.start(self.image)

    def change(self, *records):
        self.image, delta = apply(self.image, records, self.image.offset + 1, 1)
        for _ in self.patterns.apply(self.image, delta):
            pass

    def match(self, text):
        return sorted(self.patterns.match(text, CLIENT))


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders-eu", "orders-us"]),
        ("orders-(eu|us)", ["orders-eu", "orders-us"]),
        (".*", ["orders", "orders-eu", "orders-us", "payments"]),
        ("order", []),
        ("", []),
        ("(?i)PAYMENTS", ["payments"]),
    ],
)
def test_a_pattern_matches_whole_names(pattern, topics):
    assert World("orders", "orders-eu", "orders-us", "payments").match(pattern) == topics


@pytest.mark.parametrize("pattern", ["(", "[a", "a(?=b)", r"(a)\1", "*"])
def test_what_is_no_pattern_of_re2_is_refused_in_words(pattern):
    with pytest.raises(InvalidRegularExpression, match="is no RE2 pattern"):
        World("orders").match(pattern)


def test_topics_that_come_and_go_are_noticed():
    world = World("orders")
    assert world.match("orders.*") == ["orders"]
    world.change(
        TopicRecord(name="orders-eu", topic_id=id_of("orders-eu")), TopicRecord(name="other", topic_id=id_of("other"))
    )
    assert world.match("orders.*") == ["orders", "orders-eu"]
    world.change(RemoveTopicRecord(topic_id=id_of("orders")))
    assert world.match("orders.*") == ["orders-eu"]


def test_a_pattern_that_would_stall_other_engines_takes_no_time():
    world = World(*("a" * 200 + str(number) for number in range(100)))
    began = time.process_time()
    assert world.match("(a*)*b") == []
    assert time.process_time() - began < 1.0


def test_only_so_many_patterns_are_kept():
    world = World("orders")
    for number in range(MAX_PATTERNS + 10):
        world.match(f"p{number}")
    assert len(world.patterns._known) == MAX_PATTERNS
    assert world.match("p0") == []


def test_a_pattern_is_prepared_in_slices(play):
    world = World(*(f"t-{number}" for number in range(2500)))

    async def scenario():
        await world.patterns.prepare("t-1.*")
        await world.patterns.prepare("(")

    play(scenario())
    assert "t-1.*" in world.patterns._known
    assert len(world.match("t-1.*")) == 1111
    assert "(" not in world.patterns._known


def test_what_changed_while_a_pattern_was_prepared_is_not_missed(play):
    world = World(*(f"t-{number}" for number in range(2500)))

    async def scenario():
        preparing = world.patterns.prepare("t-.*")
        preparing.send(None)
        world.change(TopicRecord(name="t-new", topic_id=id_of("t-new")))
        for _ in range(3):
            with suppress(StopIteration):
                preparing.send(None)

    play(scenario())
    assert "t-new" in world.match("t-.*")
