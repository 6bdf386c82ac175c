"""Who may commit and fetch the offsets of a group."""

from __future__ import annotations

from collections.abc import Callable

from kavka.coordinator.classic.live import GroupState, LiveGroup
from kavka.coordinator.consumer.state import ConsumerGroup, Member
from kavka.model.errors import (
    IllegalGeneration,
    KafkaError,
    NonEmptyGroup,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from kavka.model.types import Uuid
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup

CheckPartition = Callable[[str, Uuid, int], None]
"""Raises unless a member may commit for a partition."""


def check_classic_commit(group: LiveGroup, request: OffsetCommitRequest) -> None:
    """Raise unless a commit comes from a member of this generation, or from nobody to a group of nobody."""
    generation = request.generation_id_or_member_epoch
    if generation < 0 and group.state is GroupState.EMPTY:
        return
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        raise UnknownMemberId(f"{group.id} has members, and the commit names none of them")
    group.check_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise IllegalGeneration(f"{group.id} is at generation {group.generation}, not {generation}")
    if group.state is GroupState.COMPLETING_REBALANCE:
        raise RebalanceInProgress(f"{group.id} has a new generation that is not assigned yet")


def check_consumer_commit(
    group: ConsumerGroup, request: OffsetCommitRequest, api_version: int
) -> CheckPartition | None:
    """Raise unless a commit comes from a member, or from nobody to a group of nobody.

    A member that is behind may still commit for what it has had since before; then each partition is looked at.
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return None
    member = _member(group, request.member_id)
    if member.classic is None and api_version < 9:
        raise UnsupportedVersion("a member of the consumer protocol commits at version 9 or above")
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        raise _stale(member, f"{member.id} is at epoch {member.epoch}, not {epoch}")
    return _since_check(member, epoch)


def check_classic_transaction(group: LiveGroup, request: OffsetCommitRequest) -> None:
    """Raise unless a transaction commits for a member of this generation, or does not say for whom (KIP-447)."""
    generation = request.generation_id_or_member_epoch
    if generation < 0 and (
        group.state is GroupState.EMPTY or (not request.member_id and request.group_instance_id is None)
    ):
        return
    group.check_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise IllegalGeneration(f"{group.id} is at generation {group.generation}, not {generation}")


def check_consumer_transaction(group: ConsumerGroup, request: OffsetCommitRequest) -> CheckPartition | None:
    """Raise unless a transaction commits for a member, or does not say for whom."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and (not group.members or (not request.member_id and request.group_instance_id is None)):
        return None
    member = _member(group, request.member_id)
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        raise IllegalGeneration(f"{member.id} is at epoch {member.epoch}, not {epoch}")
    check_since = _since_check(member, epoch)

    def check(topic: str, topic_id: Uuid, partition: int) -> None:
        try:
            check_since(topic, topic_id, partition)
        except StaleMemberEpoch as error:
            raise IllegalGeneration(error.message) from error

    return check


def check_consumer_fetch(group: ConsumerGroup, request: OffsetFetchRequestGroup) -> None:
    """Raise unless a fetch comes from a member, or does not say from whom."""
    if request.member_id is None and request.member_epoch < 0:
        return
    member = _member(group, request.member_id or "")
    if request.member_epoch != member.epoch:
        raise _stale(member, f"{member.id} is at epoch {member.epoch}, not {request.member_epoch}")


def check_classic_delete(group: LiveGroup) -> None:
    """Raise when offsets of a group cannot be deleted because it has members whose topics we do not know."""
    if group.state is not GroupState.EMPTY and not group.is_consumers:
        raise NonEmptyGroup(f"{group.id} has members")


def _since_check(member: Member, epoch: int) -> CheckPartition:
    def check(topic: str, topic_id: Uuid, partition: int) -> None:
        since = member.assigned_since(topic_id, partition)
        if since is None:
            raise _stale(member, f"{member.id} does not have {topic}-{partition}")
        if epoch < since:
            raise _stale(member, f"{member.id} has {topic}-{partition} since epoch {since}, not {epoch}")

    return check


def _member(group: ConsumerGroup, member_id: str) -> Member:
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"{member_id} is no member of the group")
    return member


def _stale(member: Member, why: str) -> KafkaError:
    return StaleMemberEpoch(why) if member.classic is None else IllegalGeneration(why)
