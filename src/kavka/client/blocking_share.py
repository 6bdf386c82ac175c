"""The share consumer without asyncio; made by `Client.share_consumer`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from kavka.client.share_consumer import Acknowledgement
from kavka.client.share_consumer import ShareConsumer as AsyncShareConsumer
from kavka.client.share_session import ShareRecord
from kavka.model.types import TopicPartition

T = TypeVar("T")


class Held(Protocol):
    """The block that the asyncio consumer is used in."""

    def close(self, *, failed: bool = False) -> None:
        """Leave it."""


class Runs(Protocol):
    """A client whose loop runs in a thread."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What some work comes to."""


class ShareConsumer:
    """Takes records from topics as a member of a share group."""

    def __init__(self, client: Runs, inner: AsyncShareConsumer, hold: Callable[[AsyncShareConsumer], Held]) -> None:
        self._client = client
        self._inner = inner
        self._held = hold(inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close(failed=kind is not None)

    def close(self) -> None:
        """Say what is to be said of records, and leave the group."""
        self._held.close()

    def read(self, wait_ms: int | None = None, *, at_most: int | None = None) -> list[ShareRecord]:
        """Records, when there are some, or none when the time is up; implicitly this accepts those before them."""
        return self._client.run(self._inner.read(wait_ms, at_most=at_most))

    def __iter__(self) -> Iterator[ShareRecord]:
        while True:
            yield from self.read(at_most=1)

    def accept(self, record: ShareRecord) -> None:
        """The record is dealt with."""
        self.acknowledge(record, "accept")

    def release(self, record: ShareRecord) -> None:
        """Somebody else shall try."""
        self.acknowledge(record, "release")

    def reject(self, record: ShareRecord) -> None:
        """Nobody can deal with the record: it is not delivered again."""
        self.acknowledge(record, "reject")

    def acknowledge(self, record: ShareRecord, how: Acknowledgement) -> None:
        """Say what has become of a record that was given out; it is sent with the next request, or by `commit`."""

        async def say() -> None:
            self._inner.acknowledge(record, how)

        self._client.run(say())

    def renew(self) -> None:
        """Lock all records for longer that were given out and are not acknowledged; raises KafkaError."""
        self._client.run(self._inner.renew())

    def commit(self) -> None:
        """Send what was said of records and wait until it is written; raises KafkaError if some of it is refused."""
        self._client.run(self._inner.commit())

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that this member reads; others may read them too."""
        return self._inner.assignment
