"""Which partition of `__remote_log_metadata` remembers a tiered partition: Kafka's choice, to the bit."""

from __future__ import annotations

import struct

from kavka.model.murmur2 import murmur2
from kavka.model.types import Uuid

_MASK = 0xFFFFFFFF


def metadata_partition(topic_id: Uuid, partition: int, count: int) -> int:
    """The metadata partition of a tiered partition, when there are `count` of them."""
    most, least = struct.unpack(">QQ", topic_id)
    combined = 1
    for part in (_fold(least), _fold(most), partition):  # Java's Objects.hash
        combined = (31 * combined + part) & _MASK
    return (murmur2(combined.to_bytes(4, "big")) & 0x7FFFFFFF) % count


def _fold(number: int) -> int:
    """Java's hash of a long."""
    return (number ^ (number >> 32)) & _MASK
