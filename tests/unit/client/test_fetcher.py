"""The fetcher against a played cluster: a log that was truncated and has grown again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kavka.client import Pool, Producer, TopicPartition
from kavka.client.fetcher import Fetcher, FetchOptions
from kavka.model.errors import OffsetOutOfRange

Played = Any  # the class is in conftest.py, which tests cannot import
TP = TopicPartition("orders", 0)


async def write(pool: Pool, partition: int, *values: bytes) -> None:
    async with Producer(pool) as producer:
        for value in values:
            await producer.send_and_wait("orders", value, partition=partition)


async def read(fetcher: Fetcher) -> list[bytes | None]:
    taken = await fetcher.take()
    assert taken is not None
    state, fetched = taken
    values = [record.value for records, _ in fetched.batches() for record in records]
    fetcher.consumed(state, fetched)
    return values


@pytest.mark.parametrize("notices", [True, False])
def test_a_log_that_lost_what_was_fetched_of_it_is_out_of_range_for_who_wants_to_know(
    played: Played, notices: bool
) -> None:
    options = FetchOptions(False, "error", 500, 1, 1 << 20, 1 << 20, 1 << 20, True, notices_truncation=notices)

    async def run() -> None:
        async with asyncio.timeout(10), played.pool() as pool, Fetcher(pool, options) as fetcher:
            partitions = played.topics["orders"]
            partitions[1] = replace(played.partition, epoch=7, log=[], data=bytearray(), expected={})
            await write(pool, 0, b"a", b"b")
            await write(pool, 1, b"c", b"d", b"e")
            fetcher.add({TP: 0})
            found = await read(fetcher)
            while len(found) < 2:
                found += await read(fetcher)
            partitions[0] = partitions.pop(1)
            if notices:
                with pytest.raises(OffsetOutOfRange):
                    await read(fetcher)
                assert fetcher.assigned[TP].stopped
            else:
                assert await read(fetcher) == [b"e"]

    asyncio.run(run())
