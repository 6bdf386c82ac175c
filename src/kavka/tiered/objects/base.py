"""The port of an object store, and the only errors that leave it.

Keys are paths with slashes. An object appears whole or not at all; deleting what is not there is no error.
"""
# ruff: noqa: N818  (said as what happened, like Kafka's errors)

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import ClassVar, NamedTuple, Protocol


class StoreError(Exception):
    """A call to an object store failed; `retriable` says whether the same call may soon succeed."""

    retriable: ClassVar[bool] = False


class ObjectNotFound(StoreError):
    """There is no object of that key."""


class ObjectCorrupt(StoreError):
    """The bytes are not those that were stored: too few, or with another checksum."""

    retriable = True


class StoreUnavailable(StoreError):
    """The store does not answer, or answers that it cannot now."""

    retriable = True


class StoreTimedOut(StoreError):
    """The store did not answer within our own time limit."""

    retriable = True


class StoreRefused(StoreError):
    """The store does not let us: credentials, rights, a key or a name that it does not take."""


class StoreFull(StoreError):
    """The store has no room left."""


class ObjectInfo(NamedTuple):
    """What a store says of an object."""

    key: str
    size: int
    modified_ms: int


class Content(NamedTuple):
    """The bytes of an object, made anew for each attempt to put it."""

    size_hint: int  # about how many there are: the time limit goes by it
    chunks: Callable[[], AsyncIterator[bytes]]

    @classmethod
    def of(cls, data: bytes) -> Content:
        """Bytes that are there already."""

        async def once() -> AsyncIterator[bytes]:
            yield data

        return cls(len(data), once)


class ObjectStore(Protocol):
    """Where objects are kept."""

    async def put(self, key: str, content: Content) -> int:
        """Store an object, in place of any that is there; answers its size."""

    async def read(self, key: str, start: int, length: int) -> bytes:
        """Exactly these bytes of an object; ObjectCorrupt if it has fewer."""

    async def head(self, key: str) -> ObjectInfo:
        """What is known of an object."""

    async def list_page(self, prefix: str, after: str) -> list[ObjectInfo]:
        """The next objects of a folder ("" is all) by key, of keys greater than `after`; empty at the end."""

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects, in this order; those that are not there are no error."""

    async def abandoned(self, *, remove: bool) -> list[ObjectInfo]:
        """What uploads have left whose writer died amid them, and no listing shows; removed if that is asked for."""


async def list_objects(store: ObjectStore, prefix: str = "") -> AsyncIterator[ObjectInfo]:
    """All objects in a folder, by key."""
    after = ""
    while page := await store.list_page(prefix, after):
        for info in page:
            yield info
        after = page[-1].key
