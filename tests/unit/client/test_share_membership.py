"""A member of a share group against a played coordinator: when it says what it wants, and what it has then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kavka.client.group_link import GroupLink
from kavka.client.share_membership import ShareMembership
from kavka.model.errors import FencedMemberEpoch, NotCoordinator, RequestTimedOut
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.registry import ApiKey, api
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from kavka.protocol.schemas.find_coordinator import Coordinator, FindCoordinatorResponse
from kavka.protocol.schemas.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

Played = Any  # the class is in conftest.py, which tests cannot import
ORDERS = Uuid(b"the orders topic")
UNKNOWN = Uuid(b"a topic to come.")

Answer = tuple[int, dict[Uuid, list[int]] | None] | int


class Group:
    """A coordinator that answers each heartbeat as it was told to, and then says nothing new.

    As Kafka's, it says what a member has to one that joins or says what it wants, and when that has changed.
    """

    def __init__(self, played: Played, *answers: Answer) -> None:
        self.heard: list[ShareGroupHeartbeatRequest] = []
        self._answers = list(answers)
        self._epoch = 0
        played.on_find_coordinator = self._find
        played.on_share_group_heartbeat = self._beat
        played.on_api_versions = self._versions

    def _versions(self, node: int, request: Any) -> object:
        keys = (ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR, ApiKey.SHARE_GROUP_HEARTBEAT)
        rows = [ApiVersion(api_key=key, min_version=0, max_version=api(key).max_version) for key in keys]
        return ApiVersionsResponse(error_code=0, api_keys=rows)

    def _find(self, node: int, request: Any) -> object:
        row = Coordinator(key="g", node_id=0, host="node0", port=1, error_code=0, error_message=None)
        return FindCoordinatorResponse(coordinators=[row])

    def _beat(self, node: int, request: ShareGroupHeartbeatRequest) -> object:
        self.heard.append(request)
        answer = self._answers.pop(0) if self._answers else (self._epoch, None)
        if isinstance(answer, int):
            return _reply(error_code=answer)
        self._epoch, assigned = answer
        if assigned is None:
            return _reply(self._epoch)
        rows = [TopicPartitions(topic_id=id_, partitions=indexes) for id_, indexes in assigned.items()]
        return _reply(self._epoch, Assignment(topic_partitions=rows))


def _reply(epoch: int = 0, assignment: Assignment | None = None, error_code: int = 0) -> object:
    return ShareGroupHeartbeatResponse(
        error_code=error_code,
        error_message=None,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=1,
        assignment=assignment,
    )


def live(played: Played, reached: Callable[[ShareMembership], bool]) -> ShareMembership:
    """Be a member until something is so."""

    async def run() -> ShareMembership:
        async with asyncio.timeout(10), played.pool(timeout_ms=20) as pool:
            await pool.refresh(["orders"])
            member = ShareMembership(GroupLink(pool, "g"), pool, ("orders",), "m", "rack", lambda: None)
            running = asyncio.ensure_future(member.run())
            while not reached(member):
                await asyncio.sleep(0.001)
            running.cancel()
            await asyncio.wait([running])
            return member

    return asyncio.run(run())


def wants(group: Group) -> list[list[str] | None]:
    """What each heartbeat said that the member wants."""
    return [heartbeat.subscribed_topic_names for heartbeat in group.heard]


def test_what_it_wants_is_said_once(played: Played) -> None:
    group = Group(played, (1, {ORDERS: [0]}))
    member = live(played, lambda _: len(group.heard) > 3)
    assert member.assigned == {TopicPartition("orders", 0)}
    assert wants(group)[:3] == [["orders"], None, None]
    assert [heartbeat.rack_id for heartbeat in group.heard][:2] == ["rack", None]


@pytest.mark.parametrize("error", [RequestTimedOut.code, NotCoordinator.code])
def test_who_missed_an_answer_says_it_again_and_hears_what_it_missed(played: Played, error: int) -> None:
    group = Group(played, (1, {}), error, (2, {ORDERS: [0]}))
    member = live(played, lambda member: bool(member.assigned) and len(group.heard) > 3)
    assert member.assigned == {TopicPartition("orders", 0)}
    assert wants(group)[:4] == [["orders"], None, ["orders"], None]


def test_who_is_fenced_joins_with_all_it_wants(played: Played) -> None:
    group = Group(played, (7, {}), FencedMemberEpoch.code)
    live(played, lambda _: len(group.heard) > 2)
    assert [(heartbeat.member_epoch, heartbeat.subscribed_topic_names) for heartbeat in group.heard][:3] == [
        (0, ["orders"]),
        (7, None),
        (0, ["orders"]),
    ]


def test_a_topic_that_no_node_knows_yet_is_heard_of_again(played: Played) -> None:
    group = Group(played, (1, {ORDERS: [0], UNKNOWN: [0]}), (1, {ORDERS: [0]}))
    member = live(played, lambda _: len(group.heard) > 2)
    assert member.assigned == {TopicPartition("orders", 0)}
    assert wants(group)[:3] == [["orders"], ["orders"], None]


def test_who_could_not_learn_the_name_of_a_topic_hears_of_it_again(played: Played) -> None:
    group = Group(played, (1, {UNKNOWN: [0]}), (1, {ORDERS: [0]}))
    metadata = played.on_metadata

    def refuse_all(node: int, request: Any) -> object:
        if request.topics is None:
            raise ConnectionError
        return metadata(node, request)

    played.on_metadata = refuse_all
    member = live(played, lambda member: bool(member.assigned) and len(group.heard) > 2)
    assert member.assigned == {TopicPartition("orders", 0)}
    assert wants(group)[:3] == [["orders"], ["orders"], None]
