"""Numbers over time, as charts show them: a ring that keeps only so much."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from math import isnan, nan
from typing import Final

MOST_POINTS: Final = 360
FEWEST_POINTS: Final = 30
MOST_NUMBERS: Final = 600_000
"""Of all series together; with many of them each is shorter."""


class Series:
    """Series that have a number, or none, for each of the same moments."""

    def __init__(self, most_points: int = MOST_POINTS, most_numbers: int = MOST_NUMBERS) -> None:
        self._most_points = most_points
        self._most_numbers = most_numbers
        self._times: array[float] = array("d")
        self._numbers: dict[str, array[float]] = {}

    def __len__(self) -> int:
        return len(self._times)

    def add(self, at: float, row: Mapping[str, float]) -> None:
        """The numbers of a moment; what has had none in all that is kept is forgotten."""
        before = len(self._times)
        self._times.append(at)
        for name, number in row.items():
            if name not in self._numbers:
                self._numbers[name] = array("d", [nan]) * before
            self._numbers[name].append(number)
        for name in list(self._numbers):
            if name not in row:
                self._numbers[name].append(nan)
        self._trim()

    def _trim(self) -> None:
        room = self._most_numbers // max(1, len(self._numbers))
        extra = len(self._times) - max(FEWEST_POINTS, min(self._most_points, room))
        if extra <= 0:
            return
        del self._times[:extra]
        for name, numbers in list(self._numbers.items()):
            del numbers[:extra]
            if all(map(isnan, numbers)):
                del self._numbers[name]

    def chart(self, names: Iterable[str]) -> list[list[float | None]]:
        """The moments and these series, for a chart; None where there is no number."""
        found: list[list[float | None]] = [list(self._times)]
        for name in names:
            numbers = self._numbers.get(name)
            if numbers is None:
                found.append([None] * len(self._times))
            else:
                found.append([None if isnan(number) else round(number, 3) for number in numbers])
        return found
