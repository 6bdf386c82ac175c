"""Settings of one group: what was set for it, within the bounds of the node, else what the node says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kavka.model.settings.types import Setting, SettingError
from kavka.model.settings.values import Values


class Bounded(NamedTuple):
    """A setting of groups, the node's that it falls back to, and those that bound it; None where none does."""

    key: Setting[int]
    default: Setting[int]
    lowest: Setting[int] | None
    highest: Setting[int] | None


class Bounds:
    """What the node says of such settings; read once, because the machines look often."""

    __slots__ = ("_rows", "defaults")

    def __init__(self, values: Values, rows: Sequence[Bounded]) -> None:
        self._rows = [
            (
                row.key,
                None if row.lowest is None else values[row.lowest],
                None if row.highest is None else values[row.highest],
            )
            for row in rows
        ]
        self.defaults = [
            _within(values[row.default], low, high) for row, (_, low, high) in zip(rows, self._rows, strict=True)
        ]

    def of_group(self, texts: Mapping[str, str]) -> list[int]:
        """A group's settings; a value that is out of bounds by now counts as the bound, what is no value as unset."""
        found = list(self.defaults)
        for at, (key, low, high) in enumerate(self._rows):
            text = texts.get(key.name)
            if text is None:
                continue
            try:
                value = key.parse(text)
            except SettingError:
                continue
            found[at] = _within(value, low, high)
        return found


def _within(value: int, low: int | None, high: int | None) -> int:
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)
