"""The frames of records."""

from __future__ import annotations

import pytest

from kavka.model.errors import MalformedMessage
from kavka.protocol.frame import decode_frame_record, encode_frame_record
from kavka.protocol.schema import Int32, record


@record(key=300, versions="0-2", flexible="0+")
class Noted:
    value: Int32


FRAMED = bytes.fromhex("01 ac02 02 00000007 00")


def test_a_record_carries_frame_version_key_and_version() -> None:
    assert encode_frame_record(Noted(value=7), 2) == FRAMED


def test_the_key_decides_which_class_a_record_is_read_as() -> None:
    asked = []

    def lookup(key: int) -> type[Noted]:
        asked.append(key)
        return Noted

    assert decode_frame_record(lookup, FRAMED) == Noted(value=7)
    assert decode_frame_record(lookup, memoryview(FRAMED)) == Noted(value=7)
    assert asked == [300, 300]


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "variable-length"),
        (b"\x02" + FRAMED[1:], "frame version 2"),
        (FRAMED[:-1], "ends too early"),
        (FRAMED + b"\0", "leaves 1 bytes over"),
    ],
)
def test_records_that_are_not_framed_so_are_malformed(data: bytes, match: str) -> None:
    with pytest.raises(MalformedMessage, match=match):
        decode_frame_record(lambda key: Noted, data)
