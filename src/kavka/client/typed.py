"""Records with types: what programs send and get in place of bytes.

A `Serializer` makes bytes of a key or value, a `Deserializer` reads them. Both are asked with `await`, so that one may
look something up, as those of a schema registry do. `TypedProducer` and `TypedConsumer` stand around a producer or a
consumer that is open, and leave everything else to it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from kavka.client.batching import Delivered, Delivery
from kavka.client.fetched import ConsumerRecord
from kavka.records.batch import Header

if TYPE_CHECKING:
    from kavka.client.consumer import Consumer
    from kavka.client.group_consumer import GroupConsumer
    from kavka.client.producer import Producer

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class Serializer(Protocol[In]):
    """Makes bytes of keys or values."""

    async def serialize(self, topic: str, value: In, /) -> bytes | None:
        """The bytes of a record in a topic; raises ValueError or TypeError for what cannot be written."""


class Deserializer(Protocol[Out]):
    """Makes keys or values of bytes."""

    async def deserialize(self, topic: str, data: bytes | None, /) -> Out:
        """What the bytes of a record in a topic mean; raises ValueError if they mean nothing."""


@runtime_checkable
class PartSerializer(Protocol[In]):
    """A `Serializer` that asks whether it is for keys or values, and may give the record a header."""

    async def serialize_part(
        self, part: Literal["key", "value"], topic: str, value: In, headers: list[Header], /
    ) -> bytes | None:
        """The bytes of a key or value; raises ValueError or TypeError for what cannot be written."""


@runtime_checkable
class PartDeserializer(Protocol[Out]):
    """A `Deserializer` that asks whether it is for keys or values, and sees the record's headers."""

    async def deserialize_part(
        self, part: Literal["key", "value"], topic: str, data: bytes | None, headers: Sequence[Header], /
    ) -> Out:
        """What the bytes of a key or value mean; raises ValueError if they mean nothing."""


class DeserializationError(ValueError):
    """A record that cannot be read as it should be; `record` has its bytes, and the consumer stands after it."""

    def __init__(self, record: ConsumerRecord, reason: Exception) -> None:
        where = f"{record.topic}-{record.partition} at offset {record.offset}"
        super().__init__(f"{where} cannot be read: {reason}")
        self.record = record


class TypedRecord(NamedTuple, Generic[K, V]):
    """A record whose key and value are read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: K
    value: V
    headers: tuple[Header, ...]


class Raw:
    """Bytes as they are."""

    async def serialize(self, topic: str, value: bytes | None, /) -> bytes | None:
        """The same."""
        return value

    async def deserialize(self, topic: str, data: bytes | None, /) -> bytes | None:
        """The same."""
        return data


class Text:
    """Text in UTF-8; None stays None."""

    async def serialize(self, topic: str, value: str | None, /) -> bytes | None:
        """The bytes of a text."""
        return None if value is None else value.encode()

    async def deserialize(self, topic: str, data: bytes | None, /) -> str | None:
        """The text of bytes."""
        return None if data is None else data.decode()


class Json:
    """Whatever JSON can say; None is a null record, a tombstone in a compacted topic."""

    async def serialize(self, topic: str, value: Any, /) -> bytes | None:
        """A JSON document in UTF-8."""
        return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    async def deserialize(self, topic: str, data: bytes | None, /) -> Any:
        """What a JSON document says."""
        return None if data is None else json.loads(data)


class JsonOf(Generic[T]):
    """Instances of a dataclass as JSON objects; fields must have values that JSON can say."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    async def serialize(self, topic: str, value: T | None, /) -> bytes | None:
        """The fields as an object."""
        if value is None:
            return None
        return json.dumps(asdict(value), ensure_ascii=False, separators=(",", ":")).encode()  # type: ignore[call-overload]

    async def deserialize(self, topic: str, data: bytes | None, /) -> T | None:
        """An instance with the fields of an object; raises ValueError for missing and unknown fields."""
        if data is None:
            return None
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError(f"a JSON object was expected, not {type(found).__name__}")
        try:
            return self._kind(**found)
        except TypeError as error:
            raise ValueError(str(error)) from None


class TypedProducer(Generic[K, V]):
    """Sends keys and values of certain types through a producer."""

    def __init__(
        self,
        producer: Producer,
        *,
        key: Serializer[K] | PartSerializer[K],
        value: Serializer[V] | PartSerializer[V],
    ) -> None:
        self.producer = producer
        self._key = _serializing(key, "key")
        self._value = _serializing(value, "value")

    async def send(
        self,
        topic: str,
        value: V,
        *,
        key: K,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Delivery:
        """Buffer a record and return the promise of its delivery."""
        said = list(headers)
        key_bytes = await self._key(topic, key, said)
        return await self.producer.send(
            topic,
            await self._value(topic, value, said),
            key=key_bytes,
            partition=partition,
            timestamp=timestamp,
            headers=said,
        )

    async def send_and_wait(
        self,
        topic: str,
        value: V,
        *,
        key: K,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Delivered:
        """Send a record and wait until it is acknowledged."""
        return await (await self.send(topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers))


class TypedConsumer(Generic[K, V]):
    """Reads keys and values of certain types from a consumer or a member of a group."""

    def __init__(
        self,
        consumer: Consumer | GroupConsumer,
        *,
        key: Deserializer[K] | PartDeserializer[K],
        value: Deserializer[V] | PartDeserializer[V],
    ) -> None:
        self.consumer = consumer
        self._key = _deserializing(key, "key")
        self._value = _deserializing(value, "value")

    async def __aiter__(self) -> AsyncIterator[TypedRecord[K, V]]:
        """Records for ever; raises DeserializationError for one that cannot be read, and goes on after it if asked."""
        async for record in self.consumer:
            yield await self.typed(record)

    async def typed(self, record: ConsumerRecord) -> TypedRecord[K, V]:
        """A record with its key and value read; raises DeserializationError."""
        try:
            key = await self._key(record.topic, record.key, record.headers)
            value = await self._value(record.topic, record.value, record.headers)
        except ValueError as error:
            raise DeserializationError(record, error) from error
        return TypedRecord(record.topic, record.partition, record.offset, record.timestamp, key, value, record.headers)


def _serializing(
    by: Serializer[In] | PartSerializer[In], part: Literal["key", "value"]
) -> Callable[[str, In, list[Header]], Awaitable[bytes | None]]:
    if isinstance(by, PartSerializer):
        return partial(by.serialize_part, part)
    return lambda topic, value, headers: by.serialize(topic, value)


def _deserializing(
    by: Deserializer[Out] | PartDeserializer[Out], part: Literal["key", "value"]
) -> Callable[[str, bytes | None, Sequence[Header]], Awaitable[Out]]:
    if isinstance(by, PartDeserializer):
        return partial(by.deserialize_part, part)
    return lambda topic, data, headers: by.deserialize(topic, data)
