"""The assignors of consumer groups: pure functions that say which member shall have which partitions.

Each is deterministic: the order in which members or topics are named does not matter. Like Kafka's since 4.0 they do
not look at racks; racks are in what the group's metadata hash covers, so that a change of them assigns anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.coordinator.assignors.range import assign_ranges
from kavka.coordinator.assignors.spec import Assign
from kavka.coordinator.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Assign]] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that members ask for them with."""
