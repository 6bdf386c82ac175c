"""Variable-length integers: round trips, known bytes, and refusal of what is cut or overlong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.model.errors import MalformedMessage
from kavka.wire import varint

Reader = Callable[[bytes, int], tuple[int, int]]
KINDS = {
    "uvarint": (varint.write_uvarint, varint.read_uvarint, 0, 2**32 - 1),
    "uvarlong": (varint.write_uvarlong, varint.read_uvarlong, 0, 2**64 - 1),
    "varint": (varint.write_varint, varint.read_varint, -(2**31), 2**31 - 1),
    "varlong": (varint.write_varlong, varint.read_varlong, -(2**63), 2**63 - 1),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_is_written_is_what_is_read(kind: str, data: st.DataObject) -> None:
    write, read, low, high = KINDS[kind]
    value = data.draw(st.integers(low, high) | st.sampled_from([low, high, 0]))
    out = bytearray(b"before")
    write(out, value)
    assert read(bytes(out) + b"after", 6) == (value, len(out))
    size = varint.size_of_uvarint(value) if kind.startswith("u") else varint.size_of_varint(value)
    assert size == len(out) - 6


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804")]
)
def test_signed_integers_zigzag(value: int, encoded: str) -> None:
    out = bytearray()
    varint.write_varint(out, value)
    assert out.hex() == encoded


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_integer_is_malformed(kind: str) -> None:
    write, read, _, high = KINDS[kind]
    out = bytearray()
    write(out, high)
    for cut in range(len(out)):
        with pytest.raises(MalformedMessage):
            read(bytes(out[:cut]), 0)
        with pytest.raises(MalformedMessage):
            read(bytes(out), 0, cut)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (varint.read_uvarint, b"\x80\x80\x80\x80\x80\x00"),
        (varint.read_uvarint, b"\xff\xff\xff\xff\x10"),
        (varint.read_varint, b"\xff\xff\xff\xff\xff\x01"),
        (varint.read_uvarlong, b"\xff" * 9 + b"\x02"),
        (varint.read_varlong, b"\x80" * 10 + b"\x00"),
    ],
)
def test_an_overlong_integer_is_malformed(read: Reader, data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read(data, 0)


def test_zeros_at_the_end_are_allowed_within_the_length() -> None:
    assert varint.read_uvarint(b"\x81\x80\x80\x80\x00", 0) == (1, 5)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("uvarint", -1), ("uvarint", 2**32), ("varint", 2**31), ("varint", -(2**31) - 1), ("varlong", 2**63)],
)
def test_a_number_that_does_not_fit_is_not_written(kind: str, value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        KINDS[kind][0](bytearray(), value)
