"""The share consumer without asyncio; made by `Client.share_consumer`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypedDict, TypeVar

from kavka.client.share_consumer import Acknowledgement
from kavka.client.share_consumer import ShareConsumer as AsyncShareConsumer
from kavka.client.share_session import ShareRecord
from kavka.model.types import TopicPartition

T = TypeVar("T")


class ShareOptions(TypedDict, total=False):
    """How a blocking member of a share group differs from the usual."""

    acknowledgement: Literal["implicit", "explicit"]
    renew: bool
    max_records: int


class OpenShareConsumer(Protocol):
    """The block that the asyncio consumer is used in."""

    def close(self, *, failed: bool = False) -> None:
        """Leave it."""


class ShareRunner(Protocol):
    """A client whose loop runs in a thread."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for its result."""


class ShareConsumer:
    """Takes records from topics as a member of a share group."""

    def __init__(
        self, client: ShareRunner, inner: AsyncShareConsumer, hold: Callable[[AsyncShareConsumer], OpenShareConsumer]
    ) -> None:
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
        """Send the acknowledgements, and leave the group."""
        self._held.close()

    def read(self, wait_ms: int | None = None, *, at_most: int | None = None) -> list[ShareRecord]:
        """The next records, or none when the time is up; without explicit acknowledgement this accepts those before."""
        return self._client.run(self._inner.read(wait_ms, at_most=at_most))

    def __iter__(self) -> Iterator[ShareRecord]:
        while True:
            yield from self.read(at_most=1)

    def accept(self, record: ShareRecord) -> None:
        """Acknowledge a record as accepted: it is dealt with."""
        self.acknowledge(record, "accept")

    def release(self, record: ShareRecord, *, delay_ms: int | None = None) -> None:
        """Acknowledge a record as released: it is available to other members again, after a delay if one is given."""

        async def say() -> None:
            self._inner.release(record, delay_ms=delay_ms)

        self._client.run(say())

    def reject(self, record: ShareRecord) -> None:
        """Acknowledge a record as rejected: it is archived, and not delivered again."""
        self.acknowledge(record, "reject")

    def acknowledge(self, record: ShareRecord, how: Acknowledgement) -> None:
        """Acknowledge an acquired record; that is sent with the next request, or by `commit`."""

        async def say() -> None:
            self._inner.acknowledge(record, how)

        self._client.run(say())

    def renew(self) -> None:
        """Renew the acquisition locks of all records that are not acknowledged yet; raises KafkaError."""
        self._client.run(self._inner.renew())

    def commit(self) -> None:
        """Send the acknowledgements and wait until they are written; raises KafkaError if one is refused."""
        self._client.run(self._inner.commit())

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions assigned to this member; other members may have them too."""
        return self._inner.assignment
