"""CRC-32C against the check value of the catalogue and a bit-by-bit twin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.crc32c import crc32c


def bit_by_bit(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_check_value_is_right() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(max_size=200))
def test_it_is_castagnoli_s_polynomial(data: bytes) -> None:
    assert crc32c(data) == crc32c(memoryview(bytearray(data))) == bit_by_bit(data)


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_it_goes_on_from_an_earlier_sum(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)
