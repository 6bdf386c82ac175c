"""The pool: which node is asked, and what happens when it cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from kavka.client import Connection, KafkaError, Pool, TopicPartition
from kavka.model.errors import (
    BrokerNotAvailable,
    InvalidRequest,
    LeaderNotAvailable,
    NetworkException,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataResponse

Played = Any  # the class is in conftest.py, which tests cannot import
TP = TopicPartition("orders", 0)
Answers = Mapping[TopicPartition, int | KafkaError]


def run(played: Played, work: Callable[[Pool], Awaitable[None]], **options: Any) -> None:
    async def inside() -> None:
        async with asyncio.timeout(10), played.pool(**options) as pool:
            await work(pool)

    asyncio.run(inside())


def test_everyone_who_asks_at_once_shares_one_connection(played: Played) -> None:
    async def work(pool: Pool) -> None:
        await pool.refresh()
        first, second = await asyncio.gather(pool.node(0), pool.node(0))
        assert first is second is pool.ready(0)
        assert played.requests[ApiKey.API_VERSIONS] == 1

    run(played, work)


def test_a_lane_is_a_connection_of_its_own_until_it_is_hung_up(played: Played) -> None:
    async def work(pool: Pool) -> None:
        await pool.refresh()
        lane = object()
        own = await pool.node(0, lane)
        assert own is not await pool.node(0)
        assert own is await pool.node(0, lane)
        pool.hang_up(lane)
        assert own.closed
        assert pool.ready(0) is not None

    run(played, work)


def test_who_asks_any_node_on_a_lane_holds_up_nobody_else(played: Played) -> None:
    async def work(pool: Pool) -> None:
        await pool.refresh()
        shared, lane = await pool.any(), object()
        assert (own := await pool.any(lane)) is not shared
        assert own is await pool.any(lane)
        await pool.request(MetadataRequest(topics=[]), MetadataResponse, lane=lane)
        assert shared is await pool.any()

    run(played, work)


def test_a_closed_connection_is_replaced(played: Played) -> None:
    async def work(pool: Pool) -> None:
        await pool.refresh()
        before = await pool.node(0)
        before.close()
        assert pool.ready(0) is None
        assert not (await pool.node(0)).closed

    run(played, work)


def test_another_node_is_asked_when_one_is_down(played: Played) -> None:
    played.nodes = [0, 1]

    async def work(pool: Pool) -> None:
        await pool.refresh()
        played.down.add(0)
        answer = await pool.request(MetadataRequest(topics=[]), MetadataResponse)
        assert len(answer.brokers) == 2

    run(played, work)


def test_a_node_that_comes_back_is_found_again(played: Played) -> None:
    async def work(pool: Pool) -> None:
        await pool.refresh()
        played.down.add(0)
        asyncio.get_running_loop().call_later(0.02, played.down.clear)
        await pool.request(MetadataRequest(topics=[]), MetadataResponse)

    run(played, work)


def test_a_cluster_that_stays_away_is_an_error_when_the_time_is_over(played: Played) -> None:
    async def work(pool: Pool) -> None:
        await pool.refresh()
        played.down.add(0)
        with pytest.raises(NetworkException):
            await pool.request(MetadataRequest(topics=[]), MetadataResponse, timeout_ms=20)

    run(played, work)


def test_a_request_does_not_wait_longer_than_it_may_for_a_node_that_is_left_alone(played: Played) -> None:
    async def work(pool: Pool) -> None:
        await pool.refresh()
        played.down.add(0)
        with pytest.raises(NetworkException, match="closed the connection"):
            await pool.request(MetadataRequest(topics=[]), MetadataResponse, timeout_ms=20)

    run(played, work, reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)


def test_a_node_that_can_be_dialled_is_asked_before_one_that_is_left_alone(played: Played) -> None:
    played.nodes = [0, 1]

    async def work(pool: Pool) -> None:
        await pool.refresh()
        played.down.add(0)
        with pytest.raises(NetworkException):
            await (await pool.node(0)).request(MetadataRequest(topics=[]), MetadataResponse)
        assert (await pool.any()).address == "node1:1"

    run(played, work, reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000, draw=lambda: 0.5)


def test_a_node_that_nobody_knows_is_not_available(played: Played) -> None:
    async def work(pool: Pool) -> None:
        with pytest.raises(BrokerNotAvailable, match="node 9"):
            await pool.node(9)

    run(played, work)


def test_refreshes_that_are_asked_for_together_are_one_request(played: Played) -> None:
    async def work(pool: Pool) -> None:
        await pool.refresh(["orders"])
        before = played.requests[ApiKey.METADATA]
        await asyncio.gather(*(pool.refresh(["orders"]) for _ in range(10)))
        assert played.requests[ApiKey.METADATA] - before == 2, "one that was under way at most, and one for all others"

    run(played, work)


def test_metadata_grows_old(played: Played) -> None:
    async def work(pool: Pool) -> None:
        await pool.refresh()
        assert not pool.stale
        await asyncio.sleep(0.02)
        assert pool.stale

    run(played, work, metadata_max_age_ms=10)


def test_an_unknown_topic_is_waited_for_as_long_as_the_caller_wants(played: Played) -> None:
    async def work(pool: Pool) -> None:
        with pytest.raises(UnknownTopicOrPartition, match="'late'"):
            await pool.topic("late")
        partition = type(played.partition)
        asyncio.get_running_loop().call_later(0.02, lambda: played.topics.update(late={0: partition()}))
        assert list((await pool.topic("late", wait_ms=5000)).partitions) == [0]

    run(played, work)


def test_leaders_are_asked_again_while_the_error_passes(played: Played) -> None:
    errors: list[KafkaError] = [NotLeaderOrFollower(), LeaderNotAvailable()]

    async def ask(connection: Connection, part: Mapping[TopicPartition, str]) -> Answers:
        return {tp: errors.pop() if errors else len(what) for tp, what in part.items()}

    async def work(pool: Pool) -> None:
        assert await pool.ask_leaders({TP: "four"}, ask) == {TP: 4}

    run(played, work)


def test_a_lasting_error_of_a_leader_is_its_partitions_result(played: Played) -> None:
    played.topics["orders"][1] = type(played.partition)()
    other = TopicPartition("orders", 1)
    asked = []

    async def ask(connection: Connection, part: Mapping[TopicPartition, None]) -> Answers:
        asked.append(set(part))
        return {tp: InvalidRequest("no") if tp == TP else 1 for tp in part}

    async def work(pool: Pool) -> None:
        results = await pool.ask_leaders({TP: None, other: None}, ask)
        assert isinstance(results[TP], InvalidRequest)
        assert results[other] == 1
        assert asked == [{TP, other}]

    run(played, work)


def test_partitions_that_are_not_there_are_told_apart(played: Played) -> None:
    played.topics["orders"][1] = type(played.partition)(leader=-1)

    async def ask(connection: Connection, part: Mapping[TopicPartition, None]) -> Answers:
        return dict.fromkeys(part, 1)

    async def work(pool: Pool) -> None:
        asked = [TopicPartition("nope", 0), TopicPartition("orders", 7), TopicPartition("orders", 1)]
        results = await pool.ask_leaders(dict.fromkeys(asked), ask, timeout_ms=20)
        assert [str(results[tp]) for tp in asked] == [
            "there is no topic 'nope'",
            "topic 'orders' has no partition 7",
            "orders-1 has no leader at the moment",
        ]

    run(played, work)


def test_waits_between_attempts_double_up_to_a_limit(played: Played) -> None:
    pool = Pool("node0:1", retry_backoff_ms=100, retry_backoff_max_ms=1000, draw=lambda: 0.5)
    assert [pool.retry_delay(attempt) for attempt in (1, 2, 3, 4, 5, 99)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_closed_pool_opens_nothing(played: Played) -> None:
    async def work(pool: Pool) -> None:
        await pool.close()
        with pytest.raises(NetworkException, match="closed"):
            await pool.any()

    run(played, work)
