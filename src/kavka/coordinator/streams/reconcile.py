"""How a member gets from the tasks it has to those it shall have (KIP-1071), task by task.

A member first gives back what it shall not have, and says so by no longer naming it as owned; only then does it move to
the epoch of the target assignment. An active task is given to it once no member has it, and none of its own process
stands by for it; a standby task once its process has nothing to do with the task: the state of a task lies in one
directory of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from kavka.coordinator.assignors.sticky import Tasks
from kavka.coordinator.streams.state import Member, MemberState, StreamsGroup, Task
from kavka.coordinator.streams.tasks import NONE_HELD, HeldTasks, TaskSets, TasksSince, overlap
from kavka.model.errors import FencedMemberEpoch


class _Moves(NamedTuple):
    """What becomes of the tasks of one sort."""

    keep: TasksSince
    revoke: TasksSince
    given: TasksSince
    """Those that are kept, and those that can be had now."""
    waits: bool


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a member is moved towards, and what is known of the others."""

    group: StreamsGroup
    target_epoch: int
    target: TaskSets
    owned: TaskSets | None
    """What the member says it has; None when it does not say."""

    def step(self, member: Member) -> Member:
        """The member, as far as it can get now."""
        match member.state:
            case MemberState.STABLE:
                return member if member.epoch == self.target_epoch else self._move(member, member.epoch)
            case MemberState.UNREVOKED_TASKS:
                if self._still_owns(member.revoking):
                    return member
                return self._move(member, member.epoch + 1)
            case MemberState.UNRELEASED_TASKS:
                return self._move(member, member.epoch)
            case _:
                # Written by a later version. The member starts over, without any tasks.
                if self.owned is None or any(self.owned):
                    raise FencedMemberEpoch("the member is in a state that is not known here and must join anew")
                return self._move(member, self.target_epoch)

    def _still_owns(self, revoking: HeldTasks) -> bool:
        return self.owned is None or any(map(overlap, self.owned, revoking))

    def _move(self, member: Member, epoch: int) -> Member:
        """Work out what to keep, to give back, to be given and to wait for."""
        process = member.process_id

        def held_in_process(task: Task) -> bool:
            return process in self.group.processes_of_replicas(task)

        active = self._moves(
            member.assigned.active,
            self.target.active,
            lambda task: task in self.group.active or held_in_process(task),
        )
        standby, warmup = (
            self._moves(
                _undated(current),
                target,
                lambda task: self.group.process_of_active(task) == process or held_in_process(task),
            )
            for current, target in (
                (member.assigned.standby, self.target.standby),
                (member.assigned.warmup, self.target.warmup),
            )
        )
        revoking = HeldTasks(active.revoke, _dated_off(standby.revoke), _dated_off(warmup.revoke))
        if revoking and self._still_owns(revoking):
            return replace(
                member,
                state=MemberState.UNREVOKED_TASKS,
                epoch=epoch,
                previous_epoch=member.epoch,
                assigned=HeldTasks(active.keep, _dated_off(standby.keep), _dated_off(warmup.keep)),
                revoking=revoking,
            )
        waits = active.waits or standby.waits or warmup.waits
        return replace(
            member,
            state=MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE,
            epoch=self.target_epoch,
            previous_epoch=member.epoch,
            assigned=HeldTasks(active.given, _dated_off(standby.given), _dated_off(warmup.given)),
            revoking=NONE_HELD,
        )

    def _moves(self, current: TasksSince, target: Tasks, is_taken: Callable[[Task], bool]) -> _Moves:
        keep: dict[str, dict[int, int]] = {}
        revoke: dict[str, dict[int, int]] = {}
        given: dict[str, dict[int, int]] = {}
        waits = False
        for id_ in sorted({*target, *current}):
            wanted, mine = target.get(id_, frozenset()), current.get(id_, {})
            keep[id_] = {each: since for each, since in mine.items() if each in wanted}
            revoke[id_] = {each: since for each, since in mine.items() if each not in wanted}
            given[id_] = dict(keep[id_])
            for each in sorted(wanted - mine.keys()):
                if is_taken((id_, each)):
                    waits = True
                else:
                    given[id_][each] = self.target_epoch
        return _Moves(_filled(keep), _filled(revoke), _filled(given), waits)


def _undated(tasks: Tasks) -> TasksSince:
    """Standby tasks have no epochs."""
    return {id_: dict.fromkeys(partitions, 0) for id_, partitions in tasks.items()}


def _dated_off(tasks: TasksSince) -> Tasks:
    return {id_: frozenset(partitions) for id_, partitions in tasks.items()}


def _filled(tasks: Mapping[str, Mapping[int, int]]) -> TasksSince:
    return {id_: partitions for id_, partitions in tasks.items() if partitions}
