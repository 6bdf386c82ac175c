"""`kavka produce`: lines, JSON, a file or generated records to a topic."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

import typer

from kavka.cli.lines import Record, from_json, from_lines, from_typed_json, generated, keyed, single
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, run
from kavka.cli.output import CommandError, Output, note, print_json, write_line
from kavka.cli.schemas import Format, RegistryOption, encoded, encoding, registry_of
from kavka.client import Acks, Producer

AHEAD_SECONDS: Final = 0.005
"""How far sending may run ahead of its rate before it rests."""


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the records go.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read lines from here, not standard input."),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="All of --file, or of the input, is one record.")] = False,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Each line is a record as `consume --output json` writes it.")
    ] = False,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", metavar="SEP", help="What ends the key in each line.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="The key of every record.")] = None,
    null: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="A key or value that is this text is none at all.")
    ] = None,
    tombstone: Annotated[
        bool, typer.Option("--tombstone", help="Send one record with --key and without a value: it deletes the key.")
    ] = False,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME[=VALUE]", help="A header for every record; null without a value."),
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
    rate: Annotated[float | None, typer.Option("--rate", min=0.001, help="At most so many records a second.")] = None,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Print partition and offset of each record once it is acknowledged.")
    ] = False,
    value_schema: Annotated[
        str | None,
        typer.Option(
            "--value-schema",
            metavar="FILE|latest",
            help="Values are JSON and are written by this schema, or the registry's latest for the topic.",
        ),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", show_default="by the file's name", help="The language of --value-schema."),
    ] = None,
    message: Annotated[
        str, typer.Option("--message", metavar="NAME", show_default="the first", help="Which one of a Protobuf file.")
    ] = "",
    registry: RegistryOption = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send records: a line of standard input each, a file, or generated ones.

    Examples:

    - `echo hello | kavka produce greetings`
    - `kavka produce users --key-separator : --file users.txt --codec zstd`
    - `kavka produce users --key 42 --tombstone`
    - `kavka consume orders --output json | kavka produce copies --json`
    - `kavka produce documents --key report --file report.pdf --whole --offsets`
    - `kavka produce load --count 1000000 --size 100 --rate 5000`
    - `echo '{"id": 7}' | kavka produce orders --value-schema order.avsc --registry http://127.0.0.1:8081`
    """
    given = {"--count": count is not None, "--whole": whole, "--json": json_lines, "--tombstone": tombstone}
    _one_of(given | {"--key-separator": key_separator is not None})
    _one_of({"--count": count is not None, "--tombstone": tombstone, "--file": file is not None})
    _one_of({"--key": key is not None, "--key-separator": key_separator is not None, "--json": json_lines})
    if tombstone and key is None:
        raise typer.BadParameter("--tombstone needs --key", param_hint="--tombstone")
    records: AsyncIterator[Sequence[Record]]
    if count is not None:
        records = generated(count, size)
    elif tombstone:
        records = single(Record(_bytes(key), None))
    elif whole:
        records = single(Record(_bytes(key), file.read_bytes() if file is not None else sys.stdin.buffer.read()))
    else:
        parse = from_typed_json if value_schema is not None else from_json
        records = from_lines(file, parse if json_lines else keyed(key_separator, key, null))
    _one_of({"--count": count is not None, "--value-schema": value_schema is not None})
    if value_schema is None and (format_ is not None or message):
        raise typer.BadParameter("it needs --value-schema", param_hint="--message" if message else "--format")
    job = Job(topic, partition, tuple(map(_header, header or ())), rate, offsets, output)
    options: dict[str, Any] = {"codec": codec, "acks": _acks(acks)}
    if count is not None:
        options |= {"linger_ms": 20, "batch_bytes": 131_072}  # for throughput: nobody waits for a single record

    async def work() -> dict[str, Any]:
        if value_schema is None:
            return await _send_all(bootstrap, job, records, count, options)
        write = await encoding(registry_of(registry), topic, value_schema, format_, message)
        return await _send_all(bootstrap, job, encoded(records, write), None, options)

    sent = run(work())
    if output is Output.JSON and not offsets:
        print_json(sent)
    elif count is not None or sys.stderr.isatty():
        note(_summary(sent))


def _summary(sent: dict[str, Any]) -> str:
    seconds = max(sent["seconds"], 0.001)
    speed = f"{sent['records'] / seconds:,.0f} records/s, {sent['bytes'] / 1e6 / seconds:,.1f} MB/s"
    return f"{sent['records']:,} records, {sent['bytes'] / 1e6:,.1f} MB in {sent['seconds']:.2f} s ({speed})"


class Job(NamedTuple):
    """What is to be done with every record."""

    topic: str
    partition: int | None
    headers: tuple[tuple[str, bytes | None], ...]
    rate: float | None
    offsets: bool
    output: Output


async def _send_all(
    bootstrap: str,
    job: Job,
    records: AsyncIterator[Sequence[Record]],
    total: int | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    from kavka.cli.progress import progress

    sent = volume = 0
    began = time.monotonic()
    async with Producer(bootstrap, **options) as producer:
        with progress("producing", total) as advance:
            try:
                async for chunk in records:
                    volume += await _send(producer, job, chunk, began, sent)
                    sent += len(chunk)
                    advance(len(chunk))
            except CommandError as error:
                await producer.flush()
                before = f"what came before it was sent (records: {sent}), nothing after it"
                raise CommandError(f"{error}; {before}") from None
            await producer.flush()
    return {"records": sent, "bytes": volume, "seconds": round(time.monotonic() - began, 3)}


async def _send(producer: Producer, job: Job, chunk: Sequence[Record], began: float, before: int) -> int:
    """Send a chunk and say where it went, if that is wanted; its size in bytes."""
    volume = 0
    promises = []
    for number, (key, value, headers, timestamp) in enumerate(chunk, before):
        if job.rate is not None:
            early = began + number / job.rate - time.monotonic()
            if early > AHEAD_SECONDS:
                await asyncio.sleep(early)
        promise = await producer.send(
            job.topic, value, key=key, partition=job.partition, headers=(*job.headers, *headers), timestamp=timestamp
        )
        if job.offsets:
            promises.append(promise)
        volume += len(value or b"") + len(key or b"")
    for promise in promises:
        delivered = await promise
        if job.output is Output.JSON:
            print_json({"partition": delivered.partition, "offset": delivered.offset})
        else:
            write_line(f"{delivered.partition} {delivered.offset}")
    sys.stdout.flush()
    return volume


def _one_of(given: dict[str, bool]) -> None:
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise typer.BadParameter(f"{chosen[0]} and {chosen[1]} exclude each other", param_hint=chosen[1])


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise typer.BadParameter(f"{text!r} is not NAME or NAME=VALUE", param_hint="--header")
    return name, value.encode() if equals else None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _acks(text: str) -> Acks:
    return "all" if text == "all" else cast(Acks, int(text))
