"""`kavka tiers`: what is in object storage, whether it is sound, and a node made anew out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kavka.catalog.segment import SegmentState
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, key_values, run
from kavka.cli.output import CommandError, Output, note, print_json, print_rows, write_line
from kavka.cli.progress import progress
from kavka.cli.stores import URL_HELP, KeysFile, StoreOptions, opened
from kavka.client import EARLIEST, LATEST, Admin, Consumer, Pool, Producer, TopicPartition
from kavka.client.offsets import EARLIEST_LOCAL, EARLIEST_PENDING, LATEST_TIERED
from kavka.metadata.names import REMOTE_LOG_METADATA, REMOTE_LOG_METADATA_CLIENT
from kavka.model.errors import KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kavka.catalog.machine import Catalogue
    from kavka.catalog.partition import PartitionSegments
    from kavka.model.types import Uuid
    from kavka.tiered.scrub import FinishedSegment

app = group("Look at, check and repair what is in object storage.")

METADATA = REMOTE_LOG_METADATA
REPAIR_CLIENT = f"{REMOTE_LOG_METADATA_CLIENT}repair"
PLACES = (
    ("start", EARLIEST),
    ("local_start", EARLIEST_LOCAL),
    ("last_tiered", LATEST_TIERED),
    ("to_copy_from", EARLIEST_PENDING),
    ("end", LATEST),
)

Url = Annotated[str, typer.Option("--url", help=URL_HELP)]


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
            rows = [await _status_row(Admin(pool), held) for held in await _chosen(pool, topics)]
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
            chosen = await _chosen(pool, [topic], partition)
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
            for held in chosen
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

    The exit code is 1 if a segment cannot be read, be it that the catalogue has lost it (`kavka tiers repair` puts it
    back); other objects that nobody names only cost space.

    Example: `kavka tiers verify --url s3://bucket/prefix --deep`
    """

    async def work() -> bool:
        from kavka.tiered.scrub import damaged, finished, orphans, unnamed

        with opened(url, option, keys_file) as store:
            async with Pool(bootstrap, timeout_ms=int(timeout * 1000)) as pool:
                catalogue = await read_catalogue(pool)
                held = list(catalogue.partitions.values())
                segments = finished(held)
                with progress("checking segments", len(segments)) as done:
                    bad = [damage async for damage in damaged(store, segments, deep=deep, done=done)]
                found = await unnamed(store, [orphan async for orphan in orphans(store, held)])
                lost, strange = await _by_topic(pool, found.segments)
                aside = await store.objects.abandoned(remove=False)
        report = {
            "segments": len(segments),
            "damaged": [
                {"segment": str(damage.segment.id), "topic": damage.name.topic, "faults": damage.faults}
                for damage in bad
            ],
            "lost": [_named(each) for each in lost],
            "of_other_topics": [_named(each) for each in strange],
            "unreadable": [str(each.ref.id) for each in found.unreadable],
            "orphans": [*(orphan.info.key for orphan in found.rest), *(info.key for info in aside)],
        }
        _show_verdict(output, report)
        return not bad and not lost and not found.unreadable

    if not run(work()):
        raise typer.Exit(1)


def _show_verdict(output: Output, report: dict[str, Any]) -> None:
    if output is Output.JSON:
        print_json(report)
        return
    for damage in report["damaged"]:
        write_line(f"damaged: {damage['topic']} {damage['segment']}: {'; '.join(damage['faults'])}")
    for row in report["lost"]:
        write_line(f"lost to the catalogue: {_line(row)}")
    for row in report["of_other_topics"]:
        write_line(f"of a topic that is not here: {_line(row)}")
    for id in report["unreadable"]:
        write_line(f"nobody names, and its manifest cannot be read: {id}")
    for key in report["orphans"]:
        write_line(f"nobody names: {key}")
    damaged, lost, orphans = (len(report[kind]) for kind in ("damaged", "lost", "orphans"))
    write_line(f"{report['segments']} segments, {damaged} damaged, {lost} lost, {orphans} objects that nobody names")


def _named(found: FinishedSegment) -> dict[str, Any]:
    name, segment = found
    place = {"topic": name.topic, "topic_id": str(name.topic_id), "partition": name.partition}
    return {**place, "start": segment.start_offset, "end": segment.end_offset, "segment": str(segment.id)}


