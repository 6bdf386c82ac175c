"""Kafka's murmur2: the hash that chooses partitions by key, and the metadata partition of a tiered one."""

from __future__ import annotations

import struct
from typing import Final

_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 of the bytes, unsigned."""
    size = len(data)
    words = size >> 2
    h = _SEED ^ size
    for k in struct.unpack_from(f"<{words}I", data):
        k = (k * _MULTIPLIER) & _MASK
        k ^= k >> 24
        h = ((h * _MULTIPLIER) & _MASK) ^ ((k * _MULTIPLIER) & _MASK)
    tail = data[words * 4 :]
    if tail:
        h ^= int.from_bytes(tail, "little")
        h = (h * _MULTIPLIER) & _MASK
    h ^= h >> 13
    h = (h * _MULTIPLIER) & _MASK
    return h ^ (h >> 15)
