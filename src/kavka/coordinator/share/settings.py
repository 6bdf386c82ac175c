"""The settings of share groups: what was set for a group, within the bounds of the node, else what the node says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kavka.coordinator.bounds import Bounded, Bounds
from kavka.model.settings import coordinators as keys
from kavka.model.settings import group as group_keys
from kavka.model.settings.types import Setting, SettingError
from kavka.model.settings.values import Values


class ShareGroupSettings(NamedTuple):
    """What one share group goes by: three where it is coordinated, the others where its partitions are led."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    record_lock_duration_ms: int
    delivery_count_limit: int
    partition_max_record_locks: int
    auto_offset_reset: str
    isolation_level: str
    renew_acknowledge_enable: bool
    dead_letter_topic: str
    dead_letter_copies: bool
    redelivery_delay_ms: int
    redelivery_delay_max_ms: int


_BOUNDED: Final = (
    Bounded(
        group_keys.SHARE_SESSION_TIMEOUT_MS,
        keys.GROUP_SHARE_SESSION_TIMEOUT_MS,
        keys.GROUP_SHARE_MIN_SESSION_TIMEOUT_MS,
        keys.GROUP_SHARE_MAX_SESSION_TIMEOUT_MS,
    ),
    Bounded(
        group_keys.SHARE_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_SHARE_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS,
        keys.GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    Bounded(
        group_keys.SHARE_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_SHARE_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS,
        keys.GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
    Bounded(
        group_keys.SHARE_RECORD_LOCK_DURATION_MS,
        keys.GROUP_SHARE_RECORD_LOCK_DURATION_MS,
        keys.GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS,
        keys.GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS,
    ),
    Bounded(
        group_keys.SHARE_DELIVERY_COUNT_LIMIT,
        keys.GROUP_SHARE_DELIVERY_COUNT_LIMIT,
        keys.GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT,
        keys.GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT,
    ),
    Bounded(
        group_keys.SHARE_PARTITION_MAX_RECORD_LOCKS,
        keys.GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS,
        keys.GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS,
        keys.GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS,
    ),
)
_FREE: Final[tuple[Setting[Any], ...]] = (
    group_keys.SHARE_AUTO_OFFSET_RESET,
    group_keys.SHARE_ISOLATION_LEVEL,
    group_keys.SHARE_RENEW_ACKNOWLEDGE_ENABLE,
    group_keys.ERRORS_DEADLETTERQUEUE_TOPIC_NAME,
    group_keys.ERRORS_DEADLETTERQUEUE_COPY_RECORD_ENABLE,
    group_keys.KAVKA_SHARE_REDELIVERY_DELAY_MS,
    group_keys.KAVKA_SHARE_REDELIVERY_DELAY_MAX_MS,
)


class ShareSettings:
    """What the node says; read once, because the machines look often."""

    def __init__(self, values: Values) -> None:
        self.max_size = values[keys.GROUP_SHARE_MAX_SIZE]
        self.max_share_sessions = values[keys.GROUP_SHARE_MAX_SHARE_SESSIONS]
        self.initialize_retry_ms = values[keys.GROUP_SHARE_INITIALIZE_RETRY_INTERVAL_MS]
        self._bounds = Bounds(values, _BOUNDED)
        defaults: list[Any] = [*self._bounds.defaults, *(setting.default for setting in _FREE)]
        self._defaults = ShareGroupSettings(*defaults)

    def of_group(self, texts: Mapping[str, str]) -> ShareGroupSettings:
        """A group's settings; a value that is out of bounds by now counts as the bound, what is no value as unset."""
        if not texts:
            return self._defaults
        found: list[Any] = [*self._bounds.of_group(texts), *(_value(setting, texts) for setting in _FREE)]
        return ShareGroupSettings(*found)


def _value(setting: Setting[Any], texts: Mapping[str, str]) -> Any:
    text = texts.get(setting.name)
    try:
        return setting.default if text is None else setting.parse(text)
    except SettingError:
        return setting.default
