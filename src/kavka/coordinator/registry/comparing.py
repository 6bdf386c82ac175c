"""How far comparing schemas goes: each pair of types once, and no further than somebody would wait for it.

Types refer to themselves and to each other, so a pair that is met within itself is taken to differ in nothing. What was
found on such terms is forgotten if the pair does differ in the end; that it differs holds on any terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from kavka.coordinator.registry.schema import Difference, SchemaError

MAX_STEPS: Final = 300_000
STEP_ITEMS: Final = 32
"""So many fields, properties or values that are gone through count as a pair of types."""
MAX_DIFFERENCES: Final = 100
"""So many are told: nobody reads more, and types that share others have exponentially many."""


class Effort:
    """How many more pairs may be compared, in either direction."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    def spend(self, *lengths: int) -> None:
        """One more, and others for long lists that are gone through; raises SchemaError."""
        self._left -= 1 + sum(lengths) // STEP_ITEMS
        if self._left < 0:
            raise SchemaError(f"there is too much to compare: more than {MAX_STEPS} pairs of types")


class Compared:
    """What pairs of types were found to differ in."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._found: dict[tuple[int, int], tuple[Any, Any, list[Difference]]] = {}
        """The types are kept with what was found, so that no other type gets their ids."""
        self._alike: list[tuple[int, int]] = []
        """Those that were found, or are taken, to differ in nothing, in the order in which they were met."""

    def once(self, reader: Any, writer: Any, compare: Callable[[], Iterable[Difference]]) -> list[Difference]:
        """What two types differ in; compared at the first time only. Raises SchemaError if it is too much."""
        pair = id(reader), id(writer)
        known = self._found.get(pair)
        if known is not None:
            return known[2]
        self._effort.spend()
        before = len(self._alike)
        self._found[pair] = (reader, writer, [])
        self._alike.append(pair)
        found = list(islice(compare(), MAX_DIFFERENCES))
        if found:
            for each in self._alike[before:]:
                del self._found[each]
            del self._alike[before:]
            self._found[pair] = (reader, writer, found)
        return found
