"""`kavka tiers`: what is in object storage, whether it is sound, and a node made anew out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kavka.catalog.segment import SegmentState
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, key_values, run
from kavka.cli.output import CommandError, Output, note, print_json, print_rows, write_line
from kavka.cli.progress import progress
from kavka.client import EARLIEST, LATEST, Admin, Consumer, Pool, TopicPartition
from kavka.client.offsets import EARLIEST_LOCAL, EARLIEST_PENDING, LATEST_TIERED
from kavka.model.errors import KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kavka.catalog.machine import Catalogue
    from kavka.catalog.partition import PartitionSegments
    from kavka.tiered.objects.segments import SegmentStore

app = group("Look at, check and repair what is in object storage.")

METADATA = "__remote_log_metadata"
PLACES = (
    ("start", EARLIEST),
    ("local_start", EARLIEST_LOCAL),
    ("last_tiered", LATEST_TIERED),
    ("to_copy_from", EARLIEST_PENDING),
    ("end", LATEST),
)

Url = Annotated[
    str,
    typer.Option("--url", help="The store, as kavka.remote.storage.url names it: file:///dir, s3://bucket/prefix."),
]
StoreOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="More about the store; may be repeated.")
]
KeysFile = Annotated[Path | None, typer.Option("--keys-file", help="The keys of encrypted segments.")]


@app.command("status")
def status(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC...]", help="Only these topics.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show of each tiered partition where its log begins, on disk and in the store, and what the store has.

    Example: `kavka tiers status orders`
    """

    async def work() -> None:
        async with Pool(bootstrap, timeout_ms=int(timeout * 1000)) as pool:
            catalogue = await read_catalogue(pool)
            rows = [await _status_row(Admin(pool), held) for held in _chosen(catalogue, topics)]
        columns = ["topic", "partition", *(name for name, _ in PLACES), "segments", "bytes", "unfinished"]
        print_rows(output, columns, rows)

    run(work())


async def _status_row(admin: Admin, held: PartitionSegments) -> dict[str, Any]:
    tp = TopicPartition(held.name.topic, held.name.partition)
    segments = list(held.segments())
    states = Counter(segment.state.name for segment in segments)
    done = [segment for segment in segments if segment.state is SegmentState.COPY_SEGMENT_FINISHED]
    row: dict[str, Any] = {"topic": tp.topic, "partition": tp.partition}
    for name, place in PLACES:
        try:
            row[name] = (await admin.list_offsets({tp: place}))[tp].offset
        except KafkaError as error:
            row[name] = None
            row["error"] = type(error).__name__
            if isinstance(error, UnknownTopicOrPartition):
                break
    row |= {"segments": len(done), "bytes": sum(segment.size_bytes for segment in done)}
    row["unfinished"] = len(segments) - len(done)
    row["states"] = dict(states)
    return row


