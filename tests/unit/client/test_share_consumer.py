"""A share consumer against a played cluster: what it fetches from whom, and what becomes of what it cannot read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.client.share_consumer import ShareConsumer
from kavka.client.share_session import GAP, REJECT, RELEASE, ShareRecord
from kavka.model.errors import CorruptMessage, TopicAuthorizationFailed
from kavka.model.types import Uuid
from kavka.protocol.registry import ApiKey, api
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from kavka.protocol.schemas.find_coordinator import Coordinator, FindCoordinatorResponse
from kavka.protocol.schemas.share_acknowledge import ShareAcknowledgeResponse
from kavka.protocol.schemas.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kavka.protocol.schemas.share_group_heartbeat import Assignment, ShareGroupHeartbeatResponse, TopicPartitions
from kavka.records.builder import BatchBuilder

Played = Any  # the class is in conftest.py, which tests cannot import
ORDERS = Uuid(b"the orders topic")
ANOTHER = Uuid(b"its second life.")
KEYS = (
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.FIND_COORDINATOR,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
)
Row = tuple[int, bytes, tuple[int, int] | None]
"""Error code, records, and the first and last offset that are acquired."""


class Group:
    """A share group that has all partitions of a topic assigned to its one member."""

    def __init__(self, played: Played) -> None:
        self.topic_id = ORDERS
        self.answers: dict[tuple[int, int], list[Row]] = {}
        """By node and partition: what the next fetches of it bring."""
        self.fetches: list[tuple[int, Any]] = []
        self._played = played
        self._metadata = played.on_metadata
        self._sessions: dict[int, set[tuple[Uuid, int]]] = {}
        played.on_metadata = self._on_metadata
        played.on_find_coordinator = self._find
        played.on_api_versions = self._versions
        played.on_share_group_heartbeat = self._beat
        played.on_share_fetch = self._fetch
        played.on_share_acknowledge = lambda node, request: ShareAcknowledgeResponse(
            error_code=0, acquisition_lock_timeout_ms=30_000, responses=[], node_endpoints=[]
        )

    def said(self) -> dict[tuple[int, int], int]:
        """By partition and offset: how it was acknowledged."""
        return {
            (row.partition_index, offset): (batch.acknowledge_types * (batch.last_offset - batch.first_offset + 1))[
                offset - batch.first_offset
            ]
            for _, request in self.fetches
            for topic in request.topics
            for row in topic.partitions
            for batch in row.acknowledgement_batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }

    def _on_metadata(self, node: int, request: Any) -> object:
        answer = self._metadata(node, request)
        for topic in answer.topics:
            topic.topic_id = self.topic_id
        return answer

    def _versions(self, node: int, request: Any) -> object:
        rows = [ApiVersion(api_key=key, min_version=0, max_version=api(key).max_version) for key in KEYS]
        return ApiVersionsResponse(error_code=0, api_keys=rows)

    def _find(self, node: int, request: Any) -> object:
        row = Coordinator(key="g", node_id=0, host="node0", port=1, error_code=0, error_message=None)
        return FindCoordinatorResponse(coordinators=[row])

    def _beat(self, node: int, request: Any) -> object:
        rows = [TopicPartitions(topic_id=self.topic_id, partitions=sorted(self._played.topics["orders"]))]
        return ShareGroupHeartbeatResponse(
            error_code=0,
            member_id=request.member_id,
            member_epoch=1,
            heartbeat_interval_ms=5,
            assignment=Assignment(topic_partitions=rows),
        )

    def _fetch(self, node: int, request: Any) -> object:
        self.fetches.append((node, request))
        session = self._sessions.setdefault(node, set())
        if request.share_session_epoch == 0:
            session.clear()
        session |= {(topic.topic_id, row.partition_index) for topic in request.topics for row in topic.partitions}
        session -= {(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions}
        topics: dict[Uuid, list[PartitionData]] = {}
        for topic_id, index in sorted(session):
            answers = self.answers.get((node, index))
            if answers:
                topics.setdefault(topic_id, []).append(row_of(index, *answers.pop(0)))
        return ShareFetchResponse(
            error_code=0,
            acquisition_lock_timeout_ms=30_000,
            responses=[ShareFetchableTopicResponse(topic_id=id_, partitions=rows) for id_, rows in topics.items()],
            node_endpoints=[],
        )


def row_of(index: int, error_code: int, records: bytes, acquired: tuple[int, int] | None) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error_code,
        acknowledge_error_code=0,
        current_leader=LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
        records=records,
        acquired_records=[]
        if acquired is None
        else [AcquiredRecords(first_offset=acquired[0], last_offset=acquired[1], delivery_count=1)],
    )


def batch(base: int, *values: bytes) -> bytes:
    builder = BatchBuilder(base_offset=base)
    for value in values:
        builder.append(None, value)
    return builder.build()


def damaged(data: bytes) -> bytes:
    """A batch whose CRC is not that of its records."""
    return data[:-1] + bytes([data[-1] ^ 1])


def play(played: Played, work: Callable[[ShareConsumer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(20),
            played.pool(timeout_ms=2_000) as pool,
            ShareConsumer(pool, group="g", topics=["orders"], acknowledgement="explicit") as consumer,
        ):
            await work(consumer)

    asyncio.run(run())


async def taken(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    found: list[ShareRecord] = []
    while len(found) < count:
        found += await consumer.read()
    return found


def partitions(played: Played, *leaders: int) -> None:
    kind = type(played.partition)
    played.topics["orders"] = {index: kind(leader=leader) for index, leader in enumerate(leaders)}
    played.nodes = sorted({0, *leaders} - {-1})


def test_a_partition_without_a_leader_is_looked_at_again_though_others_have_one(played: Played) -> None:
    partitions(played, 0, -1)
    group = Group(played)
    group.answers = {(0, 0): [(0, batch(0, b"a"), (0, 0))], (1, 1): [(0, batch(7, b"b"), (7, 7))]}

    async def work(consumer: ShareConsumer) -> None:
        (first,) = await taken(consumer, 1)
        while played.requests[ApiKey.METADATA] < 4:  # those of its beginning, and one that looks
            assert await consumer.read(50) == []
        played.nodes = [0, 1]
        played.topics["orders"][1].leader = 1
        (second,) = await taken(consumer, 1)
        assert [first[:3], second[:3]] == [("orders", 0, 0), ("orders", 1, 7)]

    play(played, work)


def test_records_of_a_damaged_batch_are_rejected_and_told_of_once(played: Played) -> None:
    group = Group(played)
    data = batch(0, b"a") + damaged(batch(1, b"b", b"c")) + batch(3, b"d")
    group.answers = {(0, 0): [(0, data, (0, 4)), (0, batch(9, b"e"), (9, 9))]}

    async def work(consumer: ShareConsumer) -> None:
        assert [record.value for record in await taken(consumer, 2)] == [b"a", b"d"]
        with pytest.raises(CorruptMessage, match="orders-0 at offset 1"):
            await consumer.read()
        assert [record.value for record in await taken(consumer, 1)] == [b"e"]
        assert group.said() == {(0, 1): REJECT, (0, 2): REJECT, (0, 4): GAP}

    play(played, work)


def test_what_follows_bytes_that_are_no_batch_is_released(played: Played) -> None:
    group = Group(played)
    group.answers = {(0, 0): [(0, batch(0, b"a") + batch(1, b"b")[:-1], (0, 1)), (0, batch(9, b"e"), (9, 9))]}

    async def work(consumer: ShareConsumer) -> None:
        assert [record.value for record in await taken(consumer, 1)] == [b"a"]
        with pytest.raises(CorruptMessage):
            await consumer.read()
        assert [record.value for record in await taken(consumer, 1)] == [b"e"]
        assert group.said() == {(0, 1): RELEASE}

    play(played, work)


def test_a_passing_error_of_one_node_does_not_hide_a_fatal_one_of_another(played: Played) -> None:
    partitions(played, 0, 1)
    group = Group(played)
    refused, moved = TopicAuthorizationFailed.code, 6
    group.answers = {(0, 0): [(refused, b"", None)], (1, 1): [(moved, b"", None)] * 3}

    async def work(consumer: ShareConsumer) -> None:
        while not consumer.assignment:
            await asyncio.sleep(0.001)
        reading = asyncio.ensure_future(consumer.read(5_000))
        with pytest.raises(TopicAuthorizationFailed):
            await reading

    play(played, work)


def test_a_topic_that_was_created_again_is_another_topic_of_the_session(played: Played) -> None:
    group = Group(played)
    group.answers = {(0, 0): [(0, batch(0, b"a"), (0, 0))]}

    async def work(consumer: ShareConsumer) -> None:
        await taken(consumer, 1)
        group.topic_id = ANOTHER
        group.answers = {(0, 0): [(100, b"", None)]}
        assert await consumer.read(300) == []
        group.answers = {(0, 0): [(0, batch(0, b"new"), (0, 0))]}
        assert [record.value for record in await taken(consumer, 1)] == [b"new"]
        named = [topic.topic_id for _, request in group.fetches for topic in request.topics]
        forgotten = [topic.topic_id for _, request in group.fetches for topic in request.forgotten_topics_data]
        assert (named, forgotten) == ([ORDERS, ANOTHER], [ORDERS])

    play(played, work)
