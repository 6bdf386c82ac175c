"""Who of a streams group may commit and fetch its offsets, and how these age."""

from __future__ import annotations

from functools import partial

from kavka.coordinator.offsets import fencing
from kavka.coordinator.offsets.fencing import Committer
from kavka.coordinator.offsets.rules import Ageing, CheckPartition, commit_time
from kavka.coordinator.streams.state import StreamsGroup
from kavka.model.types import Uuid
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup


def check_commit(group: StreamsGroup, request: OffsetCommitRequest, api_version: int) -> CheckPartition | None:
    """Raise unless a commit comes from a member, or from nobody to a group of nobody."""
    return fencing.check_commit(partial(committer, group), request, api_version, has_members=bool(group.members))


def check_transaction(group: StreamsGroup, request: OffsetCommitRequest) -> CheckPartition | None:
    """Raise unless a transaction commits for a member, or does not say for whom."""
    return fencing.check_transaction(partial(committer, group), request, has_members=bool(group.members))


def check_fetch(group: StreamsGroup, request: OffsetFetchRequestGroup) -> None:
    """Raise unless a fetch comes from a member, or does not say from whom."""
    fencing.check_fetch(partial(committer, group), request)


def committer(group: StreamsGroup, member_id: str) -> Committer | None:
    """A member as one that commits: a partition is its own as long as the active task that reads it is."""
    member = group.members.get(member_id)
    if member is None:
        return None

    def since(topic: str, topic_id: Uuid, partition: int) -> int | None:
        id_ = None if group.topology is None else group.topology.source_of.get(topic)
        return None if id_ is None else member.active_since(id_, partition)

    return Committer(member.id, member.epoch, since)


def is_subscribed(group: StreamsGroup, topic: str) -> bool:
    """Whether a group that has members reads a topic."""
    return bool(group.members) and group.topology is not None and topic in group.topology.source_of


def ageing_of(group: StreamsGroup) -> Ageing:
    """How the offsets of a streams group age: from their commit, for topics that nobody reads."""
    return Ageing(commit_time, partial(is_subscribed, group))
