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
from kavka.pacing import turn
from kavka.runtime import patterns
from kavka.runtime.patterns import Patterns

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


def test_only_so_much_is_kept(monkeypatch):
    monkeypatch.setattr(patterns, "MAX_KEPT_BYTES", 1 << 20)
    world = World("orders")
    for number in range(100):
        world.match(f"p{number}")
    assert 0 < world.patterns._kept_bytes <= 1 << 20
    assert len(world.patterns._known) < 20
    assert world.match("p0") == []


def test_a_pattern_is_prepared(play):
    world = World(*(f"t-{number}" for number in range(2500)))

    async def scenario():
        await world.patterns.prepare("t-1.*")
        await world.patterns.prepare("(")

    play(scenario())
    assert list(world.patterns._known) == ["t-1.*"]
    assert len(world.match("t-1.*")) == 1111


def test_what_changed_while_a_pattern_was_prepared_is_not_missed(play, monkeypatch):
    monkeypatch.setattr(turn, "SLICE_SECONDS", 0)
    world = World("t-1", "t-2")

    async def scenario():
        preparing = world.patterns.prepare("t-.*")
        preparing.send(None)
        world.change(TopicRecord(name="t-new", topic_id=id_of("t-new")), RemoveTopicRecord(topic_id=id_of("t-1")))
        with suppress(StopIteration):
            while True:
                preparing.send(None)

    play(scenario())
    assert list(world.patterns._known) == ["t-.*"]
    assert world.match("t-.*") == ["t-2", "t-new"]


def test_a_client_is_told_of_no_topic_that_it_may_not_see_and_what_it_may_is_asked_each_time():
    world, hidden = World("orders", "orders-eu", "payments"), {"orders-eu"}
    client = CLIENT._replace(sees=lambda name: name not in hidden)
    assert world.patterns.match("orders.*", client) == {"orders"}
    assert world.patterns.match("orders.*", CLIENT) == {"orders", "orders-eu"}
    hidden.clear()
    assert world.patterns.match("orders.*", client) == {"orders", "orders-eu"}
