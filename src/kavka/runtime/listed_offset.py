"""Where the log of a partition begins and ends, asked of a leader that is another node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from kavka.model.errors import UnknownServerError, error_for
from kavka.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

EARLIEST: Final = -2
LATEST: Final = -1
"""The high watermark."""
_CONSUMER: Final = -1


async def listed_offset(
    ask: Callable[[int, Any], Awaitable[Any]], leader: int, topic: str, partition: int, timestamp: int
) -> int:
    """The answer to ListOffsets; raises KafkaError."""
    row = ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=_CONSUMER, isolation_level=0, topics=[ListOffsetsTopic(name=topic, partitions=[row])]
    )
    answer = await ask(leader, request)
    rows = [found for listed in answer.topics for found in listed.partitions]
    if len(rows) != 1:
        raise UnknownServerError(f"node {leader} did not say where {topic}-{partition} begins or ends")
    if rows[0].error_code:
        raise error_for(rows[0].error_code)
    offset: int = rows[0].offset
    return offset
