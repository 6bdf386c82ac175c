"""Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords on what the produce cases left."""

from __future__ import annotations

from typing import Any

from jvm.differential.areas.produce import produce
from jvm.differential.areas.topics import NOBODY
from jvm.differential.batches import TIMESTAMP, Batch, batch, record
from jvm.differential.case import Case, Request, cases

from kavka.model.types import Uuid
from kavka.protocol.schemas.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from kavka.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def row(partition: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **rest: Any) -> FetchPartition:
    """A partition to fetch."""
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **rest)


def fetch(*rows: FetchPartition, topic: str = "fetched", **rest: Any) -> FetchRequest:
    """A fetch by the topic's name."""
    given: dict[str, Any] = {"max_wait_ms": 100, "min_bytes": 0, "max_bytes": 1 << 20, **rest}
    topics = [FetchTopic(topic=topic, partitions=list(rows))] if rows else []
    return FetchRequest(topics=topics, **given)


def fetch_by_id(*rows: FetchPartition, topic: str | Uuid = "fetched", **rest: Any) -> Request:
    """A fetch by the topic's id."""
    given: dict[str, Any] = {"max_wait_ms": 100, "min_bytes": 0, "max_bytes": 1 << 20, **rest}

    def request(seen: Any) -> FetchRequest:
        topic_id = topic if isinstance(topic, Uuid) else seen.topic_id(topic)
        topics = [FetchTopic(topic_id=topic_id, partitions=list(rows))] if rows else []
        return FetchRequest(topics=topics, **given)

    return request


def in_session(
    opened_by: str, epoch: int, *rows: FetchPartition, forget: tuple[int, ...] = (), by_id: bool = False
) -> Request:
    """A fetch in the session that an earlier case opened."""

    def request(seen: Any) -> FetchRequest:
        named = {"topic_id": seen.topic_id("fetched")} if by_id else {"topic": "fetched"}
        return FetchRequest(
            max_wait_ms=100,
            min_bytes=0,
            max_bytes=1 << 20,
            session_id=seen.answer(opened_by).session_id,
            session_epoch=epoch,
            topics=[FetchTopic(**named, partitions=list(rows))] if rows else [],
            forgotten_topics_data=[ForgottenTopic(**named, partitions=list(forget))] if forget else [],
        )

    return request


def offsets(
    timestamp: int, topic: str = "fetched", partition: int = 0, isolation: int = 0, **rest: Any
) -> ListOffsetsRequest:
    """One offset by timestamp."""
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, **rest)
    topics = [ListOffsetsTopic(name=topic, partitions=[wanted])]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)


def epoch_end(epoch: int, current: int = -1, topic: str = "fetched", partition: int = 0) -> OffsetForLeaderEpochRequest:
    """Where an epoch ended."""
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])


def delete_records(offset: int, topic: str = "fetched", partition: int = 1) -> DeleteRecordsRequest:
    """Delete the records before an offset."""
    rows = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=5_000)


def timed(*deltas: int) -> bytes:
    """A batch whose records are so many ms after TIMESTAMP."""
    rows = [record(i, str(delta).encode(), timestamp_delta=delta) for i, delta in enumerate(deltas)]
    return Batch(rows, max_timestamp=TIMESTAMP + max(deltas)).encode()


FILL = [
    *[
        Case(f"fill partition {partition} with batch {number}", produce(timed(*deltas), "fetched", partition), 9)
        for partition in (0, 1)
        for number, deltas in enumerate([(0, 1, 2), (5000, 3000, 4000), (10_000,), (9000, 9500)])
    ],
    Case("fill partition 2 with a large batch", produce(batch(b"x" * 5000), "fetched", 2), 9),
    Case("fill partition 2 with a small batch", produce(batch(b"y"), "fetched", 2), 9),
]

