"""Consumer groups (KIP-848): ConsumerGroupHeartbeat, and members that go or are silent for too long.

Deciding methods change only soft state (`_checked`, deadlines), and only once nothing can fail any more; what the
log shall remember they return as records.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from kavka.coordinator.classic.live import GroupState
from kavka.coordinator.classic.machine import ClassicGroups
from kavka.coordinator.classic.state import ClassicGroup, group_entry
from kavka.coordinator.classic.state import without_group as without_classic_group
from kavka.coordinator.consumer.change import GroupChange, change_of_patterns_due
from kavka.coordinator.consumer.entries import current_entry, without_group
from kavka.coordinator.consumer.migration import can_downgrade, check_upgrade, downgraded, upgrade
from kavka.coordinator.consumer.state import LEFT_SEAT, Assigned, ConsumerGroup, Member, MemberState
from kavka.coordinator.context import ShardContext
from kavka.coordinator.requests import Client, Draft
from kavka.coordinator.state import ShardState
from kavka.coordinator.timers import REJOIN, RESYNC, REVOCATION, SESSION, TimerKey
from kavka.coordinator.untold import Untold
from kavka.model.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from kavka.model.transition import Transition
from kavka.model.types import Uuid
from kavka.protocol.schemas.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

MEMBER_TIMERS = (SESSION, REVOCATION, REJOIN, RESYNC)


class ConsumerGroups:
    """The consumer groups of a shard."""

    def __init__(self, context: ShardContext, state: ShardState, classic: ClassicGroups) -> None:
        self._context = context
        self._state = state
        self._classic = classic
        self._checked: set[str] = set()
        """Groups whose topics have not changed since their hash was last computed."""
        self._revoking: dict[TimerKey, int] = {}
        """The epochs at which members that must give partitions back are stuck."""
        self._untold = Untold()

    # -- the heartbeat ----------------------------------------------------------------------------

    def steady(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Transition[ConsumerGroupHeartbeatResponse] | None:
        """Stay a member of a group in which nobody has anything new to say; None if there is more to it."""
        group = self._state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(request.member_id)
            if member is not None and self._is_steady(group, member, request, client, now_ms):
                settings = self._context.of_group(request.group_id)
                key = TimerKey(SESSION, request.group_id, member.id)
                effects = self._context.deadlines.put(key, now_ms + settings.session_timeout_ms)
                return Transition(_reply(member.id, member.epoch, settings.heartbeat_interval_ms), (), effects)
        return None

    def _is_steady(
        self,
        group: ConsumerGroup,
        member: Member,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        now_ms: int,
    ) -> bool:
        """Whether nobody has anything new to say: what nearly every heartbeat is like."""
        return (
            request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
            and member.state is MemberState.STABLE
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.server_assignor is None
            and request.rack_id is None
            and request.rebalance_timeout_ms == -1
            and request.instance_id == member.instance_id
            and client.id == member.client_id
            and client.host == member.client_host
            and member.classic is None
            and request.group_id in self._checked
            and (request.group_id, member.id) not in self._untold
            and not change_of_patterns_due(self._context, group, now_ms)
        )

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Transition[ConsumerGroupHeartbeatResponse]:
        """Join, or stay a member and go on with what is to be given back or taken."""
        joins = request.member_epoch == 0
        change = self._open(request.group_id, joins, now_ms)
        self.check_room(change.group, request.member_id)
        id_ = request.member_id or str(self._context.new_id())
        before = self._seat(change, request, id_, joins)
        after = _told(before, request, client)
        change.put_member(after)
        # What clients assigned may be out of date, or never have been finished: who upgrades a group assigns anew.
        anew = isinstance(self._state.groups.get(request.group_id), ClassicGroup)
        changed = self.subscribe(change, before, after, client, anew=anew)
        change.assign()
        owned = request.topic_partitions
        said = None if owned is None else [(topic.topic_id, topic.partitions) for topic in owned]
        moved = change.reconcile(after, said, changed)
        # Nothing fails from here on.
        settings = self._context.of_group(request.group_id)
        self._settle(change, after, moved, settings.session_timeout_ms)
        reply = _reply(id_, moved.epoch, settings.heartbeat_interval_ms)
        untold = self._untold.is_to_be_told(
            request.group_id,
            id_,
            request.member_epoch,
            news=moved.assigned != before.assigned or (joins and bool(moved.assigned)),
            has=_has(request, moved.assigned),
        )
        if joins or _is_full(request) or untold:
            reply = _reply(id_, moved.epoch, settings.heartbeat_interval_ms, _shown(moved.assigned))
        return change.done(reply)

    def _open(self, group_id: str, joins: bool, now_ms: int) -> GroupChange:
        """The group as a consumer group; who joins a classic one makes it one."""
        stored = self._state.groups.get(group_id)
        if isinstance(stored, ConsumerGroup):
            return GroupChange(self._context, group_id, stored, now_ms)
        if not joins:
            raise GroupIdNotFound(f"there is no consumer group {group_id}")
        change = GroupChange(self._context, group_id, None, now_ms)
        if stored is None:
            return change
        if not isinstance(stored, ClassicGroup):
            raise GroupIdNotFound(f"{group_id} is a group of another kind")
        live = self._classic.peek(group_id, stored)
        if live.state is GroupState.EMPTY:
            change.records.append(without_classic_group(group_id))
        else:
            check_upgrade(live, self._context.settings)
            upgrade(change, live, self._context.topics)
        return change

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GroupMaxSizeReached when a new member would be one too many."""
        if len(group.members) >= self._context.settings.consumer_max_size and member_id not in group.members:
            raise GroupMaxSizeReached(f"the group has {len(group.members)} members already")

    def _seat(self, change: GroupChange, request: ConsumerGroupHeartbeatRequest, id_: str, joins: bool) -> Member:
        """The member that makes a request, which may be new; raises when it may not be who it says."""
        instance_id = request.instance_id
        if instance_id is None:
            member = change.group.members.get(id_)
            if member is None:
                if not joins:
                    raise UnknownMemberId(f"{id_} is no member of {change.group_id}")
                return Member(id_)
            _check_epoch(member, request)
            return member
        seated = change.group.static_member(instance_id)
        if joins:
            if seated is None:
                return change.group.members.get(id_) or Member(id_)
            if seated.classic is None and seated.epoch != LEFT_SEAT:
                raise UnreleasedInstanceId(f"{seated.id} has the instance id {instance_id} and has not left")
            return change.take_seat(seated, id_)
        if seated is None:
            raise UnknownMemberId(f"no member of {change.group_id} has the instance id {instance_id}")
        _check_seat(seated, id_)
        _check_epoch(seated, request)
        return seated

    def subscribe(
        self, change: GroupChange, before: Member, after: Member, client: Client, *, anew: bool = False
    ) -> bool:
        """Go by what a member now wants; whether that is something else than before."""
        changed_regex = before.regex != after.regex
        if changed_regex and before.regex:
            change.drop_regex(before.regex)
        changed_names = before.topics != after.topics
        if changed_regex and change.is_new(after.regex, client) and not anew:
            # As in Kafka the next heartbeat goes by it: it need not have been matched with the topics before.
            moved = changed_names
        else:
            moved = change.resolve(client) or changed_names or changed_regex or anew
        if moved:
            change.refresh(changed=True)
        elif change.group_id not in self._checked:
            change.refresh(changed=False)
        return changed_regex or changed_names

    # -- soft state -------------------------------------------------------------------------------

    def _settle(self, change: GroupChange, before: Member, moved: Member, session_timeout_ms: int) -> None:
        """The soft state after a heartbeat."""
        deadlines, group_id, now_ms = self._context.deadlines, change.group_id, change.now_ms
        if isinstance(self._state.groups.get(group_id), ClassicGroup):
            self._classic.retire(change, group_id)
            for member in change.group.members.values():
                if member.classic is not None:
                    self.hear(change, member.id, member.classic.session_timeout_ms)
        self.hear(change, moved.id, session_timeout_ms)
        self._checked.add(group_id)
        key = TimerKey(REVOCATION, group_id, moved.id)
        if moved != before or moved.state is not MemberState.UNREVOKED_PARTITIONS:
            self._revoking.pop(key, None)
            if moved.state is MemberState.UNREVOKED_PARTITIONS:
                self._revoking[key] = moved.epoch
                change.effects += deadlines.put(key, now_ms + max(moved.rebalance_timeout_ms, 0))
            else:
                change.effects += deadlines.drop(key)
        if moved.classic is None:
            for kind in (REJOIN, RESYNC):
                change.effects += deadlines.drop(TimerKey(kind, group_id, moved.id))

    def hear(self, change: GroupChange, member_id: str, timeout_ms: int) -> None:
        """A member was heard of: its session starts again."""
        key = TimerKey(SESSION, change.group_id, member_id)
        change.effects += self._context.deadlines.put(key, change.now_ms + timeout_ms)

    def mark_checked(self, group_id: str) -> None:
        """The hash of a group's topics was computed."""
        self._checked.add(group_id)

    def forget(self, draft: Draft, group_id: str, member_ids: Collection[str], *, group_too: bool) -> None:
        """Members are gone: nobody listens for them any more."""
        for id_ in member_ids:
            self._untold.forget(group_id, id_)
            for kind in MEMBER_TIMERS:
                key = TimerKey(kind, group_id, id_)
                self._revoking.pop(key, None)
                draft.effects += self._context.deadlines.drop(key)
        if group_too:
            self._checked.discard(group_id)
            self._context.forget(group_id)

    def topics_changed(self, names: set[str]) -> None:
        """Topics differ: the groups that want them look at their hash again."""
        for group_id in list(self._checked):
            group = self._state.groups.get(group_id)
            if not isinstance(group, ConsumerGroup) or not names.isdisjoint(group.topics):
                self._checked.discard(group_id)

    def on_loaded(self, draft: Draft, group_id: str, group: ConsumerGroup, now_ms: int) -> None:
        """Listen for the members of a group that was loaded."""
        deadlines = self._context.deadlines
        timeout_ms = self._context.of_group(group_id).session_timeout_ms
        for member in group.members.values():
            draft.effects += deadlines.put(TimerKey(SESSION, group_id, member.id), now_ms + timeout_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                key = TimerKey(REVOCATION, group_id, member.id)
                self._revoking[key] = member.epoch
                draft.effects += deadlines.put(key, now_ms + max(member.rebalance_timeout_ms, 0))

    # -- leaving ----------------------------------------------------------------------------------

    def leave(self, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> Transition[ConsumerGroupHeartbeatResponse]:
        """End a membership, or as a static member go away for a while."""
        group = self._state.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"there is no consumer group {request.group_id}")
        change = GroupChange(self._context, request.group_id, group, now_ms)
        reply = _reply(request.member_id, request.member_epoch, 0)
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                raise UnknownMemberId(f"{request.member_id} is no member of {request.group_id}")
        else:
            member = group.static_member(request.instance_id)
            if member is None:
                raise UnknownMemberId(f"no member of {request.group_id} has the instance id {request.instance_id}")
            _check_seat(member, request.member_id)
            if request.member_epoch == LEFT_SEAT:
                # Whoever takes the seat may commit for these partitions from its first epoch on.
                kept = {topic_id: dict.fromkeys(found, 0) for topic_id, found in member.assigned.items()}
                left = replace(member, epoch=LEFT_SEAT, assigned=kept, revoking={})
                change.records.append(current_entry(request.group_id, left))
                return change.done(reply)
        self.fence(change, [member])
        return change.done(reply)

    def fence(self, change: GroupChange, members: Sequence[Member]) -> None:
        """Take members out; if only classic ones are left the group becomes a classic one."""
        if not members:
            return
        group_id, group = change.group_id, change.group
        if can_downgrade(group, members, self._context.settings):
            rest = group.copy()
            gone = {member.id for member in members}
            rest.members = {id_: member for id_, member in rest.members.items() if id_ not in gone}
            if self.downgrade(change, group, rest, group.epoch, rebalance=True):
                return
        change.remove_members(members)
        self._checked.add(group_id)
        self.forget(change, group_id, [member.id for member in members], group_too=False)

    def downgrade(
        self, change: GroupChange, before: ConsumerGroup, after: ConsumerGroup, generation: int, *, rebalance: bool
    ) -> bool:
        """Make a classic group of what a consumer group has become; False if that cannot be."""
        group_id, now_ms = change.group_id, change.now_ms
        live = downgraded(group_id, after, generation, self._context.topics, now_ms)
        if live is None:
            return False
        assignments = {member.id: member.assignment for member in live.members.values()}
        change.records[:] = [*without_group(group_id, before), group_entry(group_id, live.stored(assignments))]
        self.forget(change, group_id, before.members.keys(), group_too=True)
        self._classic.adopt(change, live, now_ms)
        if rebalance:
            self._classic.rebalance.prepare(change, live, now_ms)
        return True

    def on_timer(self, key: TimerKey, now_ms: int) -> Transition[Any]:
        """A deadline of a member has passed."""
        stuck_at = self._revoking.pop(key, None)
        group = self._state.groups.get(key.group)
        member = group.members.get(key.member) if isinstance(group, ConsumerGroup) else None
        if member is None or (key.kind == REVOCATION and member.epoch != stuck_at):
            return Transition(None)
        assert isinstance(group, ConsumerGroup)
        change = GroupChange(self._context, key.group, group, now_ms)
        self.fence(change, [member])
        return change.done(None)

    def delete(self, draft: Draft, group_id: str, group: ConsumerGroup) -> None:
        """Write that an empty group is gone."""
        draft.records += without_group(group_id, group)
        self.forget(draft, group_id, group.members.keys(), group_too=True)


def _told(member: Member, request: ConsumerGroupHeartbeatRequest, client: Client) -> Member:
    """The member after what it says of itself; what a request leaves out stays as it was."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        client_id=client.id,
        client_host=client.host,
        classic=None,
    )


def _check_seat(seated: Member, member_id: str) -> None:
    if seated.id != member_id:
        raise FencedInstanceId(f"{member_id} is fenced: {seated.id} has the instance id {seated.instance_id}")


def _check_epoch(member: Member, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise FencedMemberEpoch unless a member is where we think it is, or was when our answer was lost."""
    epoch = request.member_epoch
    if epoch in (0, member.epoch):
        return
    if epoch == member.previous_epoch and epoch < member.epoch and _is_within(request, member.assigned):
        return
    raise FencedMemberEpoch(f"{member.id} is at epoch {member.epoch}, not {epoch}, and must join anew")


def _is_within(request: ConsumerGroupHeartbeatRequest, assigned: Assigned) -> bool:
    owned = request.topic_partitions
    if owned is None:
        return False
    return all(each in assigned.get(topic.topic_id, {}) for topic in owned for each in topic.partitions)


def _has(request: ConsumerGroupHeartbeatRequest, assigned: Assigned) -> bool:
    """Whether the member says that it has this, and nothing else."""
    if request.topic_partitions is None:
        return False
    named = {topic.topic_id: set(topic.partitions) for topic in request.topic_partitions if topic.partitions}
    return named == {topic_id: set(partitions) for topic_id, partitions in assigned.items()}


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member says everything, as it does when it is not sure what we know."""
    subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribed and request.topic_partitions is not None


def _reply(
    member_id: str, epoch: int, interval_ms: int, assignment: Assignment | None = None
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
    )


def _shown(assigned: Assigned) -> Assignment:
    ids: list[Uuid] = sorted(assigned)
    return Assignment(topic_partitions=[TopicPartitions(topic_id=id_, partitions=sorted(assigned[id_])) for id_ in ids])
