"""Who of a consumer group may commit and fetch its offsets, and how these age."""

from __future__ import annotations

from functools import partial

from kavka.coordinator.consumer.state import ConsumerGroup
from kavka.coordinator.offsets import fencing
from kavka.coordinator.offsets.fencing import Committer
from kavka.coordinator.offsets.rules import Ageing, CheckPartition, commit_time
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup


def check_commit(group: ConsumerGroup, request: OffsetCommitRequest, api_version: int) -> CheckPartition | None:
    """Raise unless a commit comes from a member, or from nobody to a group of nobody."""
    find = partial(committer, group)
    return fencing.check_commit(find, request, api_version, has_members=bool(group.members))


def check_transaction(group: ConsumerGroup, request: OffsetCommitRequest) -> CheckPartition | None:
    """Raise unless a transaction commits for a member, or does not say for whom."""
    return fencing.check_transaction(partial(committer, group), request, has_members=bool(group.members))


def check_fetch(group: ConsumerGroup, request: OffsetFetchRequestGroup) -> None:
    """Raise unless a fetch comes from a member, or does not say from whom."""
    fencing.check_fetch(partial(committer, group), request)


def committer(group: ConsumerGroup, member_id: str) -> Committer | None:
    """A member as one that commits."""
    member = group.members.get(member_id)
    if member is None:
        return None
    return Committer(
        member.id,
        member.epoch,
        lambda _, topic_id, partition: member.assigned_since(topic_id, partition),
        is_classic=member.classic is not None,
    )


def is_subscribed(group: ConsumerGroup, topic: str) -> bool:
    """Whether some member wants a topic."""
    return topic in group.topics_by_name or topic in group.topics_by_regex


def ageing_of(group: ConsumerGroup) -> Ageing:
    """How the offsets of a consumer group age: from their commit, for topics that nobody wants."""
    return Ageing(commit_time, lambda topic: is_subscribed(group, topic))
