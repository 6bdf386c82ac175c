"""`kavka share`: share groups with their lag, what comes next, moving and deleting them, dead letters sent back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Annotated

import typer

from kavka.cli.group_changes import delete_each, show_reset
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, run
from kavka.cli.output import CommandError, Output, print_json, print_rows, write_line
from kavka.cli.places import parse_place, partitions_of
from kavka.cli.records import as_json, as_line, chosen
from kavka.client import Admin, Consumer, ConsumerRecord, GroupConsumer, KafkaError, Producer, TopicPartition
from kavka.client.admin_share import ShareGroupOffset, SharePartitionState
from kavka.console.places import PLACE, offsets_of
from kavka.model.errors import GroupIdNotFound

app = group("Look at share groups, which take records from topics as from a queue, and change where they stand.")

COLUMNS = ["group", "topic", "partition", "start", "lag", "accepted", "archived", "again", "oldest"]
PEEK_MS = 2_000
POLL_MS = 200
PREFIX = "__dlq.errors."
TOPIC, PARTITION, OFFSET, GROUP = (PREFIX + name for name in ("topic", "partition", "offset", "group"))
"""The headers of dead letters."""


@app.command("describe")
def describe(
    names: Annotated[list[str], typer.Argument(metavar="GROUP...", help="The share groups to describe.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show where share groups stand in their partitions.

    `start` is where the group begins to look, `lag` how many records it is not done with and `oldest` the time of the
    first of those; `accepted`, `archived` and `again` (to be delivered once more) are the records after the start whose
    state is known.

    Example: `kavka share describe workers`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin, Consumer(bootstrap) as consumer:
            found = [await _described(admin, consumer, name) for name in dict.fromkeys(names)]
        if output is Output.JSON:
            print_json(found)
            return
        for described in found:
            write_line(f"{described['group']}  share  {described['state']}  members {described['members']}")
            rows = described["partitions"]
            assert isinstance(rows, list)
            print_rows(Output.TABLE, COLUMNS, [{"group": described["group"], **row} for row in rows])

    run(work())


async def _described(admin: Admin, consumer: Consumer, name: str) -> dict[str, object]:
    described = await admin.describe_share_group(name)
    offsets = await admin.share_group_offsets(name)
    states = await admin.share_states(name, offsets)
    rows: list[dict[str, object]] = []
    for tp, found in sorted(offsets.items()):
        state = states[tp]
        known = None if isinstance(state, KafkaError) else state
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "start": found.start_offset,
                "lag": found.lag,
                "accepted": None if known is None else known.accepted,
                "archived": None if known is None else known.archived,
                "again": None if known is None else known.delivered_before,
                "oldest": await _oldest(consumer, tp, found, known),
            }
        )
    return {"group": name, "state": described.state, "members": len(described.members), "partitions": rows}


async def _oldest(
    consumer: Consumer, tp: TopicPartition, found: ShareGroupOffset, state: SharePartitionState | None
) -> int | None:
    """The timestamp of the first record that a group is not done with."""
    records = await _not_done(consumer, tp, found, state, 1)
    return records[0].timestamp if records else None


async def _not_done(
    consumer: Consumer, tp: TopicPartition, found: ShareGroupOffset, state: SharePartitionState | None, count: int
) -> list[ConsumerRecord]:
    """The first records that a group is not done with; without the state, those from its start offset on."""
    left: list[ConsumerRecord] = []
    if found.start_offset is None or not found.lag:
        return left
    await consumer.assign(tp, start=found.start_offset)
    while len(left) < count:
        records = await consumer.read(PEEK_MS)
        if not records:
            break
        left += [record for record in records if state is None or not state.is_done(record.offset)]
    return left[:count]


@app.command("peek")
def peek(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="A share group.")],
    count: Annotated[int, typer.Option("--max", "-n", min=1, help="So many records of each partition.")] = 10,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Print the first records that a share group is not done with, without taking them; members may have some of them.

    Who may not read the states of share partitions (the right ClusterAction) also sees records that are done with.

    Example: `kavka share peek workers --max 3`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin, Consumer(bootstrap) as consumer:
            write = as_json if output is Output.JSON else as_line(None)
            await admin.describe_share_group(name)  # offsets of a group that is not there are merely none
            offsets = await admin.share_group_offsets(name)
            states = await admin.share_states(name, offsets)
            for tp, found in sorted(offsets.items()):
                state = states[tp]
                known = None if isinstance(state, KafkaError) else state
                records = await _not_done(consumer, tp, found, known, count)
                sys.stdout.buffer.write(b"".join(map(write, records)))
        sys.stdout.flush()

    run(work())


@app.command("reset-offsets")
def reset_offsets(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="A share group without members.")],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC[:P,P]", help="A topic, or partitions of it; may be repeated."),
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar="PLACE", help=PLACE)] = "start",
    execute: Annotated[bool, typer.Option("--execute", help="Do it; otherwise only show what would be.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Have a share group begin elsewhere: what it knew of records is forgotten. Without --topic: everywhere.

    A group that is not there yet is made by giving it a place in a topic.

    Example: `kavka share reset-offsets workers --topic jobs --to -1h --execute`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            try:
                described = await admin.describe_share_group(name)
                if described.members:
                    raise CommandError(f"group {name!r} has members: they must leave it first")
                before = await admin.share_group_offsets(name)
            except GroupIdNotFound:
                if not topic:
                    raise
                before = {}
            chosen = await partitions_of(admin, topic) if topic else sorted(before)
            target = await offsets_of(admin, chosen, parse_place(to, "--to"))
            if execute and target:
                await admin.alter_share_group_offsets(name, target)
        show_reset(output, name, lambda tp: before[tp].start_offset if tp in before else None, target, done=execute)

    run(work())


@app.command("delete")
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Share groups without members.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Delete share groups, with where they stand.

    Example: `kavka share delete workers`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:

            async def delete_one(name: str) -> None:
                await admin.describe_share_group(name)  # no other kind of group is deleted by this
                await admin.delete_group(name)

            await delete_each(output, names, delete_one)

    run(work())


@app.command("redrive")
def redrive(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic with dead letters.")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="Send all of them here.", show_default="where they were")
    ] = None,
    share_group: Annotated[
        str | None, typer.Option("--group", "-g", help="Only the dead letters of this share group.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="REGEX", help="Only if the key has this.")] = None,
    value: Annotated[str | None, typer.Option("--value", metavar="REGEX", help="Only if the value has this.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", min=0.1, help="So many records a second at most.")] = None,
    max_records: Annotated[int | None, typer.Option("--max", "-n", min=1, help="Stop after so many records.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send dead letters back to the topics that they come from, up to what is the end now.

    A dead letter that has no copy of its record is sent as the record that still is where it was. How far this has come
    is remembered by the group `redrive.TOPIC`, so that nothing is sent twice by the next time; what the options leave
    out counts as seen.

    Example: `kavka share redrive dlq.workers --rate 100 --value order`
    """
    wanted = chosen(key, value, ())

    async def work() -> None:
        member = GroupConsumer(bootstrap, group=f"redrive.{topic}", topics=[topic], start="start", auto_commit_ms=None)
        sent = 0
        async with Consumer(bootstrap) as originals, Producer(bootstrap) as producer, member:
            partitions = [TopicPartition(topic, index) for index in await member.partitions_of(topic)]
            ends = await member.end_offsets(*partitions)
            async for letter in letters(member, ends):
                back = await _original(originals, letter)
                named = dict(letter.headers)
                fits = share_group is None or named.get(GROUP) == share_group.encode()
                if fits and back is not None and (wanted is None or wanted(back)):
                    at = back.partition if to is None else None
                    await producer.send_and_wait(
                        to or back.topic, back.value, key=back.key, partition=at, headers=back.headers
                    )
                    sent += 1
                    if rate is not None:
                        await asyncio.sleep(1 / rate)
                await member.commit({TopicPartition(topic, letter.partition): letter.offset + 1})
                if sent == max_records:
                    break
        if output is Output.JSON:
            print_json({"topic": topic, "sent": sent})
        else:
            write_line(f"{sent} records sent")

    run(work())


