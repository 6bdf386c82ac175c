"""Who may commit and fetch the offsets of a consumer group, and how these age."""

from __future__ import annotations

from kavka.coordinator.consumer.state import ConsumerGroup, Member
from kavka.coordinator.offsets.rules import Ageing, CheckPartition, commit_time
from kavka.model.errors import IllegalGeneration, KafkaError, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from kavka.model.types import Uuid
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup


def check_commit(group: ConsumerGroup, request: OffsetCommitRequest, api_version: int) -> CheckPartition | None:
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


def check_transaction(group: ConsumerGroup, request: OffsetCommitRequest) -> CheckPartition | None:
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


def check_fetch(group: ConsumerGroup, request: OffsetFetchRequestGroup) -> None:
    """Raise unless a fetch comes from a member, or does not say from whom."""
    if request.member_id is None and request.member_epoch < 0:
        return
    member = _member(group, request.member_id or "")
    if request.member_epoch != member.epoch:
        raise _stale(member, f"{member.id} is at epoch {member.epoch}, not {request.member_epoch}")


def is_subscribed(group: ConsumerGroup, topic: str) -> bool:
    """Whether some member wants a topic."""
    return topic in group.topics_by_name or topic in group.topics_by_regex


def ageing_of(group: ConsumerGroup) -> Ageing:
    """How the offsets of a consumer group age: from their commit, for topics that nobody wants."""
    return Ageing(commit_time, lambda topic: is_subscribed(group, topic))


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
