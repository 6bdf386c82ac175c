"""Any sequence of events: the same answers as a slow and obvious model, and the same state from log or snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.catalog.machine import Catalogue, segment_event, update_event
from kavka.catalog.records import Event, RemotePartitionDeleteMetadataRecord, TopicIdPartitionEntry, encode_event
from kavka.catalog.segment import RemoteSegment, SegmentState, TopicIdPartition
from kavka.catalog.snapshot import decode_snapshot, encode_snapshot
from kavka.model.types import Uuid

NAMES = [TopicIdPartition(Uuid(b"a" * 16), 0, "a"), TopicIdPartition(Uuid(b"b" * 16), 3, "b")]
STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED
DELETING, DELETED = SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED
FOLLOWS = {(STARTED, FINISHED), (STARTED, DELETING), (FINISHED, DELETING), (DELETING, DELETED)}
LAST_OFFSET = 30


@st.composite
def segments(draw: st.DrawFn) -> RemoteSegment:
    start = draw(st.integers(0, LAST_OFFSET))
    end = draw(st.integers(start, LAST_OFFSET))
    cuts = sorted(draw(st.lists(st.integers(start, end), max_size=2)))
    numbers = sorted(draw(st.lists(st.integers(0, 3), min_size=len(cuts) + 1, max_size=len(cuts) + 1, unique=True)))
    epochs = tuple(zip(numbers, [start, *cuts], strict=True))
    id = Uuid(bytes(15) + bytes([draw(st.integers(0, 5))]))
    custom = draw(st.none() | st.binary(max_size=3))
    return RemoteSegment(id, start, end, 1, 2, 3, 4, epochs, STARTED, draw(st.booleans()), custom)


@st.composite
def events(draw: st.DrawFn) -> tuple[TopicIdPartition, RemoteSegment | int]:
    name = draw(st.sampled_from(NAMES))
    if draw(st.integers(0, 19)) == 0:
        return name, draw(st.integers(0, 3))
    one = draw(segments())
    return name, one._replace(state=draw(st.sampled_from(SegmentState)))


def event_of(name: TopicIdPartition, what: RemoteSegment | int) -> Event:
    if isinstance(what, int):
        return RemotePartitionDeleteMetadataRecord(
            topic_id_partition=TopicIdPartitionEntry(name=name.topic, id=name.topic_id, partition=name.partition),
            broker_id=1,
            event_timestamp_ms=1,
            remote_partition_delete_state=what,
        )
    return segment_event(name, what) if what.state is STARTED else update_event(name, what)


@dataclass
class Slow:
    """One partition, with everything looked for from the start each time."""

    segments: dict[Uuid, RemoteSegment] = field(default_factory=dict)
    readable: dict[int, list[tuple[int, int, Uuid]]] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)
    deletion: int = -1

    def take(self, one: RemoteSegment) -> None:
        before = self.segments.get(one.id)
        if one.state is STARTED:
            if before is None or before.state is STARTED:
                self.segments[one.id] = one
            return
        if before is None or (before.state is not one.state and (before.state, one.state) not in FOLLOWS):
            return
        forgotten = before.custom_metadata is not None and one.custom_metadata is None
        if (before.state, one.state) == (FINISHED, DELETING) and forgotten:
            return  # decided without having read that the copy was finished
        if one.state is DELETED:
            del self.segments[one.id]
            return
        self.segments[one.id] = before._replace(state=one.state, custom_metadata=one.custom_metadata)
        for epoch in self.readable:
            self.readable[epoch] = [entry for entry in self.readable[epoch] if entry[2] != one.id]
        if one.state is FINISHED:
            self.finish(before)

    def finish(self, one: RemoteSegment) -> None:
        for (epoch, start), end in zip(
            one.epochs, [*(at - 1 for _, at in one.epochs[1:]), one.end_offset], strict=True
        ):
            self.highest[epoch] = max(end, self.highest.get(epoch, end))
            self.readable.setdefault(epoch, []).append((start, end, one.id))

    def lookup(self, epoch: int, offset: int) -> set[Uuid]:
        """The segments that have an offset and reach farthest: any of them will do."""
        found = [entry for entry in self.readable.get(epoch, []) if entry[0] <= offset <= entry[1]]
        return {id for _, end, id in found if end == max(entry[1] for entry in found)}

    def delete(self, state: int) -> bool:
        """Whether the partition is gone."""
        if state in (self.deletion, self.deletion + 1) and state >= 0:
            self.deletion = state
        return self.deletion == 2


def replayed(values: list[bytes], start: int = 0, into: Catalogue | None = None) -> Catalogue:
    catalogue = into or Catalogue(1)
    for offset, value in enumerate(values[start:], start):
        catalogue.replay_value(0, offset, value)
    return catalogue


@settings(max_examples=400, deadline=None)
@given(st.lists(events(), max_size=40))
def test_the_catalogue_answers_like_an_obvious_model(
    sequence: list[tuple[TopicIdPartition, RemoteSegment | int]],
) -> None:
    slow: dict[TopicIdPartition, Slow] = {}
    for name, what in sequence:
        model = slow.setdefault(name, Slow())
        if not isinstance(what, int):
            model.take(what)
        elif what <= 2 and model.delete(what):
            del slow[name]
    catalogue = replayed([encode_event(event_of(*each)) for each in sequence])
    catalogue.following.follow(0)
    catalogue.following.set_target(0, 0)
    for name in NAMES:
        held, model = catalogue.partition(name.topic_id, name.partition), slow.get(name, Slow())
        known = {one.id: (one.state, one.epochs, one.custom_metadata) for one in held.segments()}
        assert known == {id: (one.state, one.epochs, one.custom_metadata) for id, one in model.segments.items()}
        for epoch in range(4):
            assert held.highest_offset(epoch) == model.highest.get(epoch)
            listed = held.segments_of(epoch)
            wanted = {id for id, one in model.segments.items() if epoch in dict(one.epochs)}
            assert {one.id for one in listed} == wanted
            assert [one.start_offset for one in listed] == sorted(one.start_offset for one in listed)
            for offset in range(LAST_OFFSET + 2):
                found = held.lookup(epoch, offset)
                right = model.lookup(epoch, offset)
                assert found.id in right if found else not right
        read = {one.id for epoch in range(4) for at in range(LAST_OFFSET + 2) if (one := held.lookup(epoch, at))}
        aside = {one.id for one in held.unreferenced()}
        assert not aside & read
        finished = {id for id, one in model.segments.items() if one.state is FINISHED}
        assert aside >= set(model.segments) - finished
        assert aside | read <= set(model.segments)


@settings(max_examples=200, deadline=None)
@given(st.lists(events(), max_size=40), st.data())
def test_log_and_snapshot_rebuild_the_same_catalogue(
    sequence: list[tuple[TopicIdPartition, RemoteSegment | int]], data: st.DataObject
) -> None:
    values = [encode_event(event_of(*each)) for each in sequence]
    whole = replayed(values)
    cut = data.draw(st.integers(0, len(values)))
    early = decode_snapshot(encode_snapshot(replayed(values[:cut])))
    assert early.following.next_offsets.get(0, 0) == cut
    both = replayed(values, cut, early)
    for other in (replayed(values), both):
        assert other.partitions == whole.partitions
        assert other.following.next_offsets == whole.following.next_offsets
