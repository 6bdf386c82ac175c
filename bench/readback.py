"""Reading partitions back by raw Fetch: every byte CRC-checked, every batch where it should be."""

from __future__ import annotations

from dataclasses import dataclass

from bench.wire import BenchError, Caller, Topic, check
from kavka.kernels.batches import scan_prefix
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic

VERSION = 16
_MAX_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """What a partition holds."""

    batches: int
    records: int
    bytes: int


def fetch_request(topic: Topic, partition: int, offset: int, max_bytes: int) -> FetchRequest:
    """A fetch of one partition, outside of any session."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=[FetchTopic(topic_id=topic.id, partitions=[wanted])]
    )


def read_partition(caller: Caller, topic: Topic, partition: int) -> Found:
    """Read a partition from start to end; raises unless offsets and each producer's sequences have no gap."""
    offset = batches = size = 0
    sequences: dict[int, int] = {}
    while True:
        answer = caller.call(fetch_request(topic, partition, offset, _MAX_BYTES), VERSION)
        check(answer.error_code, "fetch")
        (part,) = answer.responses[0].partitions
        check(part.error_code, f"fetch of {topic.name}-{partition} at {offset}")
        if offset == part.high_watermark:
            return Found(batches, offset, size)
        infos, valid, reason = scan_prefix(part.records)
        if not infos:
            raise BenchError(f"{topic.name}-{partition} at {offset}: {reason or 'no records before the end'}")
        for info in infos:
            if info.base_offset != offset:
                raise BenchError(f"{topic.name}-{partition}: offset {info.base_offset} where {offset} was next")
            offset = info.last_offset + 1
            if info.producer_id >= 0:
                if sequences.get(info.producer_id, 0) != info.base_sequence:
                    raise BenchError(f"{topic.name}-{partition}: sequence {info.base_sequence} at offset {offset}")
                sequences[info.producer_id] = info.base_sequence + info.count
        batches += len(infos)
        size += valid


def read_topic(bootstrap: str, topic: Topic) -> dict[int, Found]:
    """Read all partitions."""
    with Caller(bootstrap) as caller:
        return {partition: read_partition(caller, topic, partition) for partition in range(topic.partitions)}
