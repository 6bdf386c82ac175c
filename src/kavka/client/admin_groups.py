"""Administration of groups: list, describe, their offsets, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kavka.client.group_link import GroupLink
from kavka.client.group_offsets import CommittedOffset, commit_offsets, fetch_offsets, offsets_of_many
from kavka.client.pool import Pool
from kavka.client.streams_groups import StreamsTopology, partitions_of, topology_of
from kavka.client.view import error_for, raise_for
from kavka.model.errors import GroupIdNotFound, KafkaError, MalformedMessage, UnsupportedVersion
from kavka.model.types import TopicPartition
from kavka.protocol.consumer_protocol import PROTOCOL_TYPE, read_assignment
from kavka.protocol.schemas import consumer_group_describe as consumer_schema
from kavka.protocol.schemas import describe_groups as classic_schema
from kavka.protocol.schemas import streams_group_describe as streams_schema
from kavka.protocol.schemas.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kavka.protocol.schemas.list_groups import ListGroupsRequest, ListGroupsResponse
from kavka.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

DEAD = "Dead"
GROUPS_AT_ONCE = 50
"""Whose offsets one request asks for: few enough to hold up nobody else for long."""


class GroupListing(NamedTuple):
    """A group in a list."""

    id: str
    type: str
    state: str
    protocol_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group and its assignment."""

    id: str
    client_id: str
    host: str
    instance_id: str | None
    epoch: int | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members; the epoch is that of a consumer or streams group, the topology that of the latter."""

    id: str
    type: str
    state: str
    coordinator: int
    assignor: str
    epoch: int | None
    members: tuple[GroupMember, ...]
    topology: StreamsTopology | None = None


class GroupsAdmin:
    """The part of the admin client that deals with groups."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """All groups of the cluster, or those in some states and of some types, by name."""
        view = await self._pool.refresh()
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

        async def ask(node: int) -> list[GroupListing]:
            answer = await self._pool.request(request, ListGroupsResponse, node=node)
            raise_for(answer.error_code)
            return [
                GroupListing(row.group_id, row.group_type or "classic", row.group_state, row.protocol_type, node)
                for row in answer.groups
            ]

        found = await asyncio.gather(*(ask(node) for node in view.nodes))
        return sorted(row for rows in found for row in rows)

    async def describe_group(self, id_: str) -> GroupDescription:
        """A group with its members; raises GroupIdNotFound."""
        link = GroupLink(self._pool, id_)
        try:
            return await self._describe_consumer_group(link)
        except (GroupIdNotFound, UnsupportedVersion):
            pass  # it may be of another type
        try:
            return await self._describe_classic_group(link)
        except GroupIdNotFound as missing:
            try:
                return await self._describe_streams_group(link)
            except (GroupIdNotFound, UnsupportedVersion):
                raise missing from None

    async def describe_groups(self, ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Groups with their members, asked for together; raises the first GroupIdNotFound."""
        wanted = list(dict.fromkeys(ids))
        return dict(zip(wanted, await asyncio.gather(*map(self.describe_group, wanted)), strict=True))

    async def _describe_consumer_group(self, link: GroupLink) -> GroupDescription:
        request = consumer_schema.ConsumerGroupDescribeRequest(
            group_ids=[link.group_id], include_authorized_operations=False
        )
        group = await the_group(link, request, consumer_schema.ConsumerGroupDescribeResponse)
        return GroupDescription(
            id=group.group_id,
            type="consumer",
            state=group.group_state,
            coordinator=await link.node(),
            assignor=group.assignor_name,
            epoch=group.group_epoch,
            members=tuple(assigned_member(member, member.instance_id) for member in group.members),
        )

    async def _describe_classic_group(self, link: GroupLink) -> GroupDescription:
        request = classic_schema.DescribeGroupsRequest(groups=[link.group_id])
        group = await the_group(link, request, classic_schema.DescribeGroupsResponse)
        if group.group_state == DEAD:
            raise GroupIdNotFound(f"there is no group {link.group_id!r}")
        return GroupDescription(
            id=group.group_id,
            type="classic",
            state=group.group_state,
            coordinator=await link.node(),
            assignor=group.protocol_data,
            epoch=None,
            members=tuple(
                GroupMember(
                    id=member.member_id,
                    client_id=member.client_id,
                    host=member.client_host.removeprefix("/"),
                    instance_id=member.group_instance_id,
                    epoch=None,
                    partitions=_assigned(group.protocol_type, member.member_assignment),
                )
                for member in group.members
            ),
        )

    async def _describe_streams_group(self, link: GroupLink) -> GroupDescription:
        request = streams_schema.StreamsGroupDescribeRequest(
            group_ids=[link.group_id], include_authorized_operations=False
        )
        group = await the_group(link, request, streams_schema.StreamsGroupDescribeResponse)
        topology = topology_of(group)
        return GroupDescription(
            id=group.group_id,
            type="streams",
            state=group.group_state,
            coordinator=await link.node(),
            assignor="",
            epoch=group.group_epoch,
            members=tuple(
                GroupMember(
                    id=member.member_id,
                    client_id=member.client_id,
                    host=member.client_host.removeprefix("/"),
                    instance_id=member.instance_id,
                    epoch=member.member_epoch,
                    partitions=partitions_of(member, topology),
                )
                for member in group.members
            ),
            topology=topology,
        )

    async def group_offsets(self, id_: str) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group."""
        return await fetch_offsets(GroupLink(self._pool, id_))

    async def offsets_of_groups(self, groups: Iterable[GroupListing]) -> dict[str, dict[TopicPartition, int]]:
        """How far listed groups have read, many with one request; groups that nobody tells of are left out."""
        by_node: dict[int, list[str]] = {}
        for group in groups:
            by_node.setdefault(group.coordinator, []).append(group.id)
        found: dict[str, dict[TopicPartition, int]] = {}

        async def ask(node: int, ids: list[str]) -> None:
            for at in range(0, len(ids), GROUPS_AT_ONCE):
                found.update(await offsets_of_many(self._pool, node, ids[at : at + GROUPS_AT_ONCE]))

        for error in await asyncio.gather(*(ask(*each) for each in by_node.items()), return_exceptions=True):
            if error is not None and not isinstance(error, KafkaError):
                raise error
        return found

    async def alter_group_offsets(self, id_: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Alter the committed offsets of an empty group."""
        await commit_offsets(GroupLink(self._pool, id_), offsets)

    async def delete_group_offsets(self, id_: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete the committed offsets of partitions whose topics the group is not subscribed to."""
        by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for tp in partitions:
            by_topic.setdefault(tp.topic, []).append(OffsetDeleteRequestPartition(partition_index=tp.partition))
        request = OffsetDeleteRequest(
            group_id=id_,
            topics=[OffsetDeleteRequestTopic(name=topic, partitions=rows) for topic, rows in by_topic.items()],
        )
        answer = await GroupLink(self._pool, id_).ask(request, OffsetDeleteResponse)
        raise_for(answer.error_code)
        for topic in answer.topics:
            for row in topic.partitions:
                raise_for(row.error_code)

    async def delete_group(self, id_: str) -> None:
        """Delete an empty group, with its offsets."""
        request = DeleteGroupsRequest(groups_names=[id_])
        answer = await GroupLink(self._pool, id_).ask(
            request, DeleteGroupsResponse, code=lambda response: response.results[0].error_code
        )
        if answer.results[0].error_code:
            raise error_for(answer.results[0].error_code)

    async def delete_groups(self, ids: Iterable[str]) -> None:
        """Delete empty groups; raises the first error after all were tried."""
        outcomes = await asyncio.gather(*map(self.delete_group, dict.fromkeys(ids)), return_exceptions=True)
        for error in outcomes:
            if error is not None:
                raise error


async def the_group(link: GroupLink, request: Any, response: type[Any]) -> Any:
    """The one group that a request describes; raises KafkaError."""
    answer = await link.ask(request, response, code=lambda answer: answer.groups[0].error_code)
    (group,) = answer.groups
    raise_for(group.error_code, group.error_message)
    return group


def assigned_member(member: Any, instance_id: str | None) -> GroupMember:
    """A member of a group with epochs, and the partitions that are assigned to it."""
    return GroupMember(
        id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        instance_id=instance_id,
        epoch=member.member_epoch,
        partitions=frozenset(
            TopicPartition(topic.topic_name, index)
            for topic in member.assignment.topic_partitions
            for index in topic.partitions
        ),
    )


def _assigned(protocol_type: str, assignment: bytes) -> frozenset[TopicPartition]:
    """The assignment of a member of a classic group, if it is a consumer."""
    if protocol_type != PROTOCOL_TYPE or not assignment:
        return frozenset()
    try:
        found = read_assignment(assignment).assigned_partitions
    except MalformedMessage:
        return frozenset()
    return frozenset(TopicPartition(topic.topic, index) for topic in found for index in topic.partitions)
