"""Tasks of a streams group: partitions of subtopologies, as members shall have, have and say that they have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kavka.coordinator.assignors.sticky import Tasks

TasksSince = Mapping[str, Mapping[int, int]]
"""Active tasks, each with the epoch since which its owner has it."""


class TaskSets(NamedTuple):
    """Tasks by what a member does with them."""

    active: Tasks
    standby: Tasks
    warmup: Tasks


class HeldTasks(NamedTuple):
    """What a member has, or is giving back."""

    active: TasksSince
    standby: Tasks
    warmup: Tasks

    @property
    def sets(self) -> TaskSets:
        """The same without epochs."""
        active = {id_: frozenset(partitions) for id_, partitions in self.active.items()}
        return TaskSets(active, self.standby, self.warmup)

    def __bool__(self) -> bool:
        return any(self)


NO_TASKS: Final = TaskSets({}, {}, {})
NONE_HELD: Final = HeldTasks({}, {}, {})


def read_tasks(named: Iterable[Any]) -> Tasks:
    """The tasks that a request or a record names; a subtopology without any is left out."""
    return {task_ids.subtopology_id: frozenset(task_ids.partitions) for task_ids in named if task_ids.partitions}


def overlap(left: Mapping[str, Iterable[int]], right: Mapping[str, Iterable[int]]) -> bool:
    """Whether some task is in both."""
    return any(not set(partitions).isdisjoint(right.get(id_, ())) for id_, partitions in left.items())


def is_within(inner: Mapping[str, Iterable[int]], outer: Mapping[str, Iterable[int]]) -> bool:
    """Whether all tasks are in the other."""
    return all(set(partitions) <= set(outer.get(id_, ())) for id_, partitions in inner.items())
