"""`kavka consume`: the records of a topic, as lines or as JSON."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, run
from kavka.cli.output import CommandError
from kavka.client import At, Consumer, ConsumerRecord, GroupConsumer, Place, TopicPartition

POLL_MS = 200
PATIENCE_S = 3.0
"""How long a member that is given no partition waits for one."""


class RecordOutput(StrEnum):
    """How records are shown."""

    TEXT = "text"
    JSON = "json"


def parse_place(text: str, option: str = "--from") -> Place:
    """Read start, end, an offset, or a time: ISO 8601 (UTC unless it says otherwise) or @milliseconds."""
    if text in ("start", "earliest"):
        return "start"
    if text in ("end", "latest"):
        return "end"
    if text.isascii() and text.isdigit():
        return int(text)
    if text.startswith("@") and text[1:].isascii() and text[1:].isdigit():
        return At(int(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not start, end, an offset, a time such as 2026-01-31T12:00 or @milliseconds",
            param_hint=option,
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return At(int(moment.timestamp() * 1000))


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="PLACE", help="start, end, an offset, a time (2026-01-31T12:00), or @milliseconds."
        ),
    ] = "start",
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new records after the end.")] = False,
    max_records: Annotated[int | None, typer.Option("--max", "-n", min=1, help="Stop after so many records.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Only this one; may be repeated.")
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", metavar="SEP", help="Also print keys, this between.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Read as a member of this group, on from where it has read to."),
    ] = None,
    protocol: Annotated[
        Literal["consumer", "classic"], typer.Option("--protocol", help="How groups are formed.")
    ] = "consumer",
    isolation: Annotated[
        Literal["read_uncommitted", "read_committed"],
        typer.Option("--isolation", help="Whether records of open and aborted transactions are seen."),
    ] = "read_uncommitted",
    output: Annotated[
        RecordOutput, typer.Option("--output", "-o", help="The value as a line, or everything as a JSON line.")
    ] = RecordOutput.TEXT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Print the records of a topic up to its end, or follow it.

    Examples:

    - `kavka consume greetings`
    - `kavka consume orders --from 2026-01-31T12:00 --max 10 --output json`
    - `kavka consume orders --from end --follow`
    - `kavka consume orders --group billing --follow`
    """
    place = parse_place(start)
    separator = key_separator.encode() if key_separator is not None else None
    sources = [TopicPartition(topic, index) for index in partition] if partition else [topic]

    write = as_json if output is RecordOutput.JSON else partial(_line, separator)

    async def work() -> None:
        async with Consumer(bootstrap, isolation=isolation) as consumer:
            await consumer.assign(*sources, start=place)
            await _print(_chunks(consumer, follow), write, max_records)

    async def work_in_group(name: str) -> None:
        start = _start_of_group(place, partition)
        member = GroupConsumer(
            bootstrap, group=name, topics=[topic], protocol=protocol, start=start, isolation=isolation
        )
        async with member:
            await _print(_group_chunks(member, topic, follow, max_records), write, None)

    run(work() if group is None else work_in_group(group))


def _start_of_group(place: Place, partition: list[int] | None) -> Literal["start", "end"]:
    if partition:
        raise typer.BadParameter("a group shares out partitions by itself", param_hint="--partition")
    if place == "start" or place == "end":
        return "start" if place == "start" else "end"
    raise typer.BadParameter("a group starts at start or end where it has not read before", param_hint="--from")


async def _group_chunks(
    member: GroupConsumer, topic: str, follow: bool, most: int | None
) -> AsyncIterator[list[ConsumerRecord]]:
    """What a member is given: up to what is now the end of its partitions, or for ever.

    Records beyond `most` are not asked for, because those that were given out are committed as read.
    """
    ends = {} if follow else await member.end_offsets(*await _partitions(member, topic))
    idle = 0.0
    while most is None or most > 0:
        records = await member.read(POLL_MS, at_most=most)
        if records:
            idle = 0.0
            most = None if most is None else most - len(records)
            yield records
        elif not follow:
            mine = member.assignment
            idle += POLL_MS / 1000
            reached = all(member.position(tp) >= ends.get(tp, 0) for tp in mine)
            if member.epoch > 0 and reached and mine:
                return
            if idle > PATIENCE_S and not mine:
                raise CommandError(
                    f"group {member.group!r} gave this member no partition: its other members have them all "
                    f"(see `kavka groups describe {member.group} --members`)"
                )


async def _partitions(member: GroupConsumer, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in await member.partitions_of(topic)]


async def _print(
    chunks: AsyncIterator[list[ConsumerRecord]], write: Callable[[ConsumerRecord], bytes], most: int | None
) -> None:
    left = most
    async for records in chunks:
        if left is not None:
            records = records[:left]
            left -= len(records)
        sys.stdout.buffer.write(b"".join(map(write, records)))
        sys.stdout.flush()
        if left == 0:
            return


async def _chunks(consumer: Consumer, follow: bool) -> AsyncIterator[list[ConsumerRecord]]:
    ends = None if follow else await consumer.end_offsets()
    while True:
        records = await consumer.read(ends=ends)
        if not records:
            return
        if ends is not None:  # what came after the start of this command belongs to --follow
            records = [record for record in records if record.offset < ends[TopicPartition(*record[:2])]]
        yield records


def _line(separator: bytes | None, record: ConsumerRecord) -> bytes:
    value = record.value if record.value is not None else b""
    if separator is None:
        return value + b"\n"
    return (record.key if record.key is not None else b"") + separator + value + b"\n"


def as_json(record: ConsumerRecord) -> bytes:
    """A record as one line of JSON; bytes that are not UTF-8 become base64 under a name that says so."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    _put(fields, "key", record.key)
    _put(fields, "value", record.value)
    headers: list[dict[str, Any]] = []
    for name, content in record.headers:
        header: dict[str, Any] = {"name": name}
        _put(header, "value", content)
        headers.append(header)
    fields["headers"] = headers
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _put(fields: dict[str, Any], name: str, data: bytes | None) -> None:
    try:
        fields[name] = None if data is None else data.decode()
    except UnicodeDecodeError:
        fields[f"{name}_base64"] = base64.b64encode(data or b"").decode()
