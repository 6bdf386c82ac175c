"""`kavka produce`: lines, a file or generated records to a topic."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, key_values, run
from kavka.cli.output import CommandError, Output, note, print_json
from kavka.client import Acks, Producer

_POOL_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 1 << 16
_CHUNK_RECORDS = 1000


class Keyed(NamedTuple):
    """A record to send."""

    key: bytes | None
    value: bytes | None


def keyed(line: bytes, key_separator: str | None, number: int) -> Keyed:
    """The record in a line: the key before the separator, if there is one."""
    value = line.removesuffix(b"\r")
    if key_separator is None:
        return Keyed(None, value)
    key, found, value = value.partition(key_separator.encode())
    if not found:
        raise CommandError(f"line {number} has no key separator {key_separator!r}")
    return Keyed(key, value)


def generate(count: int, size: int) -> Iterator[Keyed]:
    """So many records of random bytes, cut from one pool so that making them costs next to nothing."""
    pool = os.urandom(_POOL_BYTES + size)
    step, position = 4099, 0
    for _ in range(count):
        yield Keyed(None, pool[position : position + size])
        position = (position + step) % _POOL_BYTES


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records go.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read lines from here, not standard input."),
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", metavar="SEP", help="What ends the key in each line.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="KEY=VALUE", help="A header for every record.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, show_default="by key", help="Send all records here.")
    ] = None,
    codec: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], typer.Option("--codec", help="How batches are compressed.")
    ] = "none",
    acks: Annotated[
        Literal["all", "1", "0"], typer.Option("--acks", help="Who must have a record before it counts as sent.")
    ] = "all",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Generate so many records of random bytes instead.")
    ] = None,
    size: Annotated[int, typer.Option("--size", min=0, help="The size of a generated record in bytes.")] = 1024,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send records: a line of standard input each, or generated ones.

    Examples:

    - `echo hello | kavka produce greetings`
    - `kavka produce users --key-separator : --file users.txt --codec zstd`
    - `kavka produce load --count 1000000 --size 100`
    """
    if count is not None and file is not None:
        raise typer.BadParameter("--count and --file exclude each other")
    headers = [(name, value.encode()) for name, value in key_values(header or [], "--header").items()]
    options: dict[str, Any] = {"codec": codec, "acks": _acks(acks)}
    if count is not None:
        options |= {"linger_ms": 20, "batch_bytes": 131_072}  # for throughput: nobody waits for a single record

    records = _generated(count, size) if count is not None else _from_lines(file, key_separator)
    sent = run(_send_all(bootstrap, topic, records, count, partition, headers, options))
    if output is Output.JSON:
        print_json(sent)
    elif count is not None or sys.stderr.isatty():
        note(f"{sent['records']:,} records, {sent['bytes'] / 1e6:,.1f} MB in {sent['seconds']:.2f} s")


async def _send_all(
    bootstrap: str,
    topic: str,
    records: AsyncIterator[Sequence[Keyed]],
    total: int | None,
    partition: int | None,
    headers: list[tuple[str, bytes]],
    options: dict[str, Any],
) -> dict[str, Any]:
    from kavka.cli.progress import progress

    sent = volume = 0
    began = time.monotonic()
    async with Producer(bootstrap, **options) as producer:
        with progress("producing", total) as advance:
            try:
                async for chunk in records:
                    for key, value in chunk:
                        await producer.send(topic, value, key=key, partition=partition, headers=headers)
                        volume += len(value or b"") + len(key or b"")
                    sent += len(chunk)
                    advance(len(chunk))
            except CommandError as error:
                await producer.flush()
                raise CommandError(
                    f"{error}; the {sent} records of the lines before it were sent, none after it"
                ) from None
            await producer.flush()
    return {"records": sent, "bytes": volume, "seconds": round(time.monotonic() - began, 3)}


async def _generated(count: int, size: int) -> AsyncIterator[Sequence[Keyed]]:
    records = generate(count, size)
    while chunk := list(islice(records, _CHUNK_RECORDS)):
        yield chunk


async def _from_lines(file: Path | None, key_separator: str | None) -> AsyncIterator[Sequence[Keyed]]:
    number, rest = 1, b""
    descriptor = sys.stdin.fileno() if file is None else os.open(file, os.O_RDONLY)
    try:
        while data := await _read(descriptor):
            *lines, rest = (rest + data).split(b"\n")
            chunk: list[Keyed] = []
            try:
                for line in lines:
                    chunk.append(keyed(line, key_separator, number))
                    number += 1
            except CommandError:
                yield chunk  # what came before the line that is no record
                raise
            yield chunk
        if rest:
            yield [keyed(rest, key_separator, number)]
    finally:
        if file is not None:
            os.close(descriptor)


async def _read(descriptor: int) -> bytes:
    """The next bytes as soon as there are some: a person who types must not wait for the end of the input."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.read(descriptor, _CHUNK_BYTES)
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(descriptor, lambda: None if readable.done() else readable.set_result(None))
    except OSError:  # a device that cannot be waited for, such as /dev/null
        return os.read(descriptor, _CHUNK_BYTES)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, _CHUNK_BYTES)


def _acks(text: str) -> Acks:
    return "all" if text == "all" else cast(Acks, int(text))
