"""The settings of streams groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kavka.coordinator.bounds import Bounded, Bounds
from kavka.model.settings import coordinators as keys
from kavka.model.settings import group as group_keys
from kavka.model.settings.values import Values

STANDBY_CONFIG: Final = "num.standby.replicas"
"""What the assignor's setting is called in the group's record."""


class StreamsGroupSettings(NamedTuple):
    """What one streams group goes by."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    num_standby_replicas: int
    initial_rebalance_delay_ms: int

    @property
    def assignment_configs(self) -> dict[str, str]:
        """What the assignment depends on, as the group's record has it."""
        return {STANDBY_CONFIG: str(self.num_standby_replicas)}


_BOUNDED: Final = (
    Bounded(
        group_keys.STREAMS_SESSION_TIMEOUT_MS,
        keys.GROUP_STREAMS_SESSION_TIMEOUT_MS,
        keys.GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS,
        keys.GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS,
    ),
    Bounded(
        group_keys.STREAMS_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_STREAMS_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    Bounded(
        group_keys.STREAMS_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
    Bounded(
        group_keys.STREAMS_NUM_STANDBY_REPLICAS,
        keys.GROUP_STREAMS_NUM_STANDBY_REPLICAS,
        None,
        keys.GROUP_STREAMS_MAX_STANDBY_REPLICAS,
    ),
    Bounded(group_keys.STREAMS_INITIAL_REBALANCE_DELAY_MS, keys.GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS, None, None),
)


class StreamsSettings:
    """What the node says; read once, because the machines look often."""

    def __init__(self, values: Values) -> None:
        self.max_size = values[keys.GROUP_STREAMS_MAX_SIZE]
        self._bounds = Bounds(values, _BOUNDED)
        self._defaults = StreamsGroupSettings(*self._bounds.defaults)

    def of_group(self, texts: Mapping[str, str]) -> StreamsGroupSettings:
        """A group's settings: what was set for it, within the bounds of the node, else what the node says."""
        return StreamsGroupSettings(*self._bounds.of_group(texts)) if texts else self._defaults
