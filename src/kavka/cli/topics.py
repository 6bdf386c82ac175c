"""`kavka topics`: list, describe, create, delete, delete records, alter, reassign, elect."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kavka.cli import placement
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, key_values, run
from kavka.cli.output import Output, note, print_json, print_rows, write_line
from kavka.cli.places import parse_place, partitions_of
from kavka.client import (
    EARLIEST,
    LATEST,
    Admin,
    ConfigResource,
    ConfigSource,
    KafkaError,
    NewTopic,
    TopicDescription,
    TopicPartition,
)
from kavka.console.places import PLACE, offsets_of
from kavka.model.errors import TopicAlreadyExists, UnknownTopicOrPartition

EARLIEST_LOCAL, LATEST_TIERED = -4, -5

app = group("Create, look at, change and delete topics.")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also those the cluster keeps for itself.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """List the topics.

    Example: `kavka topics list --output json`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            topics = await admin.list_topics(internal=internal)
        rows = [
            {"topic": topic.name, "partitions": topic.partitions, "internal": topic.internal, "id": str(topic.id)}
            for topic in topics
        ]
        print_rows(output, ["topic", "partitions", "id"], rows)

    run(work())


@app.command("describe")
def describe_topics(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC...]", help="The topics to describe; without any, all.")
    ] = None,
    offsets: Annotated[bool, typer.Option("--offsets", help="Also first and last offsets, and sizes on disk.")] = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions that lack an in-sync replica.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show the partitions, replicas and changed configs of topics.

    Examples:

    - `kavka topics describe orders payments --offsets`
    - `kavka topics describe --under-replicated`
    """

    async def work() -> list[dict[str, Any]]:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            chosen = names or [topic.name for topic in await admin.list_topics(internal=True)]
            topics = await admin.describe_topics(chosen)
            configs = await admin.describe_configs(*map(ConfigResource.topic, topics)) if topics else {}
            changed = {
                resource.name: {each.name: each.value for each in entries.values() if each.source is ConfigSource.TOPIC}
                for resource, entries in configs.items()
            }
            described = [_description(topics[name], changed[name]) for name in dict.fromkeys(chosen)]
            if under_replicated:
                for topic in described:
                    topic["partitions"] = [row for row in topic["partitions"] if len(row["isr"]) < len(row["replicas"])]
                described = [topic for topic in described if topic["partitions"]]
            if offsets:
                await _add_offsets(admin, described)
            return described

    described = run(work())
    if output is Output.JSON:
        print_json(described)
        return
    for topic in described:
        _show(topic, offsets=offsets)


async def _add_offsets(admin: Admin, described: list[dict[str, Any]]) -> None:
    """Say of each partition where its log begins and ends, and how large its largest replica is."""
    rows = {TopicPartition(topic["topic"], row["partition"]): row for topic in described for row in topic["partitions"]}
    led = [tp for tp, row in rows.items() if row["leader"] >= 0]
    starts = await admin.list_offsets(dict.fromkeys(led, EARLIEST)) if led else {}
    ends = await admin.list_offsets(dict.fromkeys(led, LATEST)) if led else {}
    topics = {topic["topic"] for topic in described if topic["configs"].get("remote.storage.enable") == "true"}
    tiered = [tp for tp in led if tp.topic in topics]
    local = await admin.list_offsets(dict.fromkeys(tiered, EARLIEST_LOCAL)) if tiered else {}
    remote = await admin.list_offsets(dict.fromkeys(tiered, LATEST_TIERED)) if tiered else {}
    sizes: dict[TopicPartition, int] = {}
    for dirs in (await admin.describe_log_dirs(rows)).values() if rows else ():
        for each in dirs:
            for tp, replica in each.replicas.items():
                sizes[tp] = max(sizes.get(tp, 0), replica.size_bytes)
    for tp, row in rows.items():
        row["start"] = starts[tp].offset if tp in starts else None
        row["end"] = ends[tp].offset if tp in ends else None
        if tp in local:
            row["local_start"], row["last_tiered"] = local[tp].offset, remote[tp].offset
        row["size_bytes"] = sizes.get(tp)


@app.command("create")
def create_topic(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="Letters, digits, dots, dashes and underscores.")],
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, show_default="the broker's", help="How many partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", min=1, show_default="the broker's", help="How many copies."),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic config; may be repeated.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing when the topic is already there.")
    ] = False,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Only check whether it could be done.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Create a topic.

    Example: `kavka topics create orders --partitions 6 --config cleanup.policy=compact`
    """
    topic = NewTopic(name, partitions or -1, replication_factor or -1, key_values(config or [], "--config"))
    result, text = run(_create(bootstrap, int(timeout * 1000), topic, if_not_exists, validate_only))
    print_json(result) if output is Output.JSON else write_line(text)


async def _create(
    bootstrap: str, timeout_ms: int, topic: NewTopic, if_not_exists: bool, validate_only: bool
) -> tuple[dict[str, object], str]:
    async with Admin(bootstrap, timeout_ms=timeout_ms) as admin:
        try:
            created = (await admin.create_topics([topic], validate_only=validate_only))[topic.name]
        except TopicAlreadyExists:
            if not if_not_exists:
                raise
            return {"topic": topic.name, "created": False}, f"topic {topic.name} is already there"
    result: dict[str, object] = {
        "topic": created.name,
        "created": not validate_only,
        "id": str(created.id),
        "partitions": created.partitions,
        "replication_factor": created.replication_factor,
    }
    verb = "could be created" if validate_only else "created"
    return (
        result,
        f"topic {created.name} {verb}: partitions {created.partitions}, replicas {created.replication_factor}",
    )


