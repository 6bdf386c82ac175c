"""The rebalance of a classic group: gather the members, begin a generation, have its leader assign it."""

from __future__ import annotations

from kavka.coordinator.classic.live import GroupState, LiveGroup, LiveMember
from kavka.coordinator.classic.replies import join_accepted, join_refused, sync_accepted, sync_refused
from kavka.coordinator.classic.state import group_entry
from kavka.coordinator.context import ShardContext
from kavka.coordinator.requests import Draft
from kavka.coordinator.timers import HEARTBEAT, JOIN, SYNC, TimerKey
from kavka.model.errors import RebalanceInProgress, UnknownMemberId


class Rebalance:
    """Moves classic groups through their states."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context

    # -- sessions ---------------------------------------------------------------------------------

    def hear(self, draft: Draft, group: LiveGroup, member: LiveMember, now_ms: int, timeout_ms: int = -1) -> None:
        """A member was heard of: its session starts again."""
        timeout_ms = member.session_timeout_ms if timeout_ms < 0 else timeout_ms
        draft.effects += self._context.deadlines.put(TimerKey(HEARTBEAT, group.id, member.id), now_ms + timeout_ms)

    def forget(self, draft: Draft, group: LiveGroup, member_id: str) -> None:
        """A member is gone: nobody listens for it any more."""
        draft.effects += self._context.deadlines.drop(TimerKey(HEARTBEAT, group.id, member_id))

    def silent(self, draft: Draft, group: LiveGroup, member_id: str, now_ms: int) -> None:
        """A member, or an id that was handed out, was not heard of in time."""
        member = group.members.get(member_id)
        if member is None:
            if member_id in group.pending:
                group.remove(member_id)
                self.complete_if_all_joined(draft, group, now_ms)
        elif member.is_new or not (member_id in group.joining or member_id in group.syncing):
            self.dismiss(draft, group, member_id)
            if group.state is GroupState.PREPARING_REBALANCE:
                self.complete_if_all_joined(draft, group, now_ms)
            else:
                self.prepare(draft, group, now_ms)

    def dismiss(self, draft: Draft, group: LiveGroup, member_id: str) -> None:
        """Take a member out; one that waits in a join is told that it is unknown, so that it may try again."""
        joins, syncs = group.joining.pop(member_id, None), group.syncing.pop(member_id, None)
        if joins is not None:
            draft.answer(joins.token, join_refused(UnknownMemberId.code, "", joins.api_version))
        if syncs is not None:
            draft.answer(syncs.token, sync_refused(UnknownMemberId.code))
        group.remove(member_id)
        self.forget(draft, group, member_id)

    # -- gathering --------------------------------------------------------------------------------

    def prepare_or_complete(self, draft: Draft, group: LiveGroup, now_ms: int) -> None:
        """Begin a rebalance, or go on with the one that is under way."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            self.prepare(draft, group, now_ms)
        elif group.previous_state is not GroupState.EMPTY:  # the first rebalance of a group waits for others to come
            self.complete_if_all_joined(draft, group, now_ms)

    def prepare(self, draft: Draft, group: LiveGroup, now_ms: int) -> None:
        """Begin to gather the members."""
        deadlines = self._context.deadlines
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
            self._answer_syncs(draft, group, now_ms, RebalanceInProgress.code)
        group.unsynced.clear()
        draft.effects += deadlines.drop(TimerKey(SYNC, group.id))
        is_first = group.state is GroupState.EMPTY
        group.enter(GroupState.PREPARING_REBALANCE, now_ms)
        if is_first:
            group.grown = False
            group.delay_ms = self._context.settings.initial_rebalance_delay_ms
            group.remaining_ms = max(group.rebalance_timeout_ms - group.delay_ms, 0)
            draft.effects += deadlines.put(TimerKey(JOIN, group.id), now_ms + group.delay_ms)
        elif group.all_joined:
            self.complete(draft, group, now_ms)
        else:
            self._give_time(draft, group, now_ms)

    def time_to_join_is_over(self, draft: Draft, group: LiveGroup, now_ms: int) -> None:
        """Go on without those who did not join; a first rebalance waits longer while members keep coming."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.previous_state is GroupState.EMPTY and group.grown and group.remaining_ms:
            group.grown = False
            before = group.delay_ms
            group.delay_ms = min(self._context.settings.initial_rebalance_delay_ms, group.remaining_ms)
            group.remaining_ms = max(group.remaining_ms - before, 0)
            draft.effects += self._context.deadlines.put(TimerKey(JOIN, group.id), now_ms + group.delay_ms)
        else:
            self.complete(draft, group, now_ms)

    def complete_if_all_joined(self, draft: Draft, group: LiveGroup, now_ms: int) -> None:
        """Begin the next generation if nobody is missing."""
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            self.complete(draft, group, now_ms)

    def complete(self, draft: Draft, group: LiveGroup, now_ms: int) -> None:
        """Begin the next generation with those who joined; static members stay in even if they did not."""
        draft.effects += self._context.deadlines.drop(TimerKey(JOIN, group.id))
        missing = [id_ for id_, each in group.members.items() if each.instance_id is None and id_ not in group.joining]
        for id_ in missing:
            group.remove(id_)
            self.forget(draft, group, id_)
        if group.members and not group.elect_leader():
            self._give_time(draft, group, now_ms)  # until somebody joins, or all sessions are over
            return
        group.next_generation(now_ms)
        if not group.members:
            draft.records.append(group_entry(group.id, group.stored({})))
            return
        for member in group.members.values():
            waiting = group.joining.pop(member.id, None)
            if waiting is not None:
                members = group.for_leader() if member.id == group.leader else []
                draft.answer(waiting.token, join_accepted(group, member.id, members))
            self.hear(draft, group, member, now_ms)
            member.is_new = False
            group.unsynced.add(member.id)
        draft.effects += self._context.deadlines.put(TimerKey(SYNC, group.id), now_ms + group.rebalance_timeout_ms)

    def _give_time(self, draft: Draft, group: LiveGroup, now_ms: int) -> None:
        draft.effects += self._context.deadlines.put(TimerKey(JOIN, group.id), now_ms + group.rebalance_timeout_ms)

    # -- assigning --------------------------------------------------------------------------------

    def synced(self, draft: Draft, group: LiveGroup, member_id: str) -> None:
        """A member asked for its assignment."""
        group.unsynced.discard(member_id)
        if not group.unsynced:
            draft.effects += self._context.deadlines.drop(TimerKey(SYNC, group.id))

    def assign(self, draft: Draft, group: LiveGroup, assignments: dict[str, bytes], now_ms: int) -> None:
        """Hand out what the leader assigned; members that it left out get nothing."""
        draft.records.append(group_entry(group.id, group.stored(assignments)))
        for member in group.members.values():
            member.assignment = member.held = assignments.get(member.id, b"")
        self._answer_syncs(draft, group, now_ms)
        group.enter(GroupState.STABLE, now_ms)

    def time_to_sync_is_over(self, draft: Draft, group: LiveGroup, now_ms: int) -> None:
        """Begin anew without those who did not ask for their assignment."""
        if group.unsynced and group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            for id_ in sorted(group.unsynced):
                group.remove(id_)
                self.forget(draft, group, id_)
            self.prepare(draft, group, now_ms)

    def _answer_syncs(self, draft: Draft, group: LiveGroup, now_ms: int, error_code: int = 0) -> None:
        for id_, waiting in group.syncing.items():
            member = group.members[id_]
            reply = sync_refused(error_code) if error_code else sync_accepted(group, member.assignment)
            draft.answer(waiting.token, reply)
            self.hear(draft, group, member, now_ms)  # a session that ran out while it waited was let pass
        group.syncing.clear()
