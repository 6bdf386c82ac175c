"""Groups that change their kind while members are in them: from classic to consumer, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kavka.coordinator.assignors.spec import Partitions
from kavka.coordinator.classic.embedded import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from kavka.coordinator.classic.live import GroupState, LiveGroup, LiveMember
from kavka.coordinator.classic.state import without_group as without_classic_group
from kavka.coordinator.consumer.change import GroupChange
from kavka.coordinator.consumer.entries import (
    current_entry,
    epoch_entry,
    member_entry,
    target_entry,
    target_epoch_entry,
)
from kavka.coordinator.consumer.records import ClassicMemberMetadata, ClassicProtocol
from kavka.coordinator.consumer.state import NO_PARTITIONS, ConsumerGroup, Member
from kavka.coordinator.settings import CoordinatorSettings
from kavka.coordinator.topics import Topics
from kavka.model.errors import GroupIdNotFound, MalformedMessage
from kavka.model.types import Uuid

# -- to a consumer group --------------------------------------------------------------------------


def check_upgrade(group: LiveGroup, settings: CoordinatorSettings) -> None:
    """Raise GroupIdNotFound, as Kafka does, when a group must stay a classic one."""
    if not settings.may_upgrade:
        raise GroupIdNotFound(f"{group.id} is a classic group, and online upgrade is disabled")
    if not group.is_consumers:
        raise GroupIdNotFound(f"{group.id} is a classic group of no consumers")
    if len(group.members) > settings.consumer_max_size:
        raise GroupIdNotFound(f"{group.id} is a classic group with more members than a consumer group may have")


def upgrade(change: GroupChange, group: LiveGroup, topics: Topics) -> None:
    """Write a classic group as a consumer group whose members use the classic protocol; raises GroupIdNotFound.

    Every member starts with what it was last given: a partition goes to someone else only after the member has
    joined again and says that it does not have it any more.
    """
    try:
        members, targets = _read_members(group, topics)
    except MalformedMessage as error:
        raise GroupIdNotFound(f"the members of classic group {group.id} say something unreadable: {error}") from None
    change.records.append(without_classic_group(group.id))
    change.write(member_entry(group.id, member) for member in members)
    change.write([epoch_entry(group.id, group.generation, change.metadata_hash())])
    change.write(target_entry(group.id, member.id, targets[member.id]) for member in members)
    change.write([target_epoch_entry(group.id, group.generation, 0)])
    change.write(current_entry(group.id, member) for member in members)


def _read_members(group: LiveGroup, topics: Topics) -> tuple[list[Member], dict[str, Partitions]]:
    taken: set[tuple[Uuid, int]] = set()
    members, targets = [], {}
    for each in group.members.values():
        target = _read_target(each, topics, taken)
        taken |= {(topic_id, partition) for topic_id, partitions in target.items() for partition in partitions}
        subscription = read_subscription(each.metadata(group.protocol) or each.protocols[0][1])
        members.append(_classic_member(group.generation, each, subscription, target))
        targets[each.id] = target
    return members, targets


def _read_target(member: LiveMember, topics: Topics, taken: set[tuple[Uuid, int]]) -> Partitions:
    """What a member was last given, without what the leader had given to others as well."""
    if not member.held:
        return NO_PARTITIONS
    assignment = read_assignment(member.held)
    if assignment.user_data:
        raise GroupIdNotFound("an assignor of the clients' own is in use, whose user data would be lost")
    target: dict[Uuid, frozenset[int]] = {}
    for topic in assignment.assigned_partitions:
        topic_id = topics.id_of(topic.topic)
        if topic_id is not None:
            found = frozenset(each for each in topic.partitions if (topic_id, each) not in taken)
            if found:
                target[topic_id] = found
    return target


def _classic_member(
    generation: int, member: LiveMember, subscription: ConsumerProtocolSubscription, target: Partitions
) -> Member:
    return Member(
        id=member.id,
        epoch=generation,
        previous_epoch=generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned={topic_id: dict.fromkeys(found, generation) for topic_id, found in target.items()},
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def classic_metadata(session_timeout_ms: int, protocols: Iterable[tuple[str, bytes]]) -> ClassicMemberMetadata:
    """What a member of a consumer group said in the classic protocol."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols],
    )


# -- to a classic group ---------------------------------------------------------------------------


def can_downgrade(group: ConsumerGroup, without: Collection[Member], settings: CoordinatorSettings) -> bool:
    """Whether a group that loses members becomes a classic one: someone is left, and all use the classic protocol."""
    left = len(group.members) - len(without)
    classic = group.classic_count - sum(member.classic is not None for member in without)
    return classic == left and 0 < left <= settings.classic_max_size and settings.may_downgrade


def can_downgrade_by(group: ConsumerGroup, seated: Member, settings: CoordinatorSettings) -> bool:
    """Whether a group becomes a classic one when a static member comes back with the classic protocol."""
    return (
        seated.classic is None
        and group.classic_count == len(group.members) - 1
        and len(group.members) <= settings.classic_max_size
        and settings.may_downgrade
    )


def downgraded(group_id: str, group: ConsumerGroup, generation: int, topics: Topics, now_ms: int) -> LiveGroup | None:
    """A group, all of whose members use the classic protocol, as a classic one; None if they say unreadable things."""
    live = LiveGroup(group_id, state=GroupState.STABLE, state_since_ms=now_ms, generation=generation)
    for member in group.members.values():
        assert member.classic is not None
        live.add(
            LiveMember(
                id=member.id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=tuple((protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols),
            ),
            PROTOCOL_TYPE,
        )
    if len(live.members) not in live.supported.values():
        return None
    live.protocol = live.elect_protocol()
    live.topics = live.subscribed_topics()
    try:
        for each in live.members.values():
            version = version_of(each.metadata(live.protocol))
            named = topics.named(group.targets.get(each.id, NO_PARTITIONS))
            each.assignment = each.held = write_assignment(named, version)
    except MalformedMessage:
        return None
    return live
