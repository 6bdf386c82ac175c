"""`kavka produce`: lines, JSON, a file or generated records to a topic."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

import typer

from kavka.cli.lines import Record, from_json_of, from_lines, generated, keyed, single
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, run
from kavka.cli.output import CommandError, Output, note, print_json, write_line
from kavka.cli.schemas import Format, RegistryOption, Said, encoded, encoding, registry_of
from kavka.client import Acks, Delivered, KafkaError, Producer

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
    key_schema: Annotated[
        str | None,
        typer.Option(
            "--key-schema",
            metavar="FILE|latest",
            help="Keys are JSON and are written by this schema, or the registry's latest for the topic's keys.",
        ),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", show_default="by the file's name", help="The language of the schemas."),
    ] = None,
    message: Annotated[
        str,
        typer.Option(
            "--message", metavar="NAME", show_default="the first", help="Which one of the values' Protobuf file."
        ),
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
    - `echo '7:{"id": 7}' | kavka produce orders -k : --key-schema latest --value-schema latest`
    """
    given = {"--count": count is not None, "--whole": whole, "--json": json_lines, "--tombstone": tombstone}
    _one_of(given | {"--key-separator": key_separator is not None})
    _one_of(given | {"--null": null is not None})
    _one_of({"--count": count is not None, "--tombstone": tombstone, "--file": file is not None})
    _one_of({"--key": key is not None, "--key-separator": key_separator is not None, "--json": json_lines})
    if tombstone and key is None:
        raise typer.BadParameter("--tombstone needs --key", param_hint="--tombstone")
    records: AsyncIterator[Sequence[Record]]
    if count is not None:
        records = generated(count, size, _bytes(key))
    elif tombstone:
        records = single(Record(_bytes(key), None))
    elif whole:
        records = single(Record(_bytes(key), file.read_bytes() if file is not None else sys.stdin.buffer.read()))
    else:
        parse = from_json_of(value=value_schema is not None, key=key_schema is not None)
        records = from_lines(file, parse if json_lines else keyed(key_separator, key, null))
    said = [Said("key", key_schema), Said("value", value_schema, message)]
    _check_schemas(said, format_, count)
    job = Job(topic, partition, tuple(map(_header, header or ())), rate, offsets, output)
    options: dict[str, Any] = {"codec": codec, "acks": _acks(acks)}
    if count is not None:
        options |= {"linger_ms": 20, "batch_bytes": 131_072}  # for throughput: nobody waits for a single record

    async def work() -> dict[str, Any]:
        if value_schema is None and key_schema is None:
            return await _send_all(bootstrap, job, records, count, options)
        write = await encoding(registry_of(registry), topic, said, format_)
        return await _send_all(bootstrap, job, encoded(records, write), None, options)

    sent = run(work())
    if output is Output.JSON and not offsets:
        print_json(sent)
    elif count is not None or sys.stderr.isatty():
        note(_summary(sent))


def _check_schemas(said: Sequence[Said], format_: Format | None, count: int | None) -> None:
    for each in said:
        _one_of({"--count": count is not None, each.option: each.schema is not None})
        if each.message and each.schema is None:
            raise typer.BadParameter(f"it needs {each.option}", param_hint="--message")
    if format_ is not None and not any(each.schema for each in said):
        raise typer.BadParameter("it needs --value-schema or --key-schema", param_hint="--format")


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


@dataclass(slots=True)
class Sent:
    """What was sent so far."""

    began: float
    records: int = 0
    volume: int = 0


async def _send_all(
    bootstrap: str,
    job: Job,
    records: AsyncIterator[Sequence[Record]],
    total: int | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    from kavka.cli.progress import progress

    sent = Sent(time.monotonic())
    async with Producer(bootstrap, **options) as producer:
        with progress("producing", total) as advance:
            try:
                async for chunk in records:
                    await _send(producer, job, chunk, sent)
                    advance(len(chunk))
            except CommandError as error:
                await producer.flush()
                before = f"what came before it was sent (records: {sent.records}), nothing after it"
                raise CommandError(f"{error}; {before}") from None
            await producer.flush()
    return {"records": sent.records, "bytes": sent.volume, "seconds": round(time.monotonic() - sent.began, 3)}


async def _send(producer: Producer, job: Job, chunk: Sequence[Record], sent: Sent) -> None:
    """Send a chunk and say where it went, if that is wanted; raises CommandError for a record that cannot be sent."""
    promises = []
    refused: CommandError | None = None
    for key, value, headers, timestamp in chunk:
        if job.rate is not None:
            early = sent.began + sent.records / job.rate - time.monotonic()
            if early > AHEAD_SECONDS:
                await asyncio.sleep(early)
        every = (*job.headers, *headers)
        try:
            promise = await producer.send(
                job.topic, value, key=key, partition=job.partition, headers=every, timestamp=timestamp
            )
        except KafkaError as error:
            if sent.records == 0:
                raise
            told = f"{error} ({type(error).__name__}, error {error.code})"
            refused = CommandError(f"record {sent.records + 1}: {told}")
            break
        if job.offsets:
            promises.append(promise)
        sent.records += 1
        sent.volume += len(value or b"") + len(key or b"")
    await _tell_offsets(job, promises)
    if refused is not None:
        raise refused


async def _tell_offsets(job: Job, promises: Sequence[Awaitable[Delivered]]) -> None:
    for promise in promises:
        delivered = await promise
        if job.output is Output.JSON:
            print_json({"partition": delivered.partition, "offset": delivered.offset})
        else:
            write_line(f"{delivered.partition} {delivered.offset}")
    sys.stdout.flush()


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