@app.command("list")
def list_segments(
    topic: Annotated[str, typer.Argument(help="The topic whose remote segments to list.")],
    partition: Annotated[int | None, typer.Option("--partition", help="Only of this partition.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """List the remote segments of a topic, as the catalogue has them.

    Example: `kavka tiers list orders --partition 0`
    """

    async def work() -> None:
        async with Pool(bootstrap, timeout_ms=int(timeout * 1000)) as pool:
            catalogue = await read_catalogue(pool)
        rows = [
            {
                "partition": held.name.partition,
                "start": segment.start_offset,
                "end": segment.end_offset,
                "bytes": segment.size_bytes,
                "newest_ms": segment.max_timestamp_ms,
                "epochs": " ".join(f"{epoch}:{start}" for epoch, start in segment.epochs),
                "state": segment.state.name,
                "broker": segment.broker_id,
                "id": str(segment.id),
            }
            for held in _chosen(catalogue, [topic])
            if partition is None or held.name.partition == partition
            for segment in sorted(held.segments(), key=lambda segment: segment.start_offset)
        ]
        print_rows(output, list(rows[0]) if rows else [], rows)

    run(work())


@app.command("verify")
def verify(
    url: Url,
    option: StoreOptions = None,
    keys_file: KeysFile = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte and check it.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Compare the store with the catalogue: segments that are missing or damaged, objects that nobody names.

    The exit code is 1 if a segment cannot be read; objects that nobody names only cost space.

    Example: `kavka tiers verify --url s3://bucket/prefix --deep`
    """

    async def work() -> bool:
        from kavka.tiered.scrub import damaged, finished, orphans

        with opened(url, option, keys_file) as store:
            catalogue = await _catalogue_at(bootstrap, int(timeout * 1000))
            held = list(catalogue.partitions.values())
            segments = finished(held)
            with progress("checking segments", len(segments)) as done:
                bad = [damage async for damage in damaged(store, segments, deep=deep, done=done)]
            left = [orphan.info.key async for orphan in orphans(store, held)]
        report = {
            "segments": len(segments),
            "damaged": [
                {"segment": str(damage.segment.id), "topic": damage.name.topic, "faults": damage.faults}
                for damage in bad
            ],
            "orphans": left,
        }
        _show_verdict(output, report)
        return not bad

    if not run(work()):
        raise typer.Exit(1)


def _show_verdict(output: Output, report: dict[str, Any]) -> None:
    if output is Output.JSON:
        print_json(report)
        return
    for damage in report["damaged"]:
        write_line(f"damaged: {damage['topic']} {damage['segment']}: {'; '.join(damage['faults'])}")
    for key in report["orphans"]:
        write_line(f"nobody names: {key}")
    damaged, orphans = len(report["damaged"]), len(report["orphans"])
    write_line(f"{report['segments']} segments, {damaged} damaged, {orphans} objects that nobody names")


@app.command("repair")
def repair(
    url: Url,
    option: StoreOptions = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it they are only listed.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Remove the objects that no event of the catalogue names.

    What was stored in the meantime is looked up again before anything goes.

    Example: `kavka tiers repair --url file:///srv/tiers --yes`
    """

    async def work() -> None:
        from kavka.tiered.scrub import orphans

        with opened(url, option, None) as store:
            before = await _catalogue_at(bootstrap, int(timeout * 1000))
            suspects = [orphan async for orphan in orphans(store, before.partitions.values())]
            after = await _catalogue_at(bootstrap, int(timeout * 1000))
            known = {segment.id for held in after.partitions.values() for segment in held.segments()}
            if suspects and not known:
                raise CommandError("the catalogue names no segment at all, so it may be lost: nothing is removed")
            going = [orphan.info.key for orphan in suspects if orphan.ref.id not in known]
            if yes and going:
                await store.objects.delete(going)
        if output is Output.JSON:
            print_json({"removed" if yes else "found": going})
            return
        for key in going:
            write_line(key)
        note(f"{len(going)} objects {'removed' if yes else 'that nobody names; --yes removes them'}")

    run(work())


@app.command("rehydrate")
def rehydrate(
    url: Url,
    data_dir: Annotated[Path, typer.Option("--data-dir", metavar="DIR", help="An empty directory for the node.")],
    option: StoreOptions = None,
    keys_file: KeysFile = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="A config of each topic; may be repeated.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make the data directory of a standalone node out of a store alone: its topics, with all that was copied.

    For when nodes and catalogue are lost. What was not copied yet is not there; configs of topics are not either, and
    neither are groups' offsets: topics keep everything until they are told otherwise. Start the node with the same
    store afterwards.

    Example: `kavka tiers rehydrate --url s3://bucket/prefix --data-dir kavka-data`
    """

    async def work() -> dict[str, Any]:
        from kavka.broker.rehydrating import rehydrate as make

        with opened(url, option, keys_file) as store, progress("reading manifests", None) as done:
            return await make(store, data_dir, key_values(config or (), "--config"), done)

    report = run(work())
    if output is Output.JSON:
        print_json(report)
        return
    print_rows(output, ["topic", "partition", "start", "end", "segments", "bytes"], report["partitions"])
    for problem in report["problems"]:
        note(problem)


# -- what they share


@contextmanager
def opened(url: str, options: list[str] | None, keys_file: Path | None) -> Iterator[SegmentStore]:
    """The segments of a store."""
    from kavka.tiered.objects.opening import open_segments
    from kavka.tiered.objects.sealing import KeyRing, Sealing

    keys = KeyRing.parse(keys_file.read_text(encoding="utf-8")) if keys_file is not None else None
    with ThreadPoolExecutor(4) as threads:
        given = key_values(options or (), "--option")
        yield open_segments(url, threads, options=given, sealing=Sealing(keys=keys))


async def _catalogue_at(bootstrap: str, timeout_ms: int) -> Catalogue:
    async with Pool(bootstrap, timeout_ms=timeout_ms) as pool:
        return await read_catalogue(pool)


async def read_catalogue(pool: Pool) -> Catalogue:
    """The catalogue as it is now, read as any client reads a topic."""
    from kavka.catalog.machine import Catalogue

    try:
        topic = await pool.topic(METADATA)
    except UnknownTopicOrPartition:
        raise CommandError("nothing is tiered here: there is no topic __remote_log_metadata") from None
    catalogue = Catalogue(len(topic.partitions))
    async with Consumer(pool) as consumer:
        await consumer.assign(METADATA, start="start")
        async for record in consumer.until_end():
            catalogue.replay_value(record.partition, record.offset, record.value)
    return catalogue


def _chosen(catalogue: Catalogue, topics: Iterable[str] | None) -> list[PartitionSegments]:
    wanted = set(topics or ())
    found = [held for held in catalogue.partitions.values() if not wanted or held.name.topic in wanted]
    return sorted(found, key=lambda held: (held.name.topic, held.name.partition))
