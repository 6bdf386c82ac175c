"""The live tail of a topic as server-sent events: what arrives from now on, as much of it as can be looked at.

A browser that takes nothing holds one connection and what fits its buffers, for as long as `STUCK_SECONDS`. A topic
that is busier than eyes are is shown in parts: the tail jumps to the end and says how much it has left out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from kavka.client import Consumer, ConsumerRecord, KafkaError, Last, Pool, TopicPartition
from kavka.console.decoding import Decoded
from kavka.console.reading import Shown, Wanted, shown
from kavka.console.values import Values

EVERY_SECONDS: Final = 0.25
MOST_AT_ONCE: Final = 40
"""So many records are shown in each interval."""
MOST_BEHIND: Final = 2_000
"""A tail that is so far behind the end of a partition goes there."""
SHOWN_BYTES: Final = 2_048
FETCH_BYTES: Final = 64 * 1024
ALIVE_SECONDS: Final = 10.0
STUCK_SECONDS: Final = 20.0
LONGEST_SECONDS: Final = 1_800.0
"""After this the browser connects again by itself."""


def _part(decoded: Decoded) -> dict[str, Any]:
    return {
        "kind": decoded.kind,
        "text": decoded.text,
        "snippet": decoded.snippet,
        "size": decoded.size,
        "cut": decoded.cut,
        "format": decoded.format,
    }


def event_of(record: Shown) -> dict[str, Any]:
    """A record as the browser's script gets it: nothing in it is HTML."""
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _part(record.key),
        "value": _part(record.value),
        "headers": [[name, content.snippet] for name, content in record.headers],
    }


async def tail(
    pool: Pool, topic: str, partition: int | None, wanted: Wanted | None, values: Values | None = None
) -> AsyncGenerator[dict[str, Any], None]:
    """What a live tail shows, interval by interval, for ever; raises KafkaError."""
    source: str | TopicPartition = topic if partition is None else TopicPartition(topic, partition)
    async with Consumer(
        pool, out_of_range="end", max_bytes=1 << 20, partition_bytes=FETCH_BYTES, prefetch_bytes=FETCH_BYTES
    ) as consumer:
        await consumer.assign(source, start="end")
        yield {"records": [], "skipped": 0}
        while True:
            records = await consumer.read(int(ALIVE_SECONDS * 1000))
            fitting = [record for record in records if wanted is None or await _is_wanted(record, wanted, values)]
            skipped = max(0, len(fitting) - MOST_AT_ONCE)
            kept = [event_of(await shown(record, values, SHOWN_BYTES)) for record in fitting[-MOST_AT_ONCE:]]
            for tp in consumer.assignment:
                behind = consumer.high_watermark(tp) - consumer.position(tp)
                if behind > MOST_BEHIND:
                    at = consumer.position(tp)
                    await consumer.seek(Last(MOST_AT_ONCE), tp)
                    skipped += max(0, consumer.position(tp) - at)
            yield {"records": kept, "skipped": skipped}
            if records:
                await asyncio.sleep(EVERY_SECONDS)


async def _is_wanted(record: ConsumerRecord, wanted: Wanted, values: Values | None) -> bool:
    return wanted(record if values is None else (await values.readable(record)).record)


class EventStream:
    """A response of server-sent events that ends when the browser is gone, stuck, or has had it for long."""

    def __init__(
        self, events: AsyncGenerator[dict[str, Any], None], over: Callable[[], None], ending: asyncio.Event
    ) -> None:
        """`over` is called at the end, even if nothing could be sent; `ending` is set when the console stops."""
        self._events = events
        self._over = over
        self._ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until there is a reason to stop."""
        try:
            await self._stream(receive, send)
        finally:
            self._over()

    async def _stream(self, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            async with asyncio.timeout(LONGEST_SECONDS), asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(self._send(send))
                leaving = tasks.create_task(self._leave(sending, send))
                while (await receive())["type"] != "http.disconnect":
                    pass
                sending.cancel()
                leaving.cancel()
        except* (TimeoutError, OSError):
            pass  # a browser that is stuck, or has had it for long: the connection is closed

    async def _send(self, send: Send) -> None:
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    told = event["records"] or event["skipped"]
                    data = json.dumps(event, ensure_ascii=False)
                    await self._write(send, f"data: {data}\n\n" if told else ": alive\n\n")
        except KafkaError as error:
            await self._write(send, f"event: failed\ndata: {json.dumps(str(error))}\n\n")
        await self._finish(send)

    async def _leave(self, sending: asyncio.Task[None], send: Send) -> None:
        """End the stream when the console stops: the browser connects again to what comes after it."""
        await self._ending.wait()
        sending.cancel()
        await asyncio.wait([sending])
        await self._finish(send)

    async def _finish(self, send: Send) -> None:
        async with asyncio.timeout(STUCK_SECONDS):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send, text: str) -> None:
        async with asyncio.timeout(STUCK_SECONDS):
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
