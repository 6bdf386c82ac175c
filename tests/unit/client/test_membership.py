"""A member by the consumer protocol against a played coordinator: what it says that it has, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kavka.client.group_link import GroupLink
from kavka.client.membership import ConsumerMembership, Subscription
from kavka.model.errors import FencedMemberEpoch, RequestTimedOut
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.registry import ApiKey, api
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from kavka.protocol.schemas.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kavka.protocol.schemas.find_coordinator import Coordinator, FindCoordinatorResponse

Played = Any  # the class is in conftest.py, which tests cannot import
NOTHING: frozenset[TopicPartition] = frozenset()
ZERO = frozenset({TopicPartition("orders", 0)})
TOPIC_ID = Uuid(b"the orders topic")


class Group:
    """A coordinator that answers each heartbeat as it was told to, and a steady one without news otherwise."""

    def __init__(self, played: Played, *answers: tuple[int, list[int] | None] | int) -> None:
        self.heard: list[ConsumerGroupHeartbeatRequest] = []
        self.notice: Callable[[], None] = lambda: None
        self._answers = list(answers)
        self._epoch = 0
        played.on_find_coordinator = self._find
        played.on_consumer_group_heartbeat = self._beat
        played.on_api_versions = self._versions

    @property
    def said(self) -> list[list[int] | None]:
        """The partitions that each heartbeat named."""
        named = (heartbeat.topic_partitions for heartbeat in self.heard)
        return [
            None if topics is None else [index for topic in topics for index in topic.partitions] for topics in named
        ]

    def _versions(self, node: int, request: Any) -> object:
        keys = (ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR, ApiKey.CONSUMER_GROUP_HEARTBEAT)
        rows = [ApiVersion(api_key=key, min_version=0, max_version=api(key).max_version) for key in keys]
        return ApiVersionsResponse(error_code=0, api_keys=rows)

    def _find(self, node: int, request: Any) -> object:
        row = Coordinator(key="g", node_id=0, host="node0", port=1, error_code=0, error_message=None)
        return FindCoordinatorResponse(coordinators=[row])

    def _beat(self, node: int, request: ConsumerGroupHeartbeatRequest) -> object:
        self.heard.append(request)
        self.notice()
        answer = self._answers.pop(0) if self._answers else (self._epoch, None)
        if isinstance(answer, int):
            return reply(error_code=answer)
        self._epoch, partitions = answer
        rows = [TopicPartitions(topic_id=TOPIC_ID, partitions=partitions)] if partitions else []
        return reply(self._epoch, None if partitions is None else Assignment(topic_partitions=rows))


def reply(epoch: int = 0, assignment: Assignment | None = None, error_code: int = 0) -> object:
    """An answer to a heartbeat."""
    return ConsumerGroupHeartbeatResponse(
        error_code=error_code,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=1,
        assignment=assignment,
    )


def live(played: Played, work: Callable[[ConsumerMembership], Awaitable[None]]) -> None:
    """Be a member while something is done."""

    async def run() -> None:
        async with asyncio.timeout(10), played.pool(timeout_ms=20) as pool:
            await pool.refresh(["orders"])
            member = ConsumerMembership(
                GroupLink(pool, "g"), pool, Subscription(topics=("orders",)), lambda: None, lambda: Uuid(bytes(16))
            )
            running = asyncio.ensure_future(member.run())
            await work(member)
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(run())


async def until(reached: Callable[[], bool]) -> None:
    """Wait for something to be so."""
    while not reached():
        await asyncio.sleep(0.001)


def test_what_was_taken_is_said_once(played: Played) -> None:
    group = Group(played, (1, [0]))

    async def work(member: ConsumerMembership) -> None:
        await until(lambda: len(group.heard) > 2)
        member.settle(member.take())
        await until(lambda: [0] in group.said)
        heard = len(group.heard)
        await until(lambda: len(group.heard) > heard + 2)

    live(played, work)
    assert group.said[0] == []
    assert group.said.count([0]) == 1
    assert group.said.count([]) == 1


def test_what_was_taken_back_before_the_user_took_it_is_acknowledged(played: Played) -> None:
    group = Group(played, (1, [0]), (1, []))

    async def work(member: ConsumerMembership) -> None:
        await until(lambda: member.offer == NOTHING)
        assert group.said == [[], None]
        member.settle(member.take())
        await until(lambda: len(group.heard) > 2 and group.said[-1] == [])

    live(played, work)


def test_nothing_is_said_while_the_user_takes_something(played: Played) -> None:
    group = Group(played, (1, [0]), RequestTimedOut.code)

    async def work(member: ConsumerMembership) -> None:
        await until(lambda: member.offer is not None)
        wanted = member.take()
        # After an error everything is said again, to a coordinator that may be another one, except for this.
        await until(lambda: len(group.heard) > 4)
        assert group.said[1:] == [None] * (len(group.heard) - 1)
        member.settle(wanted)
        await until(lambda: group.said[-1] == [0])
        assert group.heard[-1].subscribed_topic_names == ["orders"]

    live(played, work)


def test_nothing_can_be_taken_while_the_coordinator_hears_that_it_was_not(played: Played) -> None:
    group = Group(played, (1, [0]), (1, [0, 1]))
    offered = []

    async def work(member: ConsumerMembership) -> None:
        await until(lambda: member.offer is not None)
        wanted = member.take()
        await until(lambda: member.offer != ZERO)
        group.notice = lambda: offered.append((group.said[-1], member.offer))
        member.settle(wanted)
        await until(lambda: [0] in group.said and member.offer is not None)
        assert member.offer == ZERO | {TopicPartition("orders", 1)}

    live(played, work)
    assert ([0], None) in offered


def test_who_is_fenced_while_it_takes_something_has_lost_it(played: Played) -> None:
    Group(played, (1, [0]), FencedMemberEpoch.code)

    async def work(member: ConsumerMembership) -> None:
        await until(lambda: member.offer is not None)
        assert member.take() == ZERO
        await until(lambda: member.lost)
        assert member.offer is None
        member.settle(NOTHING)
        await until(lambda: member.epoch == 1)
        assert member.owned == NOTHING

    live(played, work)
