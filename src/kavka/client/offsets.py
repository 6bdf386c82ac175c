"""Finding offsets: the first, the last, the one at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from kavka.client.connection import Connection
from kavka.client.pool import Pool
from kavka.client.view import error_for
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING: Final = -6
"""The last three are about tiers: what is on disk, in the store, and to be copied (KIP-405, KIP-1005, KIP-1023)."""

_CONSUMER: Final = -1

R = TypeVar("R")


class FoundOffset(NamedTuple):
    """An offset and the time of its record; both are -1 where no record is that late."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    pool: Pool, times: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, FoundOffset]:
    """For each partition the first offset at or after a time, or that of a special time such as LATEST."""
    return unwrap(await find_offsets(pool, times, read_committed=read_committed))


async def find_offsets(
    pool: Pool, times: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    """As `list_offsets`, with the error of each partition that has one."""

    async def ask(
        connection: Connection, part: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        by_topic: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
        for tp, time in part.items():
            by_topic[tp.topic].append(ListOffsetsPartition(partition_index=tp.partition, timestamp=time))
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=int(read_committed),
            topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in by_topic.items()],
            timeout_ms=pool.timeout_ms,
        )
        answer = await connection.request(request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, row.partition_index): error_for(row.error_code)
            if row.error_code
            else FoundOffset(row.offset, row.timestamp, row.leader_epoch)
            for topic in answer.topics
            for row in topic.partitions
        }

    return await pool.ask_leaders(times, ask)


def unwrap(answers: Mapping[TopicPartition, R | KafkaError]) -> dict[TopicPartition, R]:
    """The results of all partitions; raises the first error, saying whose it is."""
    results: dict[TopicPartition, R] = {}
    for tp, answer in answers.items():
        if isinstance(answer, KafkaError):
            raise type(answer)(answer.message or f"{tp}: {answer}")
        results[tp] = answer
    return results
