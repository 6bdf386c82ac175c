"""The walk through a batch's records: in one piece or in many, compiled or plain, one finding."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.kernels import COMPILED, plain_walk
from kavka.kernels.layout import BAD_TIME, MAX_REJECTED, NO_KEY
from kavka.kernels.plain_batches import encode_record
from kavka.model.errors import InvalidRecord

if COMPILED:
    from kavka.kernels import _walk
else:
    _walk = plain_walk

TIME = 1_700_000_000_000
FAR = (1 << 63) - 1
INT64 = st.integers(-(1 << 63), FAR)
FIELD = st.none() | st.binary(max_size=20)
RECORD = st.tuples(
    st.integers(-3, 200),
    st.integers(-5, 5) | INT64,
    FIELD,
    FIELD,
    st.lists(st.tuples(st.text(max_size=4), FIELD), max_size=3),
)


@pytest.fixture(params=["plain", "compiled"], scope="module")
def walk(request: pytest.FixtureRequest) -> ModuleType:
    """The walk kernel."""
    if request.param == "compiled" and not COMPILED:
        pytest.skip("the kernels are not compiled here")
    return _walk if request.param == "compiled" else plain_walk


def findings(
    kernel: Any, pieces: list[bytes], count: int, base: int = TIME, rules: Any = None, sought: Any = None
) -> Any:
    scan = kernel.RecordScan(count, base)
    if rules is not None:
        scan.require(*rules)
    if sought is not None:
        scan.seek(*sought)
    try:
        for piece in pieces:
            if scan.feed(piece):
                return scan.found
        scan.finish()
    except InvalidRecord:
        return "invalid"
    return (
        scan.max_timestamp,
        bool(scan.consecutive),
        bool(scan.increasing),
        bool(scan.headed),
        scan.last_delta,
        scan.rejected,
        scan.rejections,
        scan.found,
        bool(scan.negative),
    )


def cut(data: bytes, at: list[int]) -> list[bytes]:
    marks = [0, *sorted(mark % (len(data) + 1) for mark in at), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(RECORD, max_size=6),
    st.lists(st.integers(0, 500), max_size=8),
    st.integers(-1, 1),
    INT64 | st.just(TIME),
    st.none()
    | st.tuples(
        st.just(TIME), st.sampled_from([0, 5, FAR]), st.sampled_from([0, 5, FAR]), st.booleans(), st.booleans()
    ),
    st.none() | st.tuples(st.integers(TIME - 5, TIME + 5), st.integers(0, 5)),
)
def test_pieces_and_twins_find_the_same(rows: Any, at: Any, off: int, base: int, rules: Any, sought: Any) -> None:
    data = b"".join(encode_record(*row) for row in rows)
    count = len(rows) + off
    whole = findings(plain_walk, [data], count, base, rules, sought)
    assert findings(plain_walk, cut(data, at), count, base, rules, sought) == whole
    assert findings(_walk, [data], count, base, rules, sought) == whole
    assert findings(_walk, cut(data, at), count, base, rules, sought) == whole


@settings(max_examples=500, deadline=None)
@given(
    st.lists(RECORD, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=3),
    st.lists(st.integers(0, 500), max_size=4),
)
def test_damaged_records_are_the_same_to_all(rows: Any, damage: Any, at: Any) -> None:
    data = bytearray(b"".join(encode_record(*row) for row in rows))
    for place, byte in damage:
        data[place % len(data)] = byte
    found = findings(plain_walk, [bytes(data)], len(rows))
    assert findings(_walk, [bytes(data)], len(rows)) == found
    assert findings(_walk, cut(bytes(data), at), len(rows)) == found


@given(st.binary(max_size=60), st.integers(1, 5))
def test_any_bytes_are_the_same_to_all(data: bytes, count: int) -> None:
    found = findings(plain_walk, [data], count)
    assert findings(_walk, [data], count) == found
    assert findings(_walk, [data[i : i + 1] for i in range(len(data))], count) == found


def test_the_smallest_record_has_seven_bytes(walk: Any) -> None:
    assert len(encode_record(0, 0, None, None)) == 7
    assert findings(walk, [encode_record(0, 0, None, None)], 1)[0] == TIME
    for size in range(1, 7):
        assert isinstance(findings(walk, [bytes([2 * (size - 1)]) + bytes(size - 1)], 1), str)


def test_times_are_taken_as_64_bits_have_them(walk: Any) -> None:
    record = encode_record(0, 1, b"k", b"")
    assert findings(walk, [record], 1, FAR)[0] == -1  # it wraps to the smallest number
    rules = (TIME, FAR, 1000, False, True)
    assert findings(walk, [record], 1, -(1 << 63), rules)[5] == [(0, BAD_TIME)]
    assert findings(walk, [record], 1, -2, rules)[5] == []  # -1 is no time


def test_what_is_rejected_is_counted_and_the_first_are_told(walk: Any) -> None:
    data = b"".join(encode_record(i, 0, None, None) for i in range(3000))
    found = findings(walk, [data], 3000, TIME, (TIME, 0, 0, True, True))
    assert found[5] == [(index, NO_KEY) for index in range(MAX_REJECTED)]
    assert found[6] == 3000


def test_a_value_is_passed_over_and_not_kept(walk: Any) -> None:
    scan = walk.RecordScan(1, TIME)
    head = encode_record(0, 0, b"k", bytes(1 << 20))[: -(1 << 20) - 1]
    assert not scan.feed(head)
    for _ in range(16):
        assert not scan.feed(bytes(1 << 16))
    assert not scan.feed(b"\0")
    scan.finish()
    with pytest.raises(InvalidRecord):
        scan.feed(b"\0")


def test_the_first_record_of_a_time_is_found_from_an_offset_on(walk: Any) -> None:
    data = b"".join(encode_record(i, i % 3, None, None) for i in range(9))
    assert findings(walk, [data], 9, TIME, None, (TIME + 1, 0)) == (TIME + 1, 1)
    assert findings(walk, [data], 9, TIME, None, (TIME + 2, 3)) == (TIME + 2, 5)
    assert findings(walk, [data], 9, TIME, None, (TIME + 3, 0))[-2] is None


def test_a_range_outside_of_the_buffer_is_refused(walk: Any) -> None:
    for pos, end in ((-1, 2), (2, 1), (0, 5)):
        with pytest.raises(ValueError):
            walk.RecordScan(1, 0).feed(b"1234", pos, end)
