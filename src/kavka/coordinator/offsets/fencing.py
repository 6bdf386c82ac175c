"""Who may commit and fetch the offsets of a group whose members have epochs (KIP-848, KIP-1071)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kavka.coordinator.offsets.rules import CheckPartition
from kavka.model.errors import IllegalGeneration, KafkaError, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from kavka.model.types import Uuid
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup

FIRST_EPOCH_VERSION = 9
"""The first version of OffsetCommit that has member epochs."""


class Committer(NamedTuple):
    """A member that commits."""

    id: str
    epoch: int
    since: Callable[[str, Uuid, int], int | None]
    """Since which epoch it has a partition, or has had it if it is giving it back; None if it does not."""
    is_classic: bool = False


Find = Callable[[str], Committer | None]
"""A member of the group, if it is one."""


def check_commit(
    find: Find, request: OffsetCommitRequest, api_version: int, *, has_members: bool
) -> CheckPartition | None:
    """Raise unless a commit comes from a member, or from nobody to a group of nobody.

    A member that is behind may still commit for what it has had since before; then each partition is checked.
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not has_members:
        return None
    member = _member(find, request.member_id)
    if not member.is_classic and api_version < FIRST_EPOCH_VERSION:
        raise UnsupportedVersion(f"a member that has an epoch commits at version {FIRST_EPOCH_VERSION} or above")
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        raise _stale(member, f"{member.id} is at epoch {member.epoch}, not {epoch}")
    return _since_check(member, epoch)


def check_transaction(find: Find, request: OffsetCommitRequest, *, has_members: bool) -> CheckPartition | None:
    """Raise unless a transaction commits for a member, or does not say for whom."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and (not has_members or (not request.member_id and request.group_instance_id is None)):
        return None
    member = _member(find, request.member_id)
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


def check_fetch(find: Find, request: OffsetFetchRequestGroup) -> None:
    """Raise unless a fetch comes from a member, or does not say from whom."""
    if request.member_id is None and request.member_epoch < 0:
        return
    member = _member(find, request.member_id or "")
    if request.member_epoch != member.epoch:
        raise _stale(member, f"{member.id} is at epoch {member.epoch}, not {request.member_epoch}")


def _since_check(member: Committer, epoch: int) -> CheckPartition:
    def check(topic: str, topic_id: Uuid, partition: int) -> None:
        since = member.since(topic, topic_id, partition)
        if since is None:
            raise _stale(member, f"{member.id} does not have {topic}-{partition}")
        if epoch < since:
            raise _stale(member, f"{member.id} has {topic}-{partition} since epoch {since}, not {epoch}")

    return check


def _member(find: Find, member_id: str) -> Committer:
    member = find(member_id)
    if member is None:
        raise UnknownMemberId(f"{member_id} is no member of the group")
    return member


def _stale(member: Committer, why: str) -> KafkaError:
    return IllegalGeneration(why) if member.is_classic else StaleMemberEpoch(why)
