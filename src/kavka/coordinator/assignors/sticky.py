"""The sticky assignor of streams groups: tasks stay where their state is, as far as everybody then has a fair share.

An active task goes back to the member that had it, else to one that has stood by for it, else to the least loaded
process; a standby task likewise, and never to a process that has the task already. The order of decisions is that of
Kafka's assignor, so that the same members end up with the same tasks; where Kafka goes through members in the order of
a hash table, here it is the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

Tasks = Mapping[str, frozenset[int]]
"""Partitions by subtopology; a subtopology without any is not there."""
T = TypeVar("T")


class Task(NamedTuple):
    """A task of a subtopology (Kafka's TaskId)."""

    subtopology_id: str
    partition: int


class TaskMember(NamedTuple):
    """A member as the assignor sees it: the process that it is a thread of, and what it shall have so far."""

    process_id: str
    active: Tasks
    standby: Tasks


class SubtopologySpec(NamedTuple):
    """How many tasks a subtopology has, and whether they have state that can stand by."""

    tasks: int
    stateful: bool


class TaskAssignment(NamedTuple):
    """What a member shall have."""

    active: Tasks
    standby: Tasks


def assign_stickily(
    members: Mapping[str, TaskMember], subtopologies: Mapping[str, SubtopologySpec], standby_replicas: int
) -> dict[str, TaskAssignment]:
    """Share out all active tasks, and of each stateful one as many replicas as there are processes for."""
    sharing = Sharing(members, subtopologies, standby_replicas)
    for _ in sharing.steps():
        pass
    return sharing.result()


class _Quota:
    """How many tasks a member may have; whoever has them leaves the rest of the tasks to the rest of the members."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.limit = self._share()

    def filled_to(self, count: int) -> None:
        """A member has so many tasks now."""
        if count == self.limit:
            self._members -= 1
            self._tasks -= count
            self.limit = self._share()

    def _share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0


class _Queue(Generic[T]):
    """Who has least comes first; who of several equals does is as in Java's PriorityQueue, for Kafka goes by that."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, T]] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def put(self, load: float, item: T) -> None:
        """Add one, behind those that have less; never before its equals on the way up."""
        heap, at = self._heap, len(self._heap)
        heap.append((load, item))
        while at:
            parent = (at - 1) // 2
            if load >= heap[parent][0]:
                break
            heap[at], at = heap[parent], parent
        heap[at] = (load, item)

    def take(self) -> T:
        """Remove the first; the last one takes its place and sinks."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            at, count = 0, len(heap)
            while at < count // 2:
                child = 2 * at + 1
                if child + 1 < count and heap[child][0] > heap[child + 1][0]:
                    child += 1
                if last[0] <= heap[child][0]:
                    break
                heap[at], at = heap[child], child
            heap[at] = last
        return first[1]


class _Process:
    """A process: its members, and what each has been given."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self.active: dict[str, dict[str, set[int]]] = {}
        self.standby: dict[str, dict[str, set[int]]] = {}
        self._by_load: _Queue[str] | None = None

    @property
    def load(self) -> float:
        """Tasks per member."""
        return len(self.tasks) / len(self.counts)

    def give(self, member: str, task: Task, *, active: bool) -> int:
        """Give a task to a member; how many it has then."""
        self._by_load = None
        return self._add(member, task, active)

    def give_least_loaded(self, task: Task, *, active: bool) -> int:
        """Give a task to the member that has least; how many it has then."""
        if self._by_load is None:
            self._by_load = _Queue()
            for id_, count in self.counts.items():
                self._by_load.put(count, id_)
        member = self._by_load.take()
        count = self._add(member, task, active)
        self._by_load.put(count, member)
        return count

    def _add(self, member: str, task: Task, active: bool) -> int:
        self.tasks.add(task)
        given = (self.active if active else self.standby).setdefault(member, {})
        given.setdefault(task.subtopology_id, set()).add(task.partition)
        self.counts[member] += 1
        return self.counts[member]


class Sharing:
    """Tasks, and the processes that share them: worked out in steps, of which large groups have many."""

    def __init__(
        self, members: Mapping[str, TaskMember], subtopologies: Mapping[str, SubtopologySpec], replicas: int
    ) -> None:
        self._members = members
        self._subtopologies = subtopologies
        self._replicas = replicas
        active = sum(spec.tasks for spec in subtopologies.values())
        standby = sum(spec.tasks * replicas for spec in subtopologies.values() if spec.stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + standby, len(members))
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[Task, str] = {}
        self._had_standby: dict[Task, list[str]] = {}
        for id_ in sorted(members):
            member = members[id_]
            process = self._processes.setdefault(member.process_id, _Process())
            process.counts[id_] = 0

    def steps(self) -> Iterator[None]:
        """Share out all tasks; a step looks at one of them."""
        if self._members:
            yield from self._look_back()
            yield from self._assign_active()
            if self._replicas > 0:
                yield from self._assign_standby()

    def _look_back(self) -> Iterator[None]:
        """Note who had what."""
        for id_ in sorted(self._members):
            member = self._members[id_]
            for task in _each(member.active):
                yield
                self._had_active[task] = id_
            for task in _each(member.standby):
                yield
                self._had_standby.setdefault(task, []).append(id_)

    # -- active tasks -----------------------------------------------------------------------------

    def _assign_active(self) -> Iterator[None]:
        """Give every task to somebody."""
        # By partition, so that members keep the same partitions of several subtopologies.
        tasks = sorted(self._tasks(stateful_only=False), key=lambda task: (task.partition, task.subtopology_id))
        formers: tuple[Callable[[Task], str | None], ...] = (
            self._had_active.get,
            lambda task: self._least_loaded(self._had_standby.get(task)),
        )
        for former in formers:
            left = []
            for task in tasks:
                yield
                if not self._give_back(task, former(task)):
                    left.append(task)
            tasks = left
        by_load = self._by_load()
        for task in sorted(tasks):
            yield
            process = by_load.take()
            self._count(process.give_least_loaded(task, active=True), active=True)
            by_load.put(process.load, process)

    def _give_back(self, task: Task, member: str | None) -> bool:
        """Give a task to a member that has had to do with it, unless it has enough; whether it got it."""
        if member is None or self._process_of(member).counts[member] >= self._active_quota.limit:
            return False
        self._count(self._process_of(member).give(member, task, active=True), active=True)
        return True

    # -- standby tasks ----------------------------------------------------------------------------

    def _assign_standby(self) -> Iterator[None]:
        """Give replicas of the stateful tasks to processes that do not have them."""
        left = []
        for task in sorted(
            self._tasks(stateful_only=True), key=lambda task: (task.partition, task.subtopology_id), reverse=True
        ):
            yield
            for number in range(self._replicas):
                if not self._keep_standby(task):
                    left.append((task, self._replicas - number))
                    break
        by_load = self._by_load()
        for task, replicas in sorted(left, reverse=True):
            yield
            for _ in range(replicas):
                if not self._spread(by_load, task):
                    break

    def _keep_standby(self, task: Task) -> bool:
        """Leave a replica with who had the task, active or standby; whether there is one that can take it."""
        had = self._had_active.get(task)
        if had is not None and task not in self._process_of(had).tasks and self._has_room(had):
            self._count(self._process_of(had).give(had, task, active=False))
            return True
        stood_by = self._least_loaded(self._had_standby.get(task), task)
        if stood_by is not None and self._has_room(stood_by):
            self._count(self._process_of(stood_by).give(stood_by, task, active=False))
            return True
        return False

    def _has_room(self, member: str) -> bool:
        return self._process_of(member).counts[member] < self._quota.limit

    def _spread(self, by_load: _Queue[_Process], task: Task) -> bool:
        """Give a replica to the least loaded process that does not have the task, if there is one."""
        passed = []
        found = False
        while by_load and not found:
            process = by_load.take()
            passed.append(process)
            found = task not in process.tasks
            if found:
                self._count(process.give_least_loaded(task, active=False))
        for process in reversed(passed):
            by_load.put(process.load, process)
        return found

    # -- both -------------------------------------------------------------------------------------

    def _tasks(self, *, stateful_only: bool) -> list[Task]:
        return [
            Task(id_, partition)
            for id_, spec in self._subtopologies.items()
            if spec.stateful or not stateful_only
            for partition in range(spec.tasks)
        ]

    def _process_of(self, member: str) -> _Process:
        return self._processes[self._members[member].process_id]

    def _by_load(self) -> _Queue[_Process]:
        found: _Queue[_Process] = _Queue()
        for id_ in sorted(self._processes):
            found.put(self._processes[id_].load, self._processes[id_])
        return found

    def _count(self, count: int, *, active: bool = False) -> None:
        if active:
            self._active_quota.filled_to(count)
        self._quota.filled_to(count)

    def _least_loaded(self, members: list[str] | None, task: Task | None = None) -> str | None:
        """Of members that stood by one with little to do; nobody if the process of the first has the task."""
        if not members:
            return None
        first = self._process_of(members[0])
        if task is not None and task in first.tasks:
            return None
        chosen, load, count = members[0], first.load, first.counts[members[0]]
        for id_ in members[1:]:
            process = self._process_of(id_)
            if process.load < load and (task is None or task not in process.tasks) and process.counts[id_] < count:
                chosen, load, count = id_, process.load, process.counts[id_]
        return chosen

    def result(self) -> dict[str, TaskAssignment]:
        """What each member gets."""
        return {
            id_: TaskAssignment(
                _frozen(self._process_of(id_).active.get(id_, {})),
                _frozen(self._process_of(id_).standby.get(id_, {})),
            )
            for id_ in self._members
        }


def _each(tasks: Tasks) -> Iterator[Task]:
    return (Task(id_, partition) for id_, partitions in tasks.items() for partition in partitions)


def _frozen(tasks: Mapping[str, set[int]]) -> Tasks:
    return {id_: frozenset(tasks[id_]) for id_ in sorted(tasks)}
