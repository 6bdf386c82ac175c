"""Partition choice. The hash vectors were printed by Kafka's own Java client (Utils.murmur2)."""

from __future__ import annotations

import pytest

from kavka.client.partitioner import StickyPartitioner, partition_for_key
from kavka.model.murmur2 import murmur2

JAVA = [
    (b"", 275646681),
    (b"a", 2731586172),
    (b"ab", 316155434),
    (b"abc", 479470107),
    (b"abcd", 2971317748),
    (b"kafka", 3496464228),
    (b"21", 3321034988),
    (b"foobar", 3504634814),
    (b"a-little-bit-long-string", 3308985760),
    (b"a-little-bit-longer-string", 2808662467),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", 4236069325),
    (bytes(range(256)), 2346620022),
    (bytes(range(255, 254, -1)), 3983499611),
    (bytes(range(255, 253, -1)), 1717632651),
    (bytes(range(255, 252, -1)), 998637092),
    (bytes(range(255, 250, -1)), 524068735),
    (bytes(range(255, 248, -1)), 4128730949),
    (bytes(range(255, 242, -1)), 351248855),
    (bytes(range(255, 0, -1)), 3505995459),
]


@pytest.mark.parametrize(("key", "expected"), JAVA)
def test_the_hash_is_the_one_of_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


def test_a_key_maps_to_the_positive_hash_modulo_the_partitions() -> None:
    assert partition_for_key(b"a", 7) == (2731586172 & 0x7FFFFFFF) % 7


def test_records_without_a_key_stay_on_one_partition_until_a_batch_is_full() -> None:
    chosen = iter([2, 0, 1])
    sticky = StickyPartitioner(100, choose=lambda available: next(chosen))
    assert [sticky.partition("t", 40, [0, 1, 2]) for _ in range(5)] == [2, 2, 2, 0, 0]


def test_topics_stick_independently() -> None:
    chosen = iter([1, 0])
    sticky = StickyPartitioner(100, choose=lambda available: next(chosen))
    assert [sticky.partition(topic, 10, [0, 1]) for topic in ("a", "b", "a", "b")] == [1, 0, 1, 0]


def test_a_partition_that_lost_its_leader_is_left_at_once() -> None:
    sticky = StickyPartitioner(100, choose=lambda available: available[0])
    assert sticky.partition("t", 1, [0, 1]) == 0
    assert sticky.partition("t", 1, [1]) == 1