@app.command("delete")
def delete_topics(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics to delete.")],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Pass over topics that are not there.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Delete topics with all their records.

    Example: `kavka topics delete orders`
    """

    async def work() -> None:
        deleted: list[str] = []
        failure: KafkaError | None = None
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            for name in names:
                try:
                    await admin.delete_topic(name)
                    deleted.append(name)
                except UnknownTopicOrPartition as error:
                    failure = failure or (None if if_exists else error)
                except KafkaError as error:
                    failure = failure or error
        if output is Output.JSON:
            print_json({"deleted": deleted})
        else:
            for name in deleted:
                write_line(f"topic {name} deleted")
        if failure is not None:
            raise failure

    run(work())


@app.command("delete-records")
def delete_records(
    names: Annotated[
        list[str], typer.Argument(metavar="TOPIC[:P,P]...", help="The topics, or partitions of them, to cut off.")
    ],
    before: Annotated[str, typer.Option("--before", metavar="PLACE", help=PLACE)],
    execute: Annotated[bool, typer.Option("--execute", help="Do it; otherwise only show what would be.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Delete the records of topics that come before a place.

    Examples:

    - `kavka topics delete-records orders --before -7d`
    - `kavka topics delete-records orders:0,1 --before end --execute`
    """
    place = parse_place(before, "--before")

    async def work() -> list[dict[str, object]]:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            chosen = await partitions_of(admin, names, "TOPIC")
            starts = await admin.list_offsets(dict.fromkeys(chosen, EARLIEST))
            wanted = await offsets_of(admin, chosen, place)
            if execute:
                wanted = await admin.delete_records(wanted)
        return [
            {"topic": tp.topic, "partition": tp.partition, "start": starts[tp].offset, "after": at}
            for tp, at in sorted(wanted.items())
        ]

    print_rows(output, ["topic", "partition", "start", "after"], run(work()))
    if not execute:
        note("nothing was deleted: add --execute to do it")


@app.command("alter")
def alter_topic(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to change.")],
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="How many it shall have in all.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Give a topic more partitions. (Its configs are changed by `kavka configs alter`.)

    Example: `kavka topics alter orders --partitions 12`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            await admin.create_partitions(name, partitions)
        if output is Output.JSON:
            print_json({"topic": name, "partitions": partitions})
        else:
            write_line(f"topic {name} has {partitions} partitions")

    run(work())


@app.command("reassign")
def reassign_topics(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics to reassign.")],
    nodes: Annotated[
        str | None, typer.Option("--to", metavar="NODE,NODE...", help="The nodes that shall hold them.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", min=1, show_default="as now", help="How many copies."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; otherwise only show what would be.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel reassignments that are under way.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when the reassignments are done.")] = True,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Move the partitions of topics to other nodes, spread evenly; no record is lost on the way.

    All partitions move or, if one of them cannot, none. While they move, `--cancel` puts them back where they were.

    Examples:

    - `kavka topics reassign orders payments --to 2,3,4` shows what would move
    - `kavka topics reassign orders --to 1,2,3 --replication-factor 3 --execute`
    - `kavka topics reassign orders --cancel`
    """
    if (nodes is None) != cancel:
        raise typer.BadParameter("give either the nodes or --cancel", param_hint="--to")
    targets = _node_ids(nodes) if nodes is not None else []

    async def work() -> list[dict[str, object]]:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            if cancel:
                return await placement.cancel(admin, names)
            moves = await placement.planned(admin, names, targets, replication_factor)
            if execute and moves:
                await placement.move(admin, moves, wait=wait)
        return [
            {"topic": tp.topic, "partition": tp.partition, "from": list(before), "to": list(after)}
            for tp, (before, after) in moves.items()
        ]

    rows = run(work())
    if output is Output.JSON or rows:
        print_rows(output, ["topic", "partition", "from", "to"], rows)
    if not rows:
        note("nothing has to move")
    elif not cancel and not execute:
        note("nothing was moved: add --execute to do it")


@app.command("elect")
def elect_leaders(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC...]", help="Whose leaders; without any, of all topics.")
    ] = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Where no in-sync replica is left, take another: records may be lost.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Make the preferred replicas leaders again, or with --unclean elect leaders where there is none.

    Example: `kavka topics elect orders`
    """
    rows = run(placement.elect(bootstrap, int(timeout * 1000), names or [], unclean=unclean))
    print_rows(output, ["topic", "partition", "outcome"], rows)
    if not rows and output is Output.TABLE:
        note("no election was needed")
    if any(row["outcome"] != "elected" for row in rows):
        raise typer.Exit(1)


def _node_ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(f"{text!r} is not a list of node ids", param_hint="--to")
    return list(dict.fromkeys(map(int, parts)))


def _description(topic: TopicDescription, configs: dict[str, str | None]) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": str(topic.id),
        "internal": topic.internal,
        "configs": configs,
        "partitions": [
            {
                "partition": row.index,
                "leader": row.leader,
                "leader_epoch": row.leader_epoch,
                "replicas": list(row.replicas),
                "isr": list(row.isr),
                "offline": list(row.offline),
            }
            for row in topic.partitions
        ],
    }


def _show(topic: dict[str, Any], *, offsets: bool) -> None:
    changed = " ".join(f"{key}={value}" for key, value in sorted(topic["configs"].items()))
    write_line(
        f"{topic['topic']}  id {topic['id']}  partitions {len(topic['partitions'])}"
        + (f"  {changed}" if changed else "")
    )
    columns = ["partition", "leader", "leader_epoch", "replicas", "isr", "offline"]
    if offsets:
        tiered = any("local_start" in row for row in topic["partitions"])
        columns += ["start", *(["last_tiered", "local_start"] if tiered else []), "end", "size_bytes"]
    print_rows(Output.TABLE, columns, topic["partitions"])
