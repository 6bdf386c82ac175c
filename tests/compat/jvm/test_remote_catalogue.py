"""The catalogue of remote segments against Kafka's own classes: RemoteLogMetadataSerde, RemoteLogMetadataCache, the
topic's partitioner, and the lineage check of RemoteLogManager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jvm.descriptors import differences, kafka_form, our_form, read_descriptors

from kavka.catalog.lineage import is_within
from kavka.catalog.machine import Catalogue, segment_event, update_event
from kavka.catalog.partition import PartitionSegments
from kavka.catalog.partitioner import metadata_partition
from kavka.catalog.records import RECORDS, Event, encode_event
from kavka.catalog.segment import Epochs, RemoteSegment, SegmentState, TopicIdPartition
from kavka.model.types import Uuid

DRIVER = "kavka.compat.RemoteCatalogue"
NAME = TopicIdPartition(Uuid(b"remote-catalogue"), 2, "orders")
STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED
DELETING, DELETED = SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED
LAST = 60
EPOCHS = range(6)
Ask = Callable[[list[str]], list[str]]


@pytest.fixture
def ask(jvm_tool: Callable[..., Any]) -> Ask:
    """Answers of Kafka's classes to some commands."""

    def asked(commands: list[str]) -> list[str]:
        outcome = jvm_tool(DRIVER, [], stdin="\n".join(commands).encode() + b"\n").must_succeed()
        lines: list[str] = outcome.out.splitlines()
        assert len(lines) == len(commands), outcome.said
        return lines

    return asked


