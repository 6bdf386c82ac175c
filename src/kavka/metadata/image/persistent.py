"""A mapping that is never changed, only succeeded; successors share what did not change.

A change costs the size of the changes since the last merge, not the size of the mapping: they are kept in a
small overlay that is merged into a new base when it outgrows the square root of the base.
"""

from __future__ import annotations

from collections.abc import Collection, ItemsView, Iterator, KeysView, Mapping, ValuesView
from enum import Enum
from math import isqrt
from typing import Any, Final, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Gone(Enum):
    """The value that stands for a removed key."""

    GONE = "gone"


GONE: Final = Gone.GONE


class PersistentMap(Mapping[K, V]):
    """A dict whose `changed` makes the next one."""

    __slots__ = ("_base", "_over")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = dict(entries) if entries else {}
        self._over: dict[K, V | Gone] = {}

    def changed(self, changes: Mapping[K, V | Gone]) -> PersistentMap[K, V]:
        """The mapping with some values replaced, added, or (where GONE) removed."""
        if not changes:
            return self
        after: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
        after._base = self._base
        after._over = {**self._over, **changes}
        if len(after._over) > 16 + 2 * isqrt(len(self._base)):
            after._merge()
        return after

    def differing(self, before: PersistentMap[K, V]) -> Collection[K]:
        """The keys under which this mapping may have another value than one before it; all others are the same."""
        if self._base is before._base:
            return self._over.keys() | before._over.keys()
        now, then = self._merge(), before._merge()
        found = [key for key, value in now.items() if then.get(key, GONE) is not value]
        added = sum(key not in then for key in found)
        return found if len(now) - added == len(then) else [*found, *(then.keys() - now.keys())]

    def _merge(self) -> dict[K, V]:
        """One flat dict of all entries, kept for the next reader; what the mapping says does not change."""
        if self._over:
            base = dict(self._base)
            for key, value in self._over.items():
                if value is GONE:
                    base.pop(key, None)
                else:
                    base[key] = value
            # In this order the mapping is whole at every moment, for a reader in another thread too.
            self._base = base
            self._over = {}
        return self._base

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: D) -> V | D: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        """The value of a key, or the default."""
        over = self._over
        if over and key in over:
            value = over[key]
            return default if value is GONE else value
        return self._base.get(key, default)

    def __getitem__(self, key: K) -> V:
        value = self.get(key, GONE)
        if value is GONE:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.get(key, GONE) is not GONE  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[K]:
        return iter(self._merge())

    def __len__(self) -> int:
        return len(self._merge())

    def keys(self) -> KeysView[K]:
        """All keys."""
        return self._merge().keys()

    def values(self) -> ValuesView[V]:
        """All values."""
        return self._merge().values()

    def items(self) -> ItemsView[K, V]:
        """All entries."""
        return self._merge().items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PersistentMap):
            return self._merge() == other._merge()
        return self._merge() == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PersistentMap({self._merge()!r})"