async def letters(member: GroupConsumer, ends: Mapping[TopicPartition, int]) -> AsyncIterator[ConsumerRecord]:
    """The dead letters of a topic up to its ends, whichever come first."""
    left = {tp for tp, end in ends.items() if end}
    while left:
        for record in await member.read(POLL_MS):
            if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                yield record
        mine = set(member.assignment)
        if mine:
            left = {tp for tp in left & mine if member.position(tp) < ends[tp]}


async def _original(consumer: Consumer, letter: ConsumerRecord) -> ConsumerRecord | None:
    """The record that a dead letter stands for; None if it is no dead letter, or the record is gone."""
    named = {name: text or b"" for name, text in letter.headers}
    if not {TOPIC, PARTITION, OFFSET} <= named.keys():
        return None
    tp, offset = TopicPartition(named[TOPIC].decode(), int(named[PARTITION])), int(named[OFFSET])
    if letter.key is not None or letter.value is not None:
        headers = tuple((name, text) for name, text in letter.headers if not name.startswith(PREFIX))
        return ConsumerRecord(*tp, offset, letter.timestamp, letter.key, letter.value, headers)
    if (await consumer.start_offsets(tp))[tp] > offset:
        return None
    await consumer.assign(tp, start=offset)
    found = await consumer.read(PEEK_MS)
    return found[0] if found and found[0].offset == offset else None
