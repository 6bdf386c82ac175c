"""Whole ranges of a partition, read from a played cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.client import Producer, TopicPartition
from kavka.client.ranges import RangeOptions, read_range
from kavka.model.errors import CorruptMessage, NetworkException, OffsetOutOfRange, UnknownTopicId
from kavka.model.types import Uuid
from kavka.protocol.schemas.fetch import FetchResponse

Played = Any  # the class is in conftest.py, which tests cannot import
TP = TopicPartition("orders", 0)


def offsets(played: Played, start: int = 0, end: int = 6, **options: Any) -> list[int]:
    """Write six records, two to a batch, on the first call; then the first offsets of the batches that a range has."""

    how = {"timeout_ms": options["timeout_ms"]} if "timeout_ms" in options else {}

    async def run() -> list[int]:
        async with asyncio.timeout(10), played.pool(**how) as pool:
            if not played.partition.end:
                async with Producer(pool, linger_ms=60_000) as producer:
                    for index in range(6):
                        await producer.send("orders", b"%d" % index)
                        if index % 2:
                            await producer.flush()
            chunks = read_range(pool, TP, start, end, RangeOptions(**options))
            return [info.base_offset async for chunk in chunks for info in chunk.batches]

    return asyncio.run(run())


def test_the_batches_of_a_range_come_whole_and_in_order(played: Played) -> None:
    assert offsets(played) == [0, 2, 4]
    assert offsets(played, 3) == [2, 4]
    assert offsets(played, fetch_bytes=100) == [0, 2, 4]


def test_a_passing_fault_is_tried_again_and_one_that_stays_is_raised(played: Played) -> None:
    played.partition.fetch_errors = [6, 9, 75]
    assert offsets(played) == [0, 2, 4]
    played.partition.fetch_errors = [6] * 1000
    with pytest.raises(Exception, match="orders-0 at offset 0") as raised:
        offsets(played, timeout_ms=50)
    assert raised.value.code == 6  # type: ignore[attr-defined]
    played.partition.fetch_errors = []
    with pytest.raises(OffsetOutOfRange):
        offsets(played, 7, 9)


def test_a_broker_that_goes_in_the_middle_is_waited_for_and_then_named(played: Played) -> None:
    assert offsets(played) == [0, 2, 4]

    async def run(back_after: float) -> list[int]:
        found = []
        async with asyncio.timeout(10), played.pool(timeout_ms=100) as pool:
            async for chunk in read_range(pool, TP, 0, 6, RangeOptions(fetch_bytes=100, timeout_ms=100)):
                found += [info.base_offset for info in chunk.batches]
                if found == [0]:
                    played.down = {0}
                    asyncio.get_running_loop().call_later(back_after, played.down.clear)
        return found

    assert asyncio.run(run(0.03)) == [0, 2, 4]
    with pytest.raises(NetworkException, match="cannot connect to node0:1"):
        asyncio.run(run(5))


def test_an_answer_without_data_to_a_client_over_its_quota_is_waited_out(played: Played) -> None:
    answers = [FetchResponse(throttle_time_ms=5, responses=[]) for _ in range(3)]
    real = played.on_fetch
    played.on_fetch = lambda node, request: answers.pop() if answers else real(node, request)
    assert offsets(played) == [0, 2, 4]
    assert answers == []


def test_damaged_bytes_are_raised_with_their_place(played: Played) -> None:
    assert offsets(played) == [0, 2, 4]
    real = played.on_fetch

    def damaged(node: int, request: Any) -> Any:
        answer = real(node, request)
        row = answer.responses[0].partitions[0]
        row.records = row.records[:-1] + b"?"
        return answer

    played.on_fetch = damaged
    with pytest.raises(CorruptMessage, match="orders-0 at offset 4: "):
        offsets(played)


def test_a_topic_that_has_another_id_now_is_another_topic(played: Played) -> None:
    assert offsets(played) == [0, 2, 4]
    with pytest.raises(UnknownTopicId, match="deleted and created anew"):
        offsets(played, topic_id=Uuid(b"0123456789abcdef"), timeout_ms=50)
