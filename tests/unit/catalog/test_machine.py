"""The catalogue: what it decides, what it answers, and that its events alone rebuild it."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from kavka.catalog.lineage import shared_end
from kavka.catalog.machine import Catalogue, ReplayResult, segment_event, update_event
from kavka.catalog.records import Event, RemoteLogSegmentMetadataSnapshotRecord, encode_event
from kavka.catalog.segment import DeleteState, RemoteSegment, SegmentState, TopicIdPartition
from kavka.catalog.snapshot import decode_snapshot, encode_snapshot, encoding
from kavka.model.errors import InvalidRequest, KafkaStorageError, ReplicaNotAvailable, ResourceNotFound
from kavka.model.types import Uuid

FOO = TopicIdPartition(Uuid(b"f" * 16), 0, "foo")
STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED
DELETING, DELETED = SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED


def id_of(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def segment(number: int, start: int, end: int, *epochs: tuple[int, int], empty: bool = True) -> RemoteSegment:
    return RemoteSegment(id_of(number), start, end, 5, 6, 100, 1, epochs or ((0, start),), STARTED, empty)


class Node:
    """A catalogue that reads what it decides, and the topic that remembers it."""

    def __init__(self) -> None:
        self.catalogue = Catalogue(1)
        self.topic: list[bytes] = []
        self.catalogue.following.follow(0)
        self.catalogue.following.set_target(0, 0)

    def write(self, *events: Event) -> list[ReplayResult]:
        verdicts = []
        for event in events:
            self.topic.append(encode_event(event))
            verdicts.append(self.catalogue.replay_value(0, len(self.topic) - 1, self.topic[-1]))
        return verdicts

    def copy(self, one: RemoteSegment, custom: bytes | None = None) -> None:
        self.write(*self.catalogue.start_copy(FOO, one).records)
        self.move(one, FINISHED, custom)

    def move(self, one: RemoteSegment, state: SegmentState, custom: bytes | None = None) -> None:
        done = self.catalogue.update(FOO, one.id, state, broker_id=1, now_ms=7, custom_metadata=custom)
        self.write(*done.records)

    def ids(self, *offsets: int, epoch: int = 0) -> list[int | None]:
        held = self.catalogue.partition(FOO.topic_id, 0)
        found = [held.lookup(epoch, offset) for offset in offsets]
        return [int.from_bytes(one.id, "big") if one else None for one in found]


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_segment_is_read_once_its_copy_is_finished(node: Node) -> None:
    one = segment(1, 0, 99, (0, 0), (2, 50))
    node.write(*node.catalogue.start_copy(FOO, one).records)
    assert node.ids(0, 50) == [None, None]
    assert node.catalogue.partition(FOO.topic_id, 0).unreferenced() == [one]
    node.move(one, FINISHED, b"abc")
    assert node.ids(0, 49, 50, epoch=0) == [1, 1, None]  # offset 50 was written by epoch 2
    assert node.ids(49, 50, 99, 100, epoch=2) == [None, 1, 1, None]
    held = node.catalogue.partition(FOO.topic_id, 0)
    assert held.get(one.id) == one._replace(state=FINISHED, event_timestamp_ms=7, custom_metadata=b"abc")
    assert [held.highest_offset(epoch) for epoch in (0, 1, 2)] == [49, None, 99]


def test_a_segment_that_is_being_deleted_is_listed_until_it_is_gone(node: Node) -> None:
    one = segment(1, 0, 99)
    node.copy(one, b"abc")
    node.move(one, DELETING)
    held = node.catalogue.partition(FOO.topic_id, 0)
    assert node.ids(5) == [None]
    assert [(each.id, each.state, each.custom_metadata) for each in held.segments_of(0)] == [(one.id, DELETING, b"abc")]
    assert held.unreferenced() == held.segments_of(0)
    node.move(one, DELETED)
    assert (len(held), held.segments_of(0), held.unreferenced()) == (0, [], [])
    assert held.highest_offset(0) == 99  # it never goes down


def test_states_may_repeat_but_not_go_back(node: Node) -> None:
    one = segment(1, 0, 99)
    start = segment_event(FOO, one)
    finish, deleting = (update_event(FOO, one._replace(state=state)) for state in (FINISHED, DELETING))
    assert node.write(start, start) == [ReplayResult.APPLIED] * 2
    whole = segment_event(FOO, one._replace(state=FINISHED))  # only an update moves a segment on
    assert node.write(whole) == [ReplayResult.INVALID_TRANSITION]
    assert node.write(finish, finish) == [ReplayResult.APPLIED] * 2
    assert node.ids(5) == [1]
    assert node.write(start) == [ReplayResult.INVALID_TRANSITION]
    assert node.write(deleting, deleting, finish) == [
        ReplayResult.APPLIED,
        ReplayResult.APPLIED,
        ReplayResult.INVALID_TRANSITION,
    ]
    assert node.write(update_event(FOO, one)) == [ReplayResult.INVALID_TRANSITION]
    assert node.catalogue.counts.invalid_transitions == 4
    with pytest.raises(InvalidRequest):
        node.catalogue.update(FOO, one.id, FINISHED, broker_id=1, now_ms=1)


def test_a_deletion_that_knew_nothing_of_the_end_of_the_copy_is_too_late(node: Node) -> None:
    one = segment(1, 0, 99)
    given_up = update_event(FOO, one._replace(state=DELETING))
    node.copy(one, b"abc")
    assert node.write(given_up) == [ReplayResult.INVALID_TRANSITION]
    assert node.ids(5) == [1]
    node.move(one, DELETING)  # decided from what was read
    assert node.ids(5) == [None]
    assert node.write(given_up) == [ReplayResult.APPLIED]  # as often as anybody likes, from then on


def test_a_finished_segment_without_custom_metadata_is_deleted_as_in_kafka(node: Node) -> None:
    one = segment(1, 0, 99)
    node.copy(one)
    assert node.write(update_event(FOO, one._replace(state=DELETING))) == [ReplayResult.APPLIED]


def test_a_repeated_start_with_other_epochs_leaves_nothing_in_the_old_ones(node: Node) -> None:
    node.write(segment_event(FOO, segment(1, 0, 99, (0, 0))), segment_event(FOO, segment(1, 0, 99, (1, 0))))
    held = node.catalogue.partition(FOO.topic_id, 0)
    assert (held.segments_of(0), len(held.segments_of(1))) == ([], 1)


def test_updates_of_unknown_segments_are_expected_only_while_loading() -> None:
    catalogue = Catalogue(1)
    gone = update_event(FOO, segment(1, 0, 9)._replace(state=FINISHED))
    catalogue.following.follow(0)
    catalogue.following.set_target(0, 2)
    for offset in range(3):
        assert catalogue.replay_value(0, offset, encode_event(gone)) is ReplayResult.UNKNOWN_SEGMENT
    assert (catalogue.counts.unknown_while_loading, catalogue.counts.unknown_segments) == (2, 1)


def test_a_longer_copy_of_the_same_offsets_takes_over(node: Node) -> None:
    node.copy(segment(1, 10, 90))
    node.copy(segment(2, 5, 100))
    node.copy(segment(3, 101, 200))
    assert node.ids(5, 50, 95, 101) == [2, 2, 2, 3]
    held = node.catalogue.partition(FOO.topic_id, 0)
    assert [each.id for each in held.segments_of(0)] == [id_of(2), id_of(1), id_of(3)]  # still listed, so still expired
    assert [each.id for each in held.unreferenced()] == [id_of(1)]


@pytest.mark.parametrize("late", [(0, 100), (50, 80)])
def test_a_shorter_copy_that_comes_late_hides_nothing(node: Node, late: tuple[int, int]) -> None:
    node.copy(segment(1, 0, 200))
    node.copy(segment(2, *late))
    assert node.ids(0, 60, 90, 150, 200) == [1] * 5
    assert {each.id for each in node.catalogue.partition(FOO.topic_id, 0).valid(((0, 0),), 500)} == {id_of(1), id_of(2)}


def test_what_was_kept_aside_is_read_again_when_the_longer_one_goes(node: Node) -> None:
    long, short = segment(1, 0, 200), segment(2, 50, 80)
    node.copy(long)
    node.copy(short)
    node.move(long, DELETING)
    assert node.ids(49, 50, 80, 81) == [None, 2, 2, None]
    assert [each.id for each in node.catalogue.partition(FOO.topic_id, 0).unreferenced()] == [long.id]


def test_segments_that_overlap_at_their_borders_are_all_read(node: Node) -> None:
    node.copy(segment(1, 0, 100))
    node.copy(segment(2, 50, 150))
    assert node.ids(49, 50, 100, 101, 150, 151) == [1, 2, 2, 2, 2, None]


def test_what_several_finished_segments_have_together(node: Node) -> None:
    node.copy(segment(1, 0, 99))
    node.copy(segment(2, 100, 149, (0, 100), (1, 120)))
    held = node.catalogue.partition(FOO.topic_id, 0)
    assert held.has(segment(3, 50, 149, (0, 50), (1, 120)))
    assert not held.has(segment(3, 50, 150, (0, 50), (1, 120)))
    assert not held.has(segment(3, 100, 149, (0, 100)))  # what epoch 0 wrote from 120 on is something else


def test_the_next_segment_that_may_have_aborted_transactions(node: Node) -> None:
    node.copy(segment(1, 0, 9))
    node.copy(segment(2, 10, 19, empty=False))
    node.copy(segment(3, 20, 29))
    held = node.catalogue.partition(FOO.topic_id, 0)
    found = [held.next_with_txn_index(0, offset) for offset in (0, 10, 20, 30)]
    assert [each and each.id for each in found] == [id_of(2), id_of(2), None, None]


def test_reading_goes_by_the_lineage(node: Node) -> None:
    node.copy(segment(1, 0, 99, (0, 0)))
    node.copy(segment(2, 50, 149, (0, 50), (1, 60)))  # written by a leader who never saw 60..99 of epoch 0
    node.copy(segment(3, 150, 199, (1, 150), (3, 170)))
    held = node.catalogue.partition(FOO.topic_id, 0)
    lineage = ((0, 0), (1, 60), (3, 170))
    found = [held.find(offset, lineage) for offset in (40, 50, 60, 149, 150, 199, 200)]
    assert [each and each.id[-1] for each in found] == [1, 1, 2, 2, 3, 3, None]
    assert [shared_end(each, offset, lineage) for each, offset in zip(found, (40, 50, 60), strict=False) if each] == [
        59,  # from there on this log has what epoch 1 wrote
        59,
        149,
    ]
    assert held.unreferenced() == []
    second = held.get(id_of(2))
    assert second is not None
    after = held.following(second, lineage)
    assert after is not None
    assert after.id == id_of(3)
    assert held.following(after, lineage) is None
    assert [each.id[-1] for each in held.valid(lineage, 300)] == [2, 3]
    assert held.copied_up_to(lineage, 300) == (199, 3)
    assert held.copied_up_to(((0, 0), (1, 60), (2, 120)), 300) == (119, 1)  # this log's epoch 1 ended there
    assert held.copied_up_to(((5, 0),), 300) == (-1, -1)


def test_what_is_being_copied_must_make_sense(node: Node) -> None:
    for wrong in (segment(1, -1, 5), segment(1, 5, 4), segment(1, 0, 9)._replace(epochs=())):
        with pytest.raises(InvalidRequest):
            node.catalogue.start_copy(FOO, wrong)
        assert node.write(segment_event(FOO, wrong)) == [ReplayResult.IMPOSSIBLE]
    with pytest.raises(InvalidRequest):
        node.catalogue.start_copy(FOO, segment(1, 0, 9)._replace(state=FINISHED))
    with pytest.raises(ResourceNotFound):
        node.catalogue.update(FOO, id_of(9), FINISHED, broker_id=1, now_ms=1)
    node.copy(segment(1, 0, 9))
    with pytest.raises(InvalidRequest):
        node.catalogue.start_copy(FOO, segment(1, 0, 9))


def test_events_that_cannot_be_read_cost_only_themselves(node: Node) -> None:
    value = encode_event(segment_event(FOO, segment(1, 0, 9)))
    catalogue = node.catalogue
    for offset, bad in enumerate((None, b"", b"\x01\x00\x07" + value[3:], value[:-1], b"\x01\x63\x00")):
        assert catalogue.replay_value(0, offset, bad) is ReplayResult.UNREADABLE
    strange = segment_event(FOO, segment(1, 0, 9))
    strange.remote_log_segment_state = 9  # type: ignore[misc]
    snapshot = RemoteLogSegmentMetadataSnapshotRecord(
        segment_id=id_of(1),
        start_offset=0,
        end_offset=9,
        broker_id=1,
        max_timestamp_ms=1,
        event_timestamp_ms=2,
        segment_leader_epochs=[],
        segment_size_in_bytes=5,
        remote_log_segment_state=1,
    )
    assert [catalogue.replay(0, event) for event in (strange, snapshot)] == [ReplayResult.UNREADABLE] * 2
    assert catalogue.counts.unreadable == 7
    assert catalogue.following.next_offsets == {0: 5}
    assert catalogue.replay_value(0, 5, value) is ReplayResult.APPLIED


def test_a_partition_is_deleted_step_by_step(node: Node) -> None:
    one = segment(1, 0, 9)
    node.copy(one)

    def delete(state: DeleteState) -> None:
        node.write(*node.catalogue.delete_partition(FOO, state, broker_id=1, now_ms=1).records)

    with pytest.raises(InvalidRequest):
        delete(DeleteState.DELETE_PARTITION_STARTED)
    delete(DeleteState.DELETE_PARTITION_MARKED)
    delete(DeleteState.DELETE_PARTITION_MARKED)
    assert [held.name for held in node.catalogue.being_deleted()] == [FOO]
    with pytest.raises(InvalidRequest):
        node.catalogue.start_copy(FOO, segment(2, 10, 19))
    delete(DeleteState.DELETE_PARTITION_STARTED)
    with pytest.raises(InvalidRequest):
        delete(DeleteState.DELETE_PARTITION_FINISHED)  # its segment is still there
    node.move(one, DELETING)
    node.move(one, DELETED)
    delete(DeleteState.DELETE_PARTITION_FINISHED)
    assert node.catalogue.partitions == {}
    again = node.catalogue.replay_value(0, len(node.topic), node.topic[-1])
    assert again is ReplayResult.INVALID_TRANSITION


def test_a_record_that_is_read_twice_is_taken_in_once(node: Node) -> None:
    one = segment(1, 0, 9)
    node.copy(one)
    node.move(one, DELETING)
    node.move(one, DELETED)
    before = node.catalogue.following.next_offsets.copy()
    for offset, value in enumerate(node.topic):
        assert node.catalogue.replay_value(0, offset, value) is ReplayResult.REPEATED
    assert len(node.catalogue.partition(FOO.topic_id, 0)) == 0
    assert node.catalogue.following.next_offsets == before


def test_nothing_is_answered_before_the_metadata_was_read() -> None:
    catalogue = Catalogue(50)
    metadata_partition = catalogue.metadata_partition_of(FOO.topic_id, 0)

    def asks() -> None:
        with pytest.raises(ReplicaNotAvailable):
            catalogue.partition(FOO.topic_id, 0)

    asks()
    assert catalogue.following.follow(metadata_partition) == 0
    asks()  # its end is not known
    catalogue.following.set_target(metadata_partition, 2)
    asks()
    catalogue.replay_value(metadata_partition, 0, encode_event(segment_event(FOO, segment(1, 0, 9))))
    asks()
    catalogue.following.set_target(metadata_partition, 100)  # an end that grows does not make us wait longer
    catalogue.replay_value(metadata_partition, 1, None)
    assert len(catalogue.partition(FOO.topic_id, 0)) == 1
    assert catalogue.is_ready(FOO.topic_id, 0)
    catalogue.forget(metadata_partition)
    asks()
    assert catalogue.partitions == {}


def test_an_empty_metadata_partition_is_ready_at_once() -> None:
    catalogue = Catalogue(1)
    catalogue.following.follow(0)
    assert not catalogue.following.is_target_known(0)
    catalogue.following.set_target(0, 0)
    assert catalogue.partition(FOO.topic_id, 0).segments_of(0) == []
    assert catalogue.following.followed == [0]


def test_a_snapshot_that_is_not_whole_is_no_snapshot(node: Node) -> None:
    node.copy(segment(1, 0, 9))
    data = encode_snapshot(node.catalogue)
    assert decode_snapshot(data).partitions == node.catalogue.partitions
    for position in range(len(data)):
        with pytest.raises(KafkaStorageError):
            decode_snapshot(data[:position])
        with pytest.raises(KafkaStorageError):
            decode_snapshot(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])


@pytest.mark.apart
def test_a_tiered_segment_costs_at_most_400_bytes() -> None:
    count = 10_000
    values = [
        encode_event(event)
        for number in range(count)
        for one in [segment(1 << 100 | number, number * 1000, number * 1000 + 999, (number // 100, number * 1000))]
        for event in (
            segment_event(FOO, one),
            update_event(FOO, one._replace(state=FINISHED, custom_metadata=b"c" * 13)),
        )
    ]
    catalogue = Catalogue(1)
    gc.collect()
    tracemalloc.start()
    try:
        for offset, value in enumerate(values):
            catalogue.replay_value(0, offset, value)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(catalogue.partitions[FOO.topic_id, 0]) == count
    assert used / count <= 400


def test_a_snapshot_that_is_taken_in_steps_has_each_metadata_partition_as_of_one_offset() -> None:
    catalogue = Catalogue(2)
    names = [TopicIdPartition(Uuid(bytes([number]) * 16), 0, "foo") for number in (1, 2)]
    events = [[encode_event(segment_event(name, segment(number, 0, 9)))] for number, name in enumerate(names)]
    for home, (event,) in enumerate(events):
        catalogue.replay_value(home, 0, event)
    steps = encoding(catalogue)
    next(steps)  # the first is taken
    for home, name in enumerate(names):
        events[home].append(encode_event(update_event(name, segment(home, 0, 9)._replace(state=FINISHED))))
        catalogue.replay_value(home, 1, events[home][1])
    next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    found = decode_snapshot(end.value.value)
    assert found.following.next_offsets == {0: 1, 1: 2}
    assert found.partitions != catalogue.partitions
    found.replay_value(0, 1, events[0][1])
    assert found.partitions == catalogue.partitions
