"""What a client remembers of a registry: the latest used, and no more than a certain number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A bounded map whose least recently used entry goes first; entries may have an end."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a cache has room for at least one")
        self._capacity = capacity
        self._entries: OrderedDict[K, tuple[V, float | None]] = OrderedDict()

    def get(self, key: K, now: float = 0.0) -> V | None:
        """What is remembered, if it still holds."""
        found = self._entries.get(key)
        if found is None:
            return None
        value, until = found
        if until is not None and now >= until:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, until: float | None = None) -> V:
        """Remember something, for ever or until a time."""
        self._entries[key] = value, until
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
