"""Which schemas records name: in one piece or in many, compiled or plain, one finding."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.kernels import COMPILED, framed, plain_framed
from kavka.kernels.layout import KEY_SIDE, MAX_REJECTED, MAX_UNKNOWN_FRAMES, VALUE_SIDE
from kavka.kernels.plain_batches import encode_record

chosen: ModuleType = framed
"""The compiled one, if there is one."""

ONE = b"\x00\x00\x00\x00\x01"
TWO = b"\x00\x00\x00\x00\x02"
GUID = b"\x01" + bytes(range(16))
FIELD = st.none() | st.binary(max_size=20) | st.sampled_from([ONE, TWO + b"x", GUID, GUID + b"yz", b"\x00\x01", b""])
NAME = st.text(max_size=18) | st.sampled_from(["__key_schema_id", "__value_schema_id", "__value_schema_ix"])
RECORD = st.tuples(FIELD, FIELD, st.lists(st.tuples(NAME, FIELD), max_size=3))
FRAMES = st.frozensets(st.sampled_from([ONE, TWO, GUID]))


@pytest.fixture(params=["plain", "compiled"], scope="module")
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """The kernel."""
    if request.param == "compiled" and not COMPILED:
        pytest.skip("the kernels are not compiled here")
    return chosen if request.param == "compiled" else plain_framed


def encoded(*rows: tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]) -> bytes:
    return b"".join(encode_record(at, at, *row) for at, row in enumerate(rows))


def findings(kernel: Any, pieces: list[bytes], *told: Any) -> Any:
    scan = kernel.FrameScan(*told)
    for piece in pieces:
        scan.feed(piece)
    return scan.seen, scan.rejected, scan.rejections, scan.unknown, bool(scan.crowded)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    marks = [0, *sorted(mark % (len(data) + 1) for mark in at), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


@settings(max_examples=500, deadline=None)
@given(
    st.lists(RECORD, max_size=6),
    st.lists(st.integers(0, 500), max_size=8),
    st.none() | FRAMES,
    st.none() | FRAMES,
    FRAMES,
    FRAMES,
)
def test_pieces_and_twins_find_the_same(
    rows: Any, at: Any, keys: Any, values: Any, wrong_keys: Any, wrong_values: Any
) -> None:
    data, told = encoded(*rows), (keys, values, wrong_keys, wrong_values)
    whole = findings(plain_framed, [data], *told)
    assert whole[0] == len(rows)
    assert findings(plain_framed, cut(data, at), *told) == whole
    assert findings(chosen, [data], *told) == whole
    assert findings(chosen, cut(data, at), *told) == whole


@given(st.binary(max_size=80))
def test_no_bytes_are_read_or_kept_where_there_is_no_room(data: bytes) -> None:
    told: list[Any] = [set(), set(), frozenset(), frozenset()]
    assert findings(chosen, [bytes([byte]) for byte in data], *told) == findings(plain_framed, [data], *told)


def test_a_frame_is_right_wrong_or_not_known(kernel: Any) -> None:
    data = encoded((None, ONE + b"a", []), (None, TWO + b"b", []), (None, GUID + b"c", []), (None, b"raw", []))
    _, rejected, rejections, unknown, _ = findings(kernel, [data], None, {ONE}, frozenset(), {TWO})
    assert (rejected, rejections) == ([(1, VALUE_SIDE, TWO), (3, VALUE_SIDE, None)], 2)
    assert unknown == (set(), {GUID})


def test_no_key_and_no_value_name_no_schema_and_are_no_fault(kernel: Any) -> None:
    assert findings(kernel, [encoded((None, None, []))], set(), set()) == (1, [], 0, (set(), set()), False)


def test_an_empty_value_is_a_value(kernel: Any) -> None:
    assert findings(kernel, [encoded((None, b"", []))], set(), set())[1] == [(0, VALUE_SIDE, None)]


def test_a_header_comes_before_what_stands_in_front(kernel: Any) -> None:
    data = encoded((ONE, ONE, [("__value_schema_id", TWO), ("__key_schema_id", GUID)]))
    assert findings(kernel, [data], set(), set())[3] == ({GUID}, {TWO})


def test_the_last_header_counts_and_one_without_content_does_not(kernel: Any) -> None:
    data = encoded((None, b"x", [("__value_schema_id", ONE), ("__value_schema_id", TWO), ("__value_schema_id", None)]))
    assert findings(kernel, [data], None, set())[3] == (set(), {TWO})


def test_a_header_of_the_record_before_says_nothing(kernel: Any) -> None:
    data = encoded((None, b"x", [("__value_schema_id", ONE)]), (None, b"raw", []))
    assert findings(kernel, [data], None, {ONE})[1] == [(1, VALUE_SIDE, None)]


def test_keys_are_judged_by_what_is_right_for_keys(kernel: Any) -> None:
    data = encoded((ONE, TWO, []), (TWO, ONE, []))
    told = {ONE}, {TWO}, {TWO}, {ONE}
    assert findings(kernel, [data], *told)[1] == [(1, KEY_SIDE, TWO), (1, VALUE_SIDE, ONE)]


def test_what_is_kept_of_a_batch_is_bounded(kernel: Any) -> None:
    ids = [b"\x00" + number.to_bytes(4, "big") for number in range(MAX_UNKNOWN_FRAMES + 5)]
    data = encoded(*((None, frame, []) for frame in ids), *((None, b"raw", []) for _ in range(MAX_REJECTED + 7)))
    _, rejected, rejections, unknown, crowded = findings(kernel, [data], None, set())
    assert (len(rejected), rejections) == (MAX_REJECTED, MAX_REJECTED + 7)
    assert (len(unknown[1]), crowded) == (MAX_UNKNOWN_FRAMES, True)