def _line(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']} offsets {row['start']} to {row['end']}, {row['segment']}"


async def _by_topic(
    pool: Pool, segments: Iterable[FinishedSegment]
) -> tuple[list[FinishedSegment], list[FinishedSegment]]:
    """Segments of topics that the cluster has, and those of others."""
    ids: dict[str, Uuid | None] = {}
    here: list[FinishedSegment] = []
    elsewhere: list[FinishedSegment] = []
    for each in segments:
        topic = each.name.topic
        if topic not in ids:
            try:
                ids[topic] = (await pool.topic(topic)).id
            except UnknownTopicOrPartition:
                ids[topic] = None
        (here if ids[topic] == each.name.topic_id else elsewhere).append(each)
    return here, elsewhere


@app.command("repair")
def repair(
    url: Url,
    option: StoreOptions = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without it is only listed what would be done.")] = False,
    of_other_topics: Annotated[
        bool, typer.Option("--of-other-topics", help="Also remove segments of topics that the cluster does not have.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Put segments back that the catalogue has lost, and remove the other objects that no event of it names.

    A segment that is whole and of a topic that is here is put back, never removed. What was stored in the meantime is
    looked up again before anything is done.

    Example: `kavka tiers repair --url file:///srv/tiers --yes`
    """

    async def work() -> None:
        from kavka.tiered.scrub import orphans, unnamed

        with opened(url, option, None) as store:
            async with Pool(bootstrap, client_id=REPAIR_CLIENT, timeout_ms=int(timeout * 1000)) as pool:
                before = await read_catalogue(pool)
                suspects = [orphan async for orphan in orphans(store, before.partitions.values())]
                after = await read_catalogue(pool)
                known = {segment.id for held in after.partitions.values() for segment in held.segments()}
                left = [orphan for orphan in suspects if orphan.ref.id not in known]
                found = await unnamed(store, left)
                lost, strange = await _by_topic(pool, found.segments)
                if suspects and not known and not lost:
                    raise CommandError("the catalogue names no segment at all, so it may be lost: nothing is removed")
                kept = {each.segment.id for each in (lost if of_other_topics else found.segments)}
                kept |= {each.ref.id for each in found.unreadable}
                going = [orphan.info.key for orphan in left if orphan.ref.id not in kept]
                if yes:
                    await _put_back(pool, after, lost)
                    if going:
                        await store.objects.delete(going)
                going += [info.key for info in await store.objects.abandoned(remove=yes)]
        restored = [_named(each) for each in lost]
        if output is Output.JSON:
            print_json({"removed" if yes else "found": going, "put_back" if yes else "lost": restored})
            return
        for row in restored:
            write_line(f"lost to the catalogue: {_line(row)}")
        for key in going:
            write_line(key)
        for unreadable in found.unreadable:
            note(f"segment {unreadable.ref.id} of {unreadable.ref.name} is left: {unreadable.reason}")
        if strange and not of_other_topics:
            note(f"{len(strange)} segments of topics that are not here are left; --of-other-topics removes them")
        if yes:
            note(f"{len(restored)} segments put back, {len(going)} objects removed")
        else:
            note(f"{len(restored)} segments are lost, nobody names {len(going)} objects; --yes puts back and removes")

    run(work())


async def _put_back(pool: Pool, catalogue: Catalogue, lost: Iterable[FinishedSegment]) -> None:
    """Write to the catalogue that segments were copied."""
    from kavka.catalog.machine import segment_event, update_event
    from kavka.catalog.records import encode_event

    began, ended = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED
    async with Producer(pool) as producer:
        for name, segment in lost:
            home = catalogue.metadata_partition_of(name.topic_id, name.partition)
            start = segment_event(name, segment._replace(state=began, custom_metadata=None))
            await producer.send(METADATA, encode_event(start), partition=home)
            finish = update_event(name, segment._replace(state=ended))
            await producer.send(METADATA, encode_event(finish), partition=home)
        await producer.flush()


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


async def _chosen(pool: Pool, topics: Iterable[str] | None, partition: int | None = None) -> list[PartitionSegments]:
    """What the catalogue has of topics, and of one of their partitions; one that nobody knows is an error."""
    wanted = set(topics or ())
    catalogue = await read_catalogue(pool)
    found = [
        held
        for held in catalogue.partitions.values()
        if (not wanted or held.name.topic in wanted) and partition in (None, held.name.partition)
    ]
    for topic in sorted(wanted - {held.name.topic for held in found}):
        there = len((await pool.topic(topic)).partitions)
        if partition is not None and partition >= there:
            raise CommandError(f"topic {topic} has no partition {partition}")
    return sorted(found, key=lambda held: (held.name.topic, held.name.partition))
