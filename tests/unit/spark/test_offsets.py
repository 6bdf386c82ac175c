"""The planning of reads: what hypothesis can think of, and what Spark's users know from its Kafka source."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.model.types import TopicPartition
from kavka.spark.offsets import (
    EARLIEST,
    LATEST,
    BadOffsetsError,
    DataLossError,
    Range,
    SegmentFile,
    admit,
    check_within,
    continued,
    from_json,
    losses,
    packed,
    plan,
    resolve,
    settle,
    to_json,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d"]), st.integers(0, 5))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 1 << 40), max_size=8)


@st.composite
def spans(draw: st.DrawFn) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    start = draw(OFFSETS)
    return start, {tp: offset + draw(st.integers(0, 1000)) for tp, offset in start.items()}


def covered(ranges: list[Range]) -> dict[TopicPartition, list[tuple[int, int]]]:
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for each in ranges:
        found.setdefault(each.topic_partition, []).append((each.start, each.end))
    return found


def assert_whole(ranges: list[Range], start: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> None:
    pieces = covered(ranges)
    for tp in end:
        at = start[tp]
        for low, high in pieces.get(tp, []):
            assert low == at < high
            at = high
        assert at == end[tp]


@given(spans(), st.none() | st.integers(1, 40), st.none() | st.integers(1, 300))
def test_the_pieces_cover_every_offset_once_and_in_order(
    span: tuple[dict[TopicPartition, int], dict[TopicPartition, int]], least: int | None, most: int | None
) -> None:
    start, end = span
    ranges = plan(start, end, min_partitions=least, max_records=most)
    assert_whole(ranges, start, end)
    total = sum(end.values()) - sum(start.values())
    if least is not None:
        assert len(ranges) >= min(least, total)
    if most is not None:
        assert all(each.size <= most for each in ranges)
    assert ranges == plan(start, end, min_partitions=least, max_records=most), "a plan can be repeated"


def test_where_one_partition_has_nearly_all_it_is_the_one_that_is_split() -> None:
    end = {TopicPartition("t", number): 1_000 for number in range(1, 4)} | {TopicPartition("t", 0): 1_000_000}
    start = dict.fromkeys(end, 0)
    ranges = plan(start, end, min_partitions=11)
    assert_whole(ranges, start, end)
    assert sorted(each.size for each in ranges) == [1_000] * 3 + [125_000] * 8
    assert max(sum(each.size for each in task) for task in packed(ranges, 11)) == 125_000


@given(spans(), st.data())
def test_a_range_is_served_from_segment_files_where_they_have_it(
    span: tuple[dict[TopicPartition, int], dict[TopicPartition, int]], data: st.DataObject
) -> None:
    start, end = span
    segments = [
        SegmentFile(tp, low := max(0, start[tp] + data.draw(st.integers(-50, 900))), low + length, f"file-{number}")
        for number, tp in enumerate(data.draw(st.lists(st.sampled_from(sorted(start)), max_size=4)) if start else [])
        for length in [data.draw(st.integers(1, 300))]
    ]
    ranges = plan(start, end, segments=segments)
    assert_whole(ranges, start, end)
    by_location = {segment.location: segment for segment in segments}
    for each in ranges:
        if each.location is not None:
            segment = by_location[each.location]
            assert segment.topic_partition == each.topic_partition
            assert segment.first <= each.start < each.end <= segment.after
        else:
            assert not any(
                segment.topic_partition == each.topic_partition
                and segment.first < each.end
                and each.start < segment.after
                for segment in segments
            )


@given(spans(), st.none() | st.integers(1, 2000))
def test_admission_never_goes_back_nor_beyond_nor_over_the_limit_and_always_goes_on(
    span: tuple[dict[TopicPartition, int], dict[TopicPartition, int]], limit: int | None
) -> None:
    start, latest = span
    end = admit(start, latest, limit)
    assert set(end) == set(latest)
    assert all(start[tp] <= end[tp] <= latest[tp] for tp in end)
    admitted = sum(end[tp] - start[tp] for tp in end)
    available = sum(latest[tp] - start[tp] for tp in end)
    assert admitted == (available if limit is None else min(limit, available))


def test_admission_shares_by_what_is_left_to_read() -> None:
    assert admit({A0: 0, A1: 100}, {A0: 900, A1: 200}, 100) == {A0: 90, A1: 110}


def test_a_partition_that_shrank_is_not_read_backwards() -> None:
    assert admit({A0: 50}, {A0: 20}, None) == {A0: 50}
    assert plan({A0: 50}, {A0: 20}) == []


@given(OFFSETS)
def test_offsets_survive_the_checkpoint(offsets: dict[TopicPartition, int]) -> None:
    ids = {tp.topic: "id-" + tp.topic for tp in offsets}
    document = json.loads(json.dumps(to_json(offsets, ids)))
    assert from_json(document) == (offsets, ids)
    assert json.dumps(to_json(dict(reversed(offsets.items())), ids)) == json.dumps(document)


def test_a_checkpoint_of_sparks_own_kafka_source_can_be_continued() -> None:
    assert from_json({"a": {"0": 5, "1": 7}}) == ({A0: 5, A1: 7}, {})


@pytest.mark.parametrize("document", [{"a": 5}, {"a": {"x": 1}}, {"a": {"0": "many"}}, {"@ids": 3}])
def test_a_checkpoint_that_cannot_be_read_says_so(document: dict[str, object]) -> None:
    with pytest.raises(BadOffsetsError, match="cannot be read"):
        from_json(document)


def test_offsets_by_partition_must_name_every_partition() -> None:
    assert resolve(EARLIEST, [A0, A1], "startingOffsets") == {A0: EARLIEST, A1: EARLIEST}
    assert resolve({A0: 3, A1: LATEST}, [A0, A1], "startingOffsets") == {A0: 3, A1: LATEST}
    with pytest.raises(BadOffsetsError, match="startingOffsets says nothing of a-1"):
        resolve({A0: 3}, [A0, A1], "startingOffsets")
    with pytest.raises(BadOffsetsError, match="names b-0"):
        resolve({A0: 3, B0: 1}, [A0], "startingOffsets")


def test_special_offsets_become_real_ones() -> None:
    assert settle({A0: EARLIEST, A1: LATEST, B0: 7}, {A0: 1, A1: 1, B0: 1}, {A0: 9, A1: 8, B0: 9}) == {
        A0: 1,
        A1: 8,
        B0: 7,
    }


def test_an_offset_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(BadOffsetsError, match="startingOffsets: a-0 has offsets 5 to 9, not 3"):
        check_within({A0: 3}, {A0: 5}, {A0: 9}, "startingOffsets")
    check_within({A0: 5, A1: 9}, {A0: 5, A1: 5}, {A0: 9, A1: 9}, "startingOffsets")


def test_every_kind_of_loss_is_seen() -> None:
    earliest, latest = {A0: 10, A1: 0}, {A0: 20, A1: 5}
    assert losses({A0: 10, A1: 5}, {"a": "x"}, earliest, latest, {"a": "x"}) == []
    assert losses({A0: 9}, {}, earliest, latest, {}) == ["a-0 begins at offset 10, the query is at 9"]
    assert losses({A1: 6}, {}, earliest, latest, {}) == ["a-1 ends at offset 5, the query is at 6"]
    assert losses({B0: 6}, {}, earliest, latest, {}) == [
        "b-0 of the checkpoint does not exist any more, or is not read any more"
    ]
    assert losses({A0: 12}, {"a": "x"}, earliest, latest, {"a": "y"}) == ["topic 'a' was deleted and created anew"]
    assert "failOnDataLoss" in str(DataLossError(["a-0 is gone"]))


def test_what_is_left_is_read_when_loss_is_allowed() -> None:
    earliest, latest = {A0: 10, A1: 0, B0: 0}, {A0: 20, A1: 5, B0: 4}
    assert continued({A0: 3, A1: 6}, {}, earliest, latest, {}) == {A0: 10, A1: 0, B0: 0}
    assert continued({A0: 12, A1: 2, B0: 1}, {"a": "x", "b": "z"}, earliest, latest, {"a": "y", "b": "z"}) == {
        A0: 10,
        A1: 0,
        B0: 1,
    }


@given(spans())
def test_nothing_is_lost_where_nothing_was_deleted(
    span: tuple[dict[TopicPartition, int], dict[TopicPartition, int]],
) -> None:
    start, latest = span
    earliest = dict.fromkeys(latest, 0)
    assert losses(start, {}, earliest, latest, {}) == []
    assert continued(start, {}, earliest, latest, {}) == start


def test_small_ranges_share_a_task_where_there_are_many() -> None:
    few = [Range(TopicPartition("t", number), 0, 10) for number in range(20)]
    assert packed(few) == [(each,) for each in few]
    many = [Range(TopicPartition("t", number), 0, 1000) for number in range(2000)]
    tasks = packed(many)
    assert 32 <= len(tasks) <= 64
    assert [each for task in tasks for each in task] == many
    large = Range(TopicPartition("t", 5), 0, 1_000_000)
    assert (large,) in packed([*many[:500], large, *many[500:]])
    assert len(packed(many, at_least=500)) >= 500
    assert packed([]) == []
