"""Records with types, over a producer and consumers of bytes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from kavka.client.fetched import ConsumerRecord
from kavka.client.typed import DeserializationError, Json, JsonOf, Raw, Text, TypedConsumer, TypedProducer


@dataclass(frozen=True)
class Order:
    id: int
    items: list[str]


def record(key: bytes | None, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("orders", 0, 7, 1, key, value)


@pytest.mark.parametrize(
    ("codec", "value", "data"),
    [
        (Raw(), b"\xff", b"\xff"),
        (Text(), "žluť", "žluť".encode()),
        (Text(), None, None),
        (Json(), {"a": [1, "ž", None]}, '{"a":[1,"ž",null]}'.encode()),
        (Json(), None, None),
        (JsonOf(Order), Order(1, ["apple"]), b'{"id":1,"items":["apple"]}'),
        (JsonOf(Order), None, None),
    ],
)
def test_what_is_written_is_what_is_read(codec: Any, value: object, data: bytes | None) -> None:
    assert asyncio.run(codec.serialize("orders", value)) == data
    assert asyncio.run(codec.deserialize("orders", data)) == value


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"id":1}', b'{"id":1,"items":[],"more":2}', b"\xff"])
def test_what_cannot_be_read_says_where_it_is(data: bytes) -> None:
    consumer: Any = None
    typed = TypedConsumer(consumer, key=Text(), value=JsonOf(Order))
    with pytest.raises(DeserializationError, match="orders-0 at offset 7 cannot be read") as found:
        asyncio.run(typed.typed(record(b"k", data)))
    assert found.value.record.value == data


def test_a_key_that_cannot_be_read_is_told_like_a_value() -> None:
    consumer: Any = None
    with pytest.raises(DeserializationError):
        asyncio.run(TypedConsumer(consumer, key=Text(), value=Raw()).typed(record(b"\xff", b"")))


def test_a_producer_is_given_bytes() -> None:
    class Sent:
        async def send(self, topic: str, value: bytes | None, **more: Any) -> str:
            return f"{topic} {value!r} {more['key']!r} {more['headers']}"

    producer: Any = Sent()
    typed = TypedProducer(producer, key=Text(), value=Json())
    found: Any = asyncio.run(typed.send("orders", {"n": 1}, key="k", headers=[("h", b"")]))
    assert found == "orders b'{\"n\":1}' b'k' [('h', b'')]"