FETCH = [
    *[Case(f"fetch v{version}", fetch(row()), version) for version in range(4, 13)],
    *[Case(f"fetch by id v{version}", fetch_by_id(row()), version) for version in range(13, 19)],
    Case("fetch from the middle of a batch", fetch(row(offset=1)), 12),
    Case("fetch from the end", fetch(row(offset=9)), 12),
    Case("fetch beyond the end", fetch(row(offset=10)), 12),
    Case("fetch before the start", fetch(row(offset=-5)), 12),
    Case("fetch from an unknown topic v11", fetch(row(), topic="nowhere"), 11),
    Case("fetch from an unknown topic v12", fetch(row(), topic="nowhere"), 12),
    Case("fetch from an unknown id", fetch_by_id(row(), topic=NOBODY), 13),
    Case("fetch from no id", fetch_by_id(row(), topic=Uuid.ZERO), 13),
    Case("fetch from an unknown partition", fetch(row(77)), 12),
    Case("fetch from a negative partition", fetch(row(-1)), 12),
    Case("fetch from a bad name", fetch(row(), topic="a/b"), 12),
    Case("fetch the metadata topic", fetch(row(), topic="__cluster_metadata"), 12),
    Case("fetch from a known, an unknown and an empty partition", fetch(row(0), row(77), row(1, 9)), 12),
    Case("fetch one byte", fetch(row(2, max_bytes=1)), 12, note="the first batch comes whole"),
    Case("fetch one byte of the whole", fetch(row(2), max_bytes=1), 12),
    Case("fetch no bytes", fetch(row(2, max_bytes=0)), 12),
    Case("fetch no bytes of the whole", fetch(row(2), max_bytes=0), 12),
    Case("fetch negative bytes", fetch(row(2, max_bytes=-1)), 12),
    Case("fetch up to the middle of a batch", fetch(row(2, max_bytes=5100)), 12),
    Case("fetch two partitions with room for one", fetch(row(2), row(0), max_bytes=100), 12),
    Case("fetch two partitions with room for one and a piece", fetch(row(0), row(2), max_bytes=3000), 12),
    Case("fetch a second partition with a limit below its batch", fetch(row(0), row(2, max_bytes=100)), 12),
    Case(
        "fetch a minimum that the partitions have but the limits do not let out",
        fetch(row(0), row(2), min_bytes=3000, max_bytes=3000, max_wait_ms=20_000),
        12,
    ),
    Case("fetch with an unreachable minimum", fetch(row(offset=9), min_bytes=100_000, max_wait_ms=200), 12),
    Case("fetch with a minimum that is there", fetch(row(), min_bytes=100, max_wait_ms=20_000), 12),
    Case("fetch an error without waiting", fetch(row(77), min_bytes=100_000, max_wait_ms=20_000), 12),
    Case("fetch read committed", fetch(row(), isolation_level=1), 12),
    Case("fetch with an odd isolation level", fetch(row(), isolation_level=7), 12),
    Case("fetch with the current epoch", fetch(row(current_leader_epoch=0)), 12),
    Case("fetch with an old epoch", fetch(row(current_leader_epoch=-3)), 12),
    Case("fetch with a future epoch", fetch(row(current_leader_epoch=9)), 12),
    Case("fetch with a future epoch v16", fetch_by_id(row(current_leader_epoch=9)), 16),
    Case("fetch with a last fetched epoch", fetch(row(offset=3, last_fetched_epoch=0)), 12),
    Case("fetch with a last fetched epoch of the future", fetch(row(offset=3, last_fetched_epoch=8)), 12),
    Case("fetch with a rack", fetch(row(), rack_id="rack"), 12),
    Case("fetch as the debugging consumer", fetch(row(), replica_id=-2), 12),
    Case("fetch as an unknown replica", fetch(row(), replica_id=42), 12),
    Case(
        "fetch as an unknown replica v15",
        fetch_by_id(row(), replica_state=ReplicaState(replica_id=42, replica_epoch=1)),
        15,
    ),
    Case("fetch nothing", fetch(max_wait_ms=50), 12),
    Case("fetch the codecs", fetch(row(), topic="produced"), 12),
    Case("fetch zstd before version 10", fetch(row(), topic="produced"), 9),
    Case("fetch the idempotent producers' batches", fetch(row(2), topic="produced"), 12),
    Case("fetch log append time", fetch(row(), topic="append-time"), 12),
    Case("fetch what is zipped", fetch(row(), topic="zipped"), 12),
    Case("fetch what is not", fetch(row(), topic="unzipped"), 12),
    Case("fetch what is compacted", fetch(row(), topic="compacted"), 12),
]

SESSIONS = [
    Case("open a session", fetch(row(0), row(1), session_epoch=0), 12),
    Case("the session has nothing new", in_session("open a session", 1), 12),
    Case("the session moves on", in_session("open a session", 2, row(0, 9), row(1, 9)), 12),
    Case("more for the session", produce(batch(b"more"), "fetched", 1), 9),
    Case("the session sees it", in_session("open a session", 3), 12),
    Case("the session takes a partition in", in_session("open a session", 4, row(2, 0)), 12),
    Case("the session lets a partition go", in_session("open a session", 5, forget=(0, 2)), 12),
    Case("the session forgets what it has not", in_session("open a session", 6, forget=(55,)), 12),
    Case("the session at a wrong epoch", in_session("open a session", 99), 12),
    Case("the session goes on after it", in_session("open a session", 7), 12),
    Case("the session with an unknown partition", in_session("open a session", 8, row(77)), 12),
    Case("the session is closed", in_session("open a session", -1, row(0)), 12),
    Case("the session is gone", in_session("open a session", 9), 12),
    Case(
        "an unknown session",
        FetchRequest(max_wait_ms=1, min_bytes=0, session_id=123456, session_epoch=5, topics=[]),
        12,
    ),
    Case("open a session by id", fetch_by_id(row(0), row(1), session_epoch=0), 13),
    Case("the session by id has nothing new", in_session("open a session by id", 1, by_id=True), 13),
    Case("the session by id is asked by name", in_session("open a session by id", 2, row(0)), 12),
    Case("open a session with an unknown id", fetch_by_id(row(0), topic=NOBODY, session_epoch=0), 13),
]

