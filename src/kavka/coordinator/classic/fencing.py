"""Who may commit the offsets of a classic group, and how these age."""

from __future__ import annotations

from kavka.coordinator.classic.live import NO_TIMESTAMP, GroupState, LiveGroup
from kavka.coordinator.offsets.rules import Ageing, commit_time
from kavka.model.errors import IllegalGeneration, NonEmptyGroup, RebalanceInProgress, UnknownMemberId
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest


def check_commit(group: LiveGroup, request: OffsetCommitRequest) -> None:
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


def check_transaction(group: LiveGroup, request: OffsetCommitRequest) -> None:
    """Raise unless a transaction commits for a member of this generation, or does not say for whom (KIP-447)."""
    generation = request.generation_id_or_member_epoch
    if generation < 0 and (
        group.state is GroupState.EMPTY or (not request.member_id and request.group_instance_id is None)
    ):
        return
    group.check_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise IllegalGeneration(f"{group.id} is at generation {group.generation}, not {generation}")


def check_delete(group: LiveGroup) -> None:
    """Raise when offsets of a group cannot be deleted because it has members whose topics we do not know."""
    if group.state is not GroupState.EMPTY and not group.is_consumers:
        raise NonEmptyGroup(f"{group.id} has members")


def ageing_of(group: LiveGroup) -> Ageing | None:
    """How the offsets of a classic group age; None when they do not.

    An empty group's age from when it became empty, a simple group's from their commit. A group with members is only
    touched when it is stable and we know its topics.
    """
    if group.protocol_type is None:
        return Ageing(commit_time, group.is_subscribed)
    if group.state is GroupState.EMPTY:
        empty_since_ms = group.state_since_ms
        if empty_since_ms == NO_TIMESTAMP:
            return Ageing(commit_time, group.is_subscribed)
        return Ageing(lambda _: empty_since_ms, group.is_subscribed)
    if group.is_consumers and group.topics is not None and group.state is GroupState.STABLE:
        return Ageing(commit_time, group.is_subscribed)
    return None