class Script:
    """Events for both catalogues, and the questions that both are asked afterwards."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._ids = 0

    def id(self) -> Uuid:
        self._ids += 1
        return Uuid(self._ids.to_bytes(16, "big"))

    def commands(self) -> list[str]:
        asked = [f"event {encode_event(event).hex()}" for event in self.events]
        return ["new", *asked, "all", *(f"list {epoch}" for epoch in EPOCHS), *self.questions()]

    @staticmethod
    def questions() -> list[str]:
        offsets = [(epoch, offset) for epoch in EPOCHS for offset in range(LAST + 2)]
        asked = [f"{verb} {epoch} {offset}" for verb in ("lookup", "next") for epoch, offset in offsets]
        return asked + [f"highest {epoch}" for epoch in EPOCHS]

    def ours(self) -> PartitionSegments:
        catalogue = Catalogue(1)
        catalogue.following.follow(0)
        catalogue.following.set_target(0, 0)
        for event in self.events:
            catalogue.replay(0, event)
        return catalogue.partition(NAME.topic_id, NAME.partition)


def listed(segments: list[RemoteSegment]) -> set[str]:
    return {f"{one.id}={one.state.value}" for one in segments}


def answers(held: PartitionSegments) -> list[str]:
    found = []
    for question in Script.questions():
        verb, *numbers = question.split()
        if verb == "highest":
            highest = held.highest_offset(int(numbers[0]))
            found.append("-" if highest is None else str(highest))
            continue
        ask = held.lookup if verb == "lookup" else held.next_with_txn_index
        one = ask(int(numbers[0]), int(numbers[1]))
        found.append(str(one.id) if one else "-")
    return found


def orderly(draw: Random) -> Script:
    """What leaders do: copy on from where they know, some of it again after an election, and expire from the start."""
    script = Script()
    starts = sorted(draw.sample(range(1, LAST), draw.randint(0, 4)))
    history: Epochs = tuple(enumerate([0, *starts]))
    highest, live = -1, list[RemoteSegment]()
    while highest < LAST - 1 and len(script.events) < 60:
        start = draw.randint(max(0, highest - 15), highest + 1) if draw.random() < 0.2 else highest + 1
        end = draw.randint(max(start, highest + 1), min(LAST, max(start, highest + 1) + 12))
        one = RemoteSegment(
            script.id(), start, end, 1, 2, 3, 4, clipped(history, start, end), STARTED, draw.random() < 0.5, None
        )
        script.events.append(segment_event(NAME, one))
        if draw.random() < 0.1:  # the copy failed
            script.events += [update_event(NAME, one._replace(state=state)) for state in (DELETING, DELETED)]
            continue
        done = one._replace(state=FINISHED, custom_metadata=draw.choice([None, b"", b"xyz"]))
        script.events += [update_event(NAME, done)] * draw.choice([1, 1, 2])
        live.append(done)
        highest = end
        while live and draw.random() < 0.15:
            gone = live.pop(0)
            states = draw.choice([(DELETING,), (DELETING, DELETED)])
            script.events += [update_event(NAME, gone._replace(state=state)) for state in states]
    return script


def clipped(history: Epochs, start: int, end: int) -> Epochs:
    """The epochs that a segment has, the first from its own start on."""
    first = max(epoch for epoch, at in history if at <= start)
    return tuple((epoch, max(at, start)) for epoch, at in history if epoch >= first and at <= end)


def disorderly(draw: Random) -> Script:
    """Any event after any other."""
    script = Script()
    ids = [script.id() for _ in range(6)]
    epochs_of: dict[Uuid, Epochs] = {}
    for _ in range(40):
        id = draw.choice(ids)
        start = draw.randint(0, LAST)
        end = draw.randint(start, LAST)
        cuts = sorted(draw.choices(range(start, end + 1), k=draw.randint(0, 2)))
        numbers = sorted(draw.sample(list(EPOCHS), len(cuts) + 1))
        epochs = epochs_of.setdefault(id, tuple(zip(numbers, [start, *cuts], strict=True)))
        one = RemoteSegment(
            id, epochs[0][1], max(end, epochs[-1][1]), 1, 2, 3, 4, epochs, draw.choice(list(SegmentState))
        )
        script.events.append(segment_event(NAME, one) if one.state is STARTED else update_event(NAME, one))
    return script


@pytest.mark.parametrize("key", RECORDS)
def test_every_event_is_as_kafka_describes_it(key: int, kafka_jars: Path) -> None:
    cls = RECORDS[key]
    described = kafka_form(read_descriptors(kafka_jars)[cls.__name__])
    assert differences(our_form(cls), described, cls.__name__) == []


def test_what_leaders_do_gives_the_same_catalogue_and_the_same_bytes(ask: Ask) -> None:
    for seed in range(150):
        script = orderly(Random(seed))
        commands = script.commands()
        theirs = ask(commands)
        count = len(script.events)
        assert theirs[1 : count + 1] == [encode_event(event).hex() for event in script.events]
        held = script.ours()
        assert set(theirs[count + 1].split(",")) - {""} == listed(list(held.segments())), seed
        for epoch in EPOCHS:
            assert set(theirs[count + 2 + epoch].split(",")) - {""} == listed(held.segments_of(epoch)), (seed, epoch)
        questions = theirs[count + 2 + len(EPOCHS) :]
        wrong = [
            (seed, question, their, our)
            for question, their, our in zip(Script.questions(), questions, answers(held), strict=True)
            if their != our
        ]
        assert not wrong


def test_whatever_happens_we_find_what_kafka_finds_and_lose_nothing_that_it_lists(ask: Ask) -> None:
    """Where segments overlap in ways that no leader leaves, Kafka hides some; what it does find, we find too."""
    for seed in range(150):
        script = disorderly(Random(seed))
        theirs = ask(script.commands())
        count, held = len(script.events), script.ours()
        assert set(theirs[count + 1].split(",")) - {""} == listed(list(held.segments())), seed
        for epoch in EPOCHS:
            assert set(theirs[count + 2 + epoch].split(",")) - {""} <= listed(held.segments_of(epoch)), (seed, epoch)
        questions = theirs[count + 2 + len(EPOCHS) :]
        for question, their, our in zip(Script.questions(), questions, answers(held), strict=True):
            verb = question.split()[0]
            if verb == "highest":
                assert our == their, (seed, question)
            elif verb == "lookup" and their != "-":
                assert our != "-", (seed, question)


def test_segments_are_within_a_lineage_as_kafka_sees_it(ask: Ask) -> None:
    draw = Random(4)
    commands, expected = [], []
    for _ in range(3000):
        history = tuple(enumerate([0, *sorted(draw.sample(range(1, LAST), 4))]))
        lineage = clipped(history, draw.randint(0, LAST), LAST)
        start = draw.randint(0, LAST)
        end = draw.randint(start, LAST)
        same = draw.random() < 0.6 and lineage[0][1] <= start
        cuts = sorted(draw.choices(range(start, end + 1), k=draw.randint(0, 2)))
        epochs = tuple(zip(sorted(draw.sample(range(6), len(cuts) + 1)), [start, *cuts], strict=True))
        one = RemoteSegment(Uuid(bytes(16)), start, end, 1, 2, 3, 4, clipped(lineage, start, end) if same else epochs)
        log_end = draw.randint(1, LAST + 10)
        spelled = ",".join(f"{epoch}:{at}" for epoch, at in lineage)
        commands.append(f"within {log_end} {spelled} {encode_event(segment_event(NAME, one)).hex()}")
        expected.append(str(is_within(one, log_end, lineage)).lower())
    assert ask(commands) == expected
    assert {"true", "false"} <= set(expected)


def test_metadata_partitions_are_those_of_kafkas_partitioner(ask: Ask) -> None:
    draw = Random(8)
    asked = [(Uuid(draw.randbytes(16)), draw.randrange(1000), draw.randint(1, 100)) for _ in range(500)]
    theirs = ask([f"partition {id} {partition} {count}" for id, partition, count in asked])
    assert theirs == [str(metadata_partition(*each)) for each in asked]
