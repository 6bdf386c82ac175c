"""`kavka groups`: list, describe with lag, reset offsets, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from kavka.cli.group_changes import delete_each, show_reset
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, run
from kavka.cli.output import CommandError, Output, print_json, print_rows, write_line
from kavka.cli.places import parse_place, partitions_of
from kavka.cli.streams_tree import topology_json, tree_of
from kavka.client import LATEST, Admin, CommittedOffset, GroupDescription, TopicPartition
from kavka.console.places import PLACE, offsets_of, shifted
from kavka.model.errors import GroupIdNotFound, KafkaError

app = group("Look at groups of consumers, at how far they have read, and change that.")

RESTING = ("Empty", "Dead")
LAG_COLUMNS = ["group", "topic", "partition", "committed", "end", "lag", "member", "host", "client_id"]
MEMBER_COLUMNS = ["group", "member", "instance_id", "client_id", "host", "epoch", "partitions"]


@app.command("list")
def list_groups(
    state: Annotated[list[str] | None, typer.Option("--state", help="Only in this state; may be repeated.")] = None,
    type_: Annotated[list[str] | None, typer.Option("--type", help="Only of this type; may be repeated.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """List the groups.

    Example: `kavka groups list --state Stable`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = await admin.list_groups(states=state or (), types=type_ or ())
        rows = [
            {"group": listed.id, "type": listed.type, "state": listed.state, "coordinator": listed.coordinator}
            for listed in found
        ]
        print_rows(output, ["group", "type", "state", "coordinator"], rows)

    run(work())


@app.command("describe")
def describe_groups(
    names: Annotated[list[str], typer.Argument(metavar="GROUP...", help="The groups to describe.")],
    members: Annotated[bool, typer.Option("--members", help="Show members instead of offsets.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show how far groups have read, how much is left, and who reads it; of a streams group its topology and tasks too.

    Example: `kavka groups describe billing`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            described = [await _description(admin, name) for name in dict.fromkeys(names)]
            shown = [await _described(admin, description) for description in described]
        if output is Output.JSON:
            print_json(shown)
            return
        for description, summary in zip(described, shown, strict=True):
            _show(summary, description, members)

    run(work())


async def _description(admin: Admin, name: str) -> GroupDescription:
    try:
        return await admin.describe_group(name)
    except GroupIdNotFound as missing:
        try:
            await admin.describe_share_group(name)
        except KafkaError:
            raise missing from None
    raise CommandError(f"{name} is a share group: `kavka share describe {name}` shows it")


@app.command("reset-offsets")
def reset_offsets(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="A group without members.")],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC[:P,P]", help="A topic, or partitions of it; may be repeated."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="PLACE", help=PLACE),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="So many records on, or back if negative.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; otherwise only show what would be.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Have a group go on reading elsewhere. Without --topic: everything that it has committed for.

    A group that is not there yet is made by giving it a place in a topic.

    Examples:

    - `kavka groups reset-offsets billing --topic orders --to start`
    - `kavka groups reset-offsets billing --shift-by -10 --execute`
    """
    if (to is None) == (shift_by is None):
        raise typer.BadParameter("say either --to or --shift-by", param_hint="--to")

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            committed = await admin.group_offsets(name) if await _rests(admin, name, new=bool(topic)) else {}
            chosen = await partitions_of(admin, topic) if topic else sorted(committed)
            target = await _target(admin, chosen, committed, to, shift_by)
            if execute and target:
                await admin.alter_group_offsets(name, target)
        show_reset(output, name, lambda tp: committed[tp].offset if tp in committed else None, target, done=execute)

    run(work())


@app.command("delete")
def delete_groups(
    names: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Groups without members.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Delete groups, with how far they have read.

    Example: `kavka groups delete billing`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            await delete_each(output, names, admin.delete_group)

    run(work())


# -- describing ---------------------------------------------------------------------------------------------


async def _described(admin: Admin, described: GroupDescription) -> dict[str, object]:
    committed = await admin.group_offsets(described.id)
    owners = {tp: member for member in described.members for tp in member.partitions}
    known = sorted(tp for tp in {*committed, *owners} if tp in committed or described.topology is None)
    ends = await admin.list_offsets(dict.fromkeys(known, LATEST)) if known else {}
    offsets = []
    for tp in known:
        member, found, end = owners.get(tp), committed.get(tp), ends[tp].offset
        offsets.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": found.offset if found is not None else None,
                "end": end,
                "lag": max(0, end - found.offset) if found is not None else None,
                "member": member.id if member is not None else None,
                "host": member.host if member is not None else None,
                "client_id": member.client_id if member is not None else None,
            }
        )
    return {
        "group": described.id,
        "type": described.type,
        "state": described.state,
        "coordinator": described.coordinator,
        "assignor": described.assignor or None,
        "epoch": described.epoch,
        "members": _members(described),
        "offsets": offsets,
        **({} if described.topology is None else {"topology": topology_json(described.topology)}),
    }


def _members(described: GroupDescription) -> list[dict[str, object]]:
    return [
        {
            "member": member.id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "host": member.host,
            "epoch": member.epoch,
            "partitions": [str(tp) for tp in sorted(member.partitions)],
        }
        for member in sorted(described.members, key=lambda member: member.id)
    ]


def _show(summary: dict[str, object], described: GroupDescription, members: bool) -> None:
    shown, rows = ("members", MEMBER_COLUMNS) if members else ("offsets", LAG_COLUMNS)
    found = summary[shown]
    assert isinstance(found, list)
    assert isinstance(summary["members"], list)
    write_line(f"{summary['group']}  {summary['type']}  {summary['state']}  members {len(summary['members'])}")
    if described.topology is not None:
        for line in tree_of(described.topology):
            write_line(line)
    print_rows(Output.TABLE, rows, [{"group": summary["group"], **row} for row in found])


# -- resetting ----------------------------------------------------------------------------------------------


async def _rests(admin: Admin, name: str, *, new: bool) -> bool:
    """Whether a group is there and has no members; one that is not there may be meant to be `new`."""
    try:
        described = await admin.describe_group(name)
    except GroupIdNotFound:
        if not new:
            raise
        return False
    if described.state not in RESTING:
        raise CommandError(f"group {name!r} has members ({described.state}): they must leave it first")
    return True


async def _target(
    admin: Admin,
    chosen: list[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
    to: str | None,
    shift_by: int | None,
) -> dict[TopicPartition, int]:
    """Where each partition shall be read on, within what its log has."""
    if shift_by is None:
        return await offsets_of(admin, chosen, parse_place(to or "", "--to"))
    return await shifted(admin, {tp: committed[tp].offset for tp in chosen if tp in committed}, shift_by)
