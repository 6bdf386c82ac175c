"""Records for a page: read from a place on, chosen by a filter, within limits on time, records and bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import re2

from kavka.client import Consumer, ConsumerRecord, Last, Place, Pool, TopicPartition
from kavka.console.decoding import PREVIEW_BYTES, Decoded, decode, visible
from kavka.console.values import Named, Readable, Values
from kavka.model.errors import OffsetOutOfRange
from kavka.model.pattern import MAX_WEIGHT, weigh

Wanted = Callable[[ConsumerRecord], bool]

READ_SECONDS: Final = 4.0
READ_RECORDS: Final = 100_000
READ_BYTES: Final = 64 << 20
FETCH_BYTES: Final = 256 * 1024
MOST_HEADERS: Final = 50
MOST_PATTERN: Final = 1000
SEARCHED_BACK: Final = 10_000
"""Without a place to begin at, a search begins so many offsets before the end of each partition."""
BETWEEN: Final = 500
"""After so many records others have their turn."""


class FilterError(ValueError):
    """A filter that makes no sense, in words for who wrote it."""


class Shown(NamedTuple):
    """A record as a page has it."""

    partition: int
    offset: int
    timestamp: int
    key: Decoded
    value: Decoded
    headers: list[tuple[str, Decoded]]


@dataclass(frozen=True)
class Found:
    """What was read."""

    records: list[Shown]
    scanned: int
    complete: bool
    """Whether everything up to the end was looked at."""
    positions: Mapping[int, int]
    """By partition, where to read on."""


async def shown(record: ConsumerRecord, values: Values | None = None, most: int = PREVIEW_BYTES) -> Shown:
    """A record for a page, read by the schemas that it names if there is a registry."""
    return _shown(record, Readable(record) if values is None else await values.readable(record), most)


def _shown(record: ConsumerRecord, readable: Readable, most: int = PREVIEW_BYTES) -> Shown:
    return Shown(
        record.partition,
        record.offset,
        record.timestamp,
        _part(record.key, readable.record.key, readable.key, most),
        _part(record.value, readable.record.value, readable.value, most),
        [(visible(name[:200]), decode(content, 512)) for name, content in islice(record.headers, MOST_HEADERS)],
    )


def _part(data: bytes | None, read: bytes | None, named: Named | None, most: int) -> Decoded:
    if named is None or data is None:
        return decode(data, most)
    if not named.format:
        return decode(data, most)._replace(schema_id=named.schema, problem=visible(named.problem))
    return decode(read, most)._replace(schema_id=named.schema, format=named.format, size=len(data))


def wanted_by(text: str, key: str = "") -> Wanted | None:
    """The filter that a person has written; None for all records; raises FilterError.

    Text is looked for in keys, values and headers; /a.*b/ is a regular expression; .a.b=c is a field of JSON values.
    """
    tests: list[Wanted] = []
    if key:
        exact = key.encode()
        as_json = json.dumps(key, ensure_ascii=False).encode()  # what a text is that was read by a schema
        tests.append(lambda record: record.key in (exact, as_json))
    text = text.strip()
    if len(text) > MOST_PATTERN:
        raise FilterError(f"a filter has at most {MOST_PATTERN} characters")
    if len(text) > 2 and text[0] == text[-1] == "/":
        tests.append(_matching(text[1:-1]))
    elif text.startswith(".") and "=" in text:
        tests.append(_with_field(text))
    elif text:
        tests.append(_with_text(text))
    return (lambda record: all(test(record) for test in tests)) if tests else None


def _parts(record: ConsumerRecord) -> Iterable[bytes]:
    yield record.key or b""
    yield record.value or b""
    for name, content in record.headers:
        yield name.encode()
        yield content or b""


def _with_text(text: str) -> Wanted:
    wanted = text.encode().lower()
    return lambda record: any(wanted in part.lower() for part in _parts(record))


def _matching(pattern: str) -> Wanted:
    if weigh(pattern) > MAX_WEIGHT:
        raise FilterError(f"/{pattern}/ is too large")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        compiled = re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise FilterError(f"/{pattern}/ is no regular expression: {error}") from None
    return lambda record: any(compiled.search(part) is not None for part in _parts(record))


def _with_field(text: str) -> Wanted:
    path, _, wanted = text.partition("=")
    names, wanted = [name for name in path.strip().split(".")[1:] if name], wanted.strip()
    if not names:
        raise FilterError("a field is written as .name=value or .name.inner=value")

    def test(record: ConsumerRecord) -> bool:
        if record.value is None:
            return False
        value = record.value[5:] if record.value[:1] == b"\0" else record.value
        try:
            found: Any = json.loads(value)
        except (ValueError, RecursionError):
            return False
        for name in names:
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                return False
        return found == wanted if isinstance(found, str) else json.dumps(found) == wanted

    return test


class _Reader:
    """One reading, and how much it has had."""

    def __init__(self, consumer: Consumer, ends: dict[TopicPartition, int]) -> None:
        self.consumer = consumer
        self.ends = ends
        self.scanned = self.bytes = 0
        self.after: dict[TopicPartition, int] = {}
        """Where each partition goes on after what was looked at."""

    @property
    def spent(self) -> bool:
        return self.scanned >= READ_RECORDS or self.bytes >= READ_BYTES

    def at_end(self) -> bool:
        return all(self.position(tp) >= end for tp, end in self.ends.items())

    def position(self, tp: TopicPartition) -> int:
        return self.after.get(tp, self.consumer.position(tp))


async def read_records(
    pool: Pool,
    topic: str,
    place: Place | Mapping[int, int],
    wanted: Wanted | None,
    *,
    partition: int | None = None,
    limit: int = 50,
    newest_first: bool = False,
    values: Values | None = None,
) -> Found:
    """Records of a topic, or of a partition of it, from a place on; raises KafkaError.

    With `values` they are read by their schemas before they are filtered.
    """
    source: str | TopicPartition = topic if partition is None else TopicPartition(topic, partition)
    consumer = Consumer(
        pool,
        max_wait_ms=100,
        max_bytes=4 << 20,
        partition_bytes=FETCH_BYTES,
        prefetch_bytes=FETCH_BYTES,
        out_of_range="start",
    )
    async with consumer:
        await consumer.assign(source, start="start" if isinstance(place, Mapping) else place)
        if isinstance(place, Mapping):
            for tp in consumer.assignment:
                if tp.partition in place:
                    await consumer.seek(place[tp.partition], tp)
        reader = _Reader(consumer, await consumer.end_offsets())
        kept = await _read(reader, wanted, limit, values, newest_first=newest_first)
        if newest_first:
            kept = newest(kept, limit)
        positions = {tp.partition: reader.position(tp) for tp in reader.ends}
        return Found(kept, reader.scanned, reader.at_end(), positions)


def newest(records: Iterable[Shown], limit: int) -> list[Shown]:
    """The newest records, the newest first; in a partition later offsets are newer."""
    return sorted(records, key=lambda record: (-record.timestamp, record.partition, -record.offset))[:limit]


async def _read(
    reader: _Reader, wanted: Wanted | None, limit: int, values: Values | None, *, newest_first: bool
) -> list[Shown]:
    kept: list[Shown] = []
    loop = asyncio.get_running_loop()
    until = loop.time() + READ_SECONDS
    while not (reader.at_end() or reader.spent) and (left := until - loop.time()) > 0:
        for record in await reader.consumer.read(int(left * 1000) + 1, ends=reader.ends):
            reader.scanned += 1
            reader.bytes += len(record.value or b"") + len(record.key or b"")
            reader.after[TopicPartition(record.topic, record.partition)] = record.offset + 1
            readable = Readable(record) if values is None else await values.readable(record)
            if wanted is None or wanted(readable.record):
                kept.append(_shown(record, readable))
                if len(kept) >= limit and not newest_first:
                    return kept
                if len(kept) >= 4 * limit:
                    kept = newest(kept, limit)
            if loop.time() > until:  # the rest of the batch is for the next page
                return kept
            if reader.scanned % BETWEEN == 0:
                await asyncio.sleep(0)
    for tp in reader.ends:  # what the log has no records for, as of transactions, was passed as well
        reader.after[tp] = max(reader.after.get(tp, 0), reader.consumer.position(tp))
    return kept


async def read_one(pool: Pool, tp: TopicPartition, offset: int) -> ConsumerRecord | None:
    """The record at an offset; None if there is none; raises KafkaError."""
    async with Consumer(pool, max_wait_ms=100, partition_bytes=FETCH_BYTES, prefetch_bytes=1) as consumer:
        await consumer.assign(tp, start=offset)
        ends = await consumer.end_offsets()
        if offset >= ends[tp]:
            return None
        try:
            found = await consumer.read(int(READ_SECONDS * 1000), ends=ends)
        except OffsetOutOfRange:
            return None
        return next((record for record in found if record.offset == offset), None)


def default_place(wanted: Wanted | None, limit: int) -> Place:
    """Where pages begin unless they are told."""
    return Last(limit if wanted is None else SEARCHED_BACK)