OFFSETS = [
    *[
        Case(f"{name} offset v{version}", offsets(timestamp), version)
        for version in (1, 4, 6, 7, 8, 9, 10, 11)
        for name, timestamp in (("latest", -1), ("earliest", -2))
    ],
    Case("offset of the largest timestamp v7", offsets(-3), 7),
    Case("offset of the largest timestamp v11", offsets(-3), 11),
    Case("offset of the largest timestamp too early", offsets(-3), 6),
    Case("offset of the largest timestamp of an empty partition", offsets(-3, "defaults"), 11),
    Case("earliest local offset", offsets(-4), 8),
    Case("earliest local offset too early", offsets(-4), 7),
    Case("latest tiered offset", offsets(-5), 9),
    Case("latest tiered offset too early", offsets(-5), 8),
    Case("earliest offset that waits for upload", offsets(-6), 11),
    Case("earliest offset that waits for upload too early", offsets(-6), 10),
    Case("an unknown special timestamp", offsets(-7), 11),
    Case("another unknown special timestamp", offsets(-77), 11),
    *[
        Case(f"offset by time {delta}", offsets(TIMESTAMP + delta), 8)
        for delta in (-1, 0, 1, 2, 3, 3000, 3001, 4500, 5000, 5001, 9200, 10_000, 10_001)
    ],
    Case("offset by time v1", offsets(TIMESTAMP + 3000), 1),
    Case("offset by time read committed", offsets(TIMESTAMP + 3000, isolation=1), 8),
    Case("latest offset read committed", offsets(-1, isolation=1), 8),
    Case("offset with the current epoch", offsets(-1, current_leader_epoch=0), 8),
    Case("offset with a future epoch", offsets(-1, current_leader_epoch=9), 8),
    Case("offset of an unknown topic", offsets(-1, "nowhere"), 8),
    Case("offset of an unknown partition", offsets(-1, partition=77), 8),
    Case("offset of a bad name", offsets(-1, "a/b"), 8),
    Case("offset with log append time", offsets(-1, "append-time"), 8),
    Case(
        "offset of a partition twice",
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(name="fetched", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2)
            ],
        ),
        8,
    ),
    Case("offsets of nothing", ListOffsetsRequest(replica_id=-1, topics=[]), 8),
    *cases(2, 3, 4, name="end of epoch 0", request=epoch_end(0)),
    Case("end of a future epoch", epoch_end(5), 4),
    Case("end of a negative epoch", epoch_end(-1), 4),
    Case("end of an epoch with the current one", epoch_end(0, current=0), 4),
    Case("end of an epoch with a future current one", epoch_end(0, current=3), 4),
    Case("end of an epoch in an unknown topic", epoch_end(0, topic="nowhere"), 4),
    Case("end of an epoch in an unknown partition", epoch_end(0, partition=77), 4),
    Case("end of an epoch in an empty partition", epoch_end(0, topic="defaults"), 4),
]

DELETE_RECORDS = [
    *[Case(f"delete records v{version}", delete_records(1 + version), version) for version in range(3)],
    Case("delete records before the start", delete_records(1), 2),
    Case("delete records beyond the end", delete_records(1000), 2),
    Case("delete records at a negative offset", delete_records(-5), 2),
    Case("delete records in an unknown topic", delete_records(1, "nowhere"), 2),
    Case("delete records in an unknown partition", delete_records(1, partition=77), 2),
    Case("delete records where it is compacted", delete_records(1, "compacted", 0), 2),
    Case("fetch what was deleted", fetch(row(1, 0)), 12),
    Case("fetch after what was deleted", fetch(row(1, 3)), 12),
    Case("earliest offset after records were deleted", offsets(-2, partition=1), 8),
    Case("offset by time after records were deleted", offsets(TIMESTAMP, partition=1), 8),
    Case("end of epoch 0 after records were deleted", epoch_end(0, partition=1), 4),
    Case("delete all records", delete_records(-1), 2),
    Case("fetch when all is deleted", fetch(row(1, 10)), 12),
    Case("largest timestamp when all is deleted", offsets(-3, partition=1), 8),
]
