"""The settings that the group coordinator acts on: the node's, and those of one group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kavka.coordinator.assignors import ASSIGNORS
from kavka.coordinator.bounds import Bounded, Bounds
from kavka.model.settings import coordinators as keys
from kavka.model.settings import group as group_keys
from kavka.model.settings.values import Values

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a new classic member may wait for its first join, because nobody can see that it has gone."""
REGEX_REFRESH_MIN_INTERVAL_MS: Final = 10_000
"""The patterns of a group are matched with the topics no oftener than this."""


class GroupSettings(NamedTuple):
    """What one consumer group goes by."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class CoordinatorSettings:
    """What the node says; read once, because the machines look often."""

    def __init__(self, values: Values) -> None:
        self.values = values
        """All of it, for kinds of groups that have settings of their own."""
        self.min_session_timeout_ms = values[keys.GROUP_MIN_SESSION_TIMEOUT_MS]
        self.max_session_timeout_ms = values[keys.GROUP_MAX_SESSION_TIMEOUT_MS]
        self.initial_rebalance_delay_ms = values[keys.GROUP_INITIAL_REBALANCE_DELAY_MS]
        self.classic_max_size = values[keys.GROUP_MAX_SIZE]
        self.consumer_max_size = values[keys.GROUP_CONSUMER_MAX_SIZE]
        self.regex_refresh_interval_ms = values[keys.GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS]
        self.assignors = _assignors(values[keys.GROUP_CONSUMER_ASSIGNORS])
        policy = values[keys.GROUP_CONSUMER_MIGRATION_POLICY].lower()
        self.may_upgrade = policy in ("bidirectional", "upgrade")
        self.may_downgrade = policy in ("bidirectional", "downgrade")
        self.may_migrate = policy != "disabled"
        self.offset_metadata_max_bytes = values[keys.OFFSET_METADATA_MAX_BYTES]
        self.offsets_retention_ms = values[keys.OFFSETS_RETENTION_MINUTES] * 60_000
        self.offsets_check_interval_ms = values[keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS]
        self._bounds = Bounds(values, _BOUNDED)
        self.consumer = GroupSettings(*self._bounds.defaults)

    def of_group(self, texts: Mapping[str, str]) -> GroupSettings:
        """A group's settings: what was set for it, within the bounds of the node, else what the node says."""
        return GroupSettings(*self._bounds.of_group(texts)) if texts else self.consumer


_BOUNDED: Final = (
    Bounded(
        group_keys.CONSUMER_SESSION_TIMEOUT_MS,
        keys.GROUP_CONSUMER_SESSION_TIMEOUT_MS,
        keys.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        keys.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    ),
    Bounded(
        group_keys.CONSUMER_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    Bounded(
        group_keys.CONSUMER_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
)
_CLASS_NAMES: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


def _assignors(named: tuple[str, ...]) -> tuple[str, ...]:
    """The assignors that are offered, the default first; those that we do not have are passed over."""
    names = dict.fromkeys(_CLASS_NAMES.get(name, name) for name in named)
    return tuple(name for name in names if name in ASSIGNORS) or tuple(ASSIGNORS)
