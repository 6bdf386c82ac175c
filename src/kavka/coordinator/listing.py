"""What ListGroups is asked for."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.protocol.schemas.list_groups import ListedGroup


def is_wanted(group: ListedGroup, states: set[str], types: set[str]) -> bool:
    """Whether a group passes the filters of ListGroups; an empty filter lets all pass."""
    return (not states or group.group_state.lower() in states) and (not types or group.group_type in types)


def filter_of(names: Iterable[str]) -> set[str]:
    """A filter of ListGroups, which does not look at case; Kafka knows the state NotReady as not_ready."""
    return {name.strip().lower().replace("_", "") for name in names}
