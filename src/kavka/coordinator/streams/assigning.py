"""The target assignment of a streams group, worked out bit by bit where it is large: soft state."""

from __future__ import annotations

from itertools import islice
from typing import Final

from kavka.coordinator.assignors.sticky import Sharing, TaskMember
from kavka.coordinator.streams.settings import STANDBY_CONFIG
from kavka.coordinator.streams.state import StreamsGroup
from kavka.coordinator.streams.tasks import NO_TASKS, TaskSets
from kavka.coordinator.streams.topology import ConfiguredTopology

AT_ONCE: Final = 500
"""Tasks and standbys that are shared out while a request waits: some milliseconds."""
STEPS: Final = 250
"""Steps that are done in one go of more than that."""


class Assigning:
    """The assignment of one epoch, on its way."""

    __slots__ = ("_sharing", "_steps", "epoch", "is_large")

    def __init__(self, group: StreamsGroup, configured: ConfiguredTopology) -> None:
        self.epoch = group.epoch
        replicas = int(group.assignment_configs.get(STANDBY_CONFIG, 0))
        members = {}
        for id_, member in group.members.items():
            so_far = group.targets.get(id_, NO_TASKS)
            members[id_] = TaskMember(member.process_id, so_far.active, so_far.standby)
        subtopologies = configured.subtopologies if configured.is_ready else {}
        count = sum(part.tasks * (1 + replicas * part.stateful) for part in subtopologies.values())
        self.is_large = count > AT_ONCE
        self._sharing = Sharing(members, subtopologies, replicas)
        self._steps = self._sharing.steps()

    def go_on(self, steps: int | None = STEPS) -> dict[str, TaskSets] | None:
        """So many steps more, or all: what each member shall have, once that is known."""
        done = sum(1 for _ in islice(self._steps, steps))
        if done == steps:
            return None
        return {id_: TaskSets(given.active, given.standby, {}) for id_, given in self._sharing.result().items()}
