"""`kavka consume`: the records of topics, as lines, as JSON or in a format of the user's."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Literal

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, run
from kavka.cli.output import CommandError
from kavka.cli.places import parse_place
from kavka.cli.records import Wanted, Write, as_format, as_json, as_line, chosen
from kavka.cli.schemas import Decode, RegistryOption, decoding, registry_of
from kavka.client import Admin, Consumer, ConsumerRecord, GroupConsumer, Place, ShareConsumer, TopicPartition
from kavka.console.places import PLACE

POLL_MS = 200
AT_ONCE = 500
SHARE_PATIENCE_MS = 2_000
"""When nothing came for so long, a share group has nothing more for now."""
PATIENCE_S = 3.0
"""How long a member that is given no partition waits before it looks whether the group has settled without it."""
STABLE = "Stable"

Records = Sequence[ConsumerRecord]
Acknowledgement = Literal["accept", "release", "reject"]


class RecordOutput(StrEnum):
    """How records are shown."""

    TEXT = "text"
    JSON = "json"


def consume(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC...]", help="What to read.")] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="REGEX", help="Read the topics whose whole names match.")
    ] = None,
    start: Annotated[str | None, typer.Option("--from", metavar="PLACE", show_default="start", help=PLACE)] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="PLACE", show_default="the end", help="Stop before this place.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new records after the end.")] = False,
    max_records: Annotated[int | None, typer.Option("--max", "-n", min=1, help="Stop after so many records.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Only this one; may be repeated.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="REGEX", help="Only if the key has this.")] = None,
    value: Annotated[str | None, typer.Option("--value", metavar="REGEX", help="Only if the value has this.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME[=VALUE]", help="Only with this header; may be repeated."),
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", metavar="SEP", help="Also print keys, this between.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="%t topic, %p partition, %o offset, %T time, %k key, %v value, %h headers, %K %V sizes, \\n.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Read as a member of this group, on from where it has read to."),
    ] = None,
    share: Annotated[
        str | None,
        typer.Option("--share", metavar="GROUP", help="Take records as a member of this share group, as from a queue."),
    ] = None,
    ack: Annotated[bool, typer.Option("--ack", help="With --share: accept what was printed; the default.")] = False,
    release: Annotated[
        bool, typer.Option("--release", help="With --share: release what was printed, for another to get it.")
    ] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="With --share: reject what was printed: nobody gets it again.")
    ] = False,
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
    registry: RegistryOption = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Print the records of topics up to their end, or follow them.

    Examples:

    - `kavka consume greetings`
    - `kavka consume orders --from -5` (the last five of each partition)
    - `kavka consume orders --from -1h --until -30m --key customer-7 --output json`
    - `kavka consume orders --from end --follow --format '%p/%o %k: %v\\n'`
    - `kavka consume orders payments --group billing --follow`
    - `kavka consume jobs --share workers --max 10`
    - `kavka consume orders --registry http://127.0.0.1:8081` (keys and values as JSON, by their schemas)
    """
    if share is not None:
        _check_share(group, pattern, partition, start, until)
    acknowledge = _acknowledgement(share, {"accept": ack, "release": release, "reject": reject})
    if bool(topics) == (pattern is not None):
        raise typer.BadParameter("give either topics or --pattern", param_hint="TOPIC")
    if follow and until is not None:
        raise typer.BadParameter("--follow and --until exclude each other", param_hint="--until")
    if group is not None:
        _check_group(partition, until)
    place, last = parse_place(start or "start"), parse_place(until, "--until") if until is not None else "end"
    write = _writer(output, key_separator, format_)
    show = Show(write, chosen(key, value, header or ()))

    async def work() -> None:
        names = await _matching(bootstrap, pattern) if pattern is not None else list(dict.fromkeys(topics or ()))
        if share is not None:
            await _print_share(bootstrap, share, names, acknowledge, show, max_records, follow=follow)
            return
        if group is None:
            async with Consumer(bootstrap, isolation=isolation) as consumer:
                sources = [TopicPartition(name, each) for name in names for each in partition] if partition else names
                await consumer.assign(*sources, start=place)
                chunks = _chunks(consumer, None if follow else await _ends(consumer, last))
                await _print(chunks, show, max_records)
            return
        member = GroupConsumer(
            bootstrap,
            group=group,
            topics=() if pattern is not None else names,
            pattern=pattern,
            protocol=protocol,
            start=place,
            isolation=isolation,
        )
        async with member:
            await print_group(bootstrap, member, names, show, max_records, follow=follow)

    run(show.with_registry(registry, work))


class Show:
    """What is shown of records, and which of them are."""

    def __init__(self, write: Write, wanted: Wanted | None) -> None:
        self._write = write
        self._wanted = wanted
        self._decode: Decode | None = None

    async def with_registry(self, said: str | None, work: Callable[[], Awaitable[None]]) -> None:
        """Do a command's work while keys and values are shown by their schemas, if there is a registry."""
        registry = registry_of(said)
        if registry is None:
            await work()
            return
        async with registry:
            self._decode = decoding(registry)
            await work()

    async def chosen(self, records: Records) -> Records:
        """The records that are wanted, as they are to be shown."""
        if self._decode is not None:
            records = await self._decode(records)
        if self._wanted is None:
            return records
        return [record for record in records if self._wanted(record)]

    def print(self, records: Records) -> None:
        """Write records to standard output."""
        sys.stdout.buffer.write(b"".join(map(self._write, records)))
        sys.stdout.flush()


def _writer(output: RecordOutput, key_separator: str | None, format_: str | None) -> Write:
    if output is RecordOutput.JSON:
        if format_ is not None or key_separator is not None:
            raise typer.BadParameter("JSON has a form of its own", param_hint="--output")
        return as_json
    if format_ is not None:
        if key_separator is not None:
            raise typer.BadParameter("--format says itself where keys stand: %k", param_hint="--key-separator")
        return as_format(format_)
    return as_line(key_separator.encode() if key_separator is not None else None)


async def _matching(bootstrap: str, pattern: str) -> list[str]:
    try:
        whole = re.compile(pattern)
    except re.error as error:
        raise typer.BadParameter(f"{pattern!r} is no regular expression: {error}", param_hint="--pattern") from None
    async with Admin(bootstrap) as admin:
        names = [topic.name for topic in await admin.list_topics() if whole.fullmatch(topic.name)]
    if not names:
        raise CommandError(f"--pattern: no topic matches {pattern!r}")
    return names


async def _ends(consumer: Consumer, until: Place) -> dict[TopicPartition, int]:
    """Where reading stops: at a place, but not after what is now the end."""
    ends = await consumer.end_offsets()
    return {tp: min(at, ends[tp]) for tp, at in (await consumer.offsets(until)).items()}


async def _chunks(consumer: Consumer, ends: Mapping[TopicPartition, int] | None) -> AsyncIterator[Records]:
    while True:
        records: Records = await consumer.read(ends=ends)
        if not records:
            return
        if ends is not None:  # what came after the start of this command belongs to --follow
            records = [record for record in records if record.offset < ends[TopicPartition(*record[:2])]]
        yield records


async def _print(chunks: AsyncIterator[Records], show: Show, most: int | None) -> None:
    async for records in chunks:
        shown = await show.chosen(records)
        if most is not None:
            shown = shown[:most]
            most -= len(shown)
        show.print(shown)
        if most == 0:
            return


async def print_group(
    bootstrap: str,
    member: GroupConsumer,
    topics: Sequence[str],
    show: Show,
    most: int | None,
    *,
    follow: bool,
) -> None:
    """What a member is given: up to what is now the end of its partitions, or for ever.

    Records beyond `most` are not asked for, because those that were given out are committed as read.
    """
    partitions = [TopicPartition(name, index) for name in topics for index in await member.partitions_of(name)]
    if not follow and not partitions:
        return
    ends = {} if follow else await member.end_offsets(*partitions)
    idle = 0.0
    while most is None or most > 0:
        records = await member.read(POLL_MS, at_most=most)
        idle = 0.0 if records else idle + POLL_MS / 1000
        if records:
            shown = await show.chosen(records)
            most = None if most is None else most - len(shown)
            show.print(shown)
        if follow:
            continue
        mine = member.assignment  # looked at also where records came: somebody may write all the time
        if member.epoch > 0 and mine and all(member.position(tp) >= ends.get(tp, 0) for tp in mine):
            return
        if idle > PATIENCE_S and not mine:
            idle = 0.0
            await _require_a_share(bootstrap, member)


def _check_group(partition: list[int] | None, until: str | None) -> None:
    """A group says itself who reads what."""
    if partition:
        raise typer.BadParameter("a group shares out partitions by itself", param_hint="--partition")
    if until is not None:
        raise typer.BadParameter("a group reads up to the end, or follows", param_hint="--until")


def _check_share(
    group: str | None, pattern: str | None, partition: list[int] | None, start: str | None, until: str | None
) -> None:
    """A share group knows by itself what comes next."""
    given = {"--group": group, "--pattern": pattern, "--partition": partition or None, "--until": until}
    wrong = [option for option, value in given.items() if value is not None]
    if start is not None:
        raise typer.BadParameter(
            "a share group reads on from where it is; `kavka share reset-offsets` moves one", param_hint="--from"
        )
    if wrong:
        raise typer.BadParameter(f"--share and {wrong[0]} exclude each other", param_hint="--share")


def _acknowledgement(share: str | None, given: Mapping[Acknowledgement, bool]) -> Acknowledgement:
    """What is said of the records."""
    wanted = [how for how, is_wanted in given.items() if is_wanted]
    if wanted and share is None:
        raise typer.BadParameter("--ack, --release and --reject belong to --share", param_hint="--share")
    if len(wanted) > 1:
        raise typer.BadParameter("--ack, --release and --reject exclude each other", param_hint=f"--{wanted[1]}")
    return wanted[0] if wanted else "accept"


async def _print_share(
    bootstrap: str,
    group: str,
    topics: Sequence[str],
    how: Acknowledgement,
    show: Show,
    most: int | None,
    *,
    follow: bool,
) -> None:
    """What a member of a share group gets: until nothing comes for a while, or for ever."""
    seen: set[tuple[str, int, int]] = set()
    most_at_once = min(most or AT_ONCE, AT_ONCE)
    consumer = ShareConsumer(
        bootstrap,
        group=group,
        topics=topics,
        acknowledgement="explicit",
        max_records=most_at_once,
        strict_limit=True,
    )
    async with consumer:
        while most is None or most > 0:
            records = await consumer.read(None if follow else SHARE_PATIENCE_MS, at_most=most)
            if (not records and consumer.assignment) or not seen.isdisjoint(record[:3] for record in records):
                return  # what was released comes again: all was shown
            seen.update(record[:3] for record in records if how == "release")
            shown = await show.chosen([ConsumerRecord(*record[:7]) for record in records])
            most = None if most is None else most - len(records)
            show.print(shown)
            for record in records:
                consumer.acknowledge(record, how)


async def _require_a_share(bootstrap: str, member: GroupConsumer) -> None:
    """Raise CommandError if the group has settled and this member has nothing; it may also be about to get some."""
    async with Admin(bootstrap) as admin:
        group = await admin.describe_group(member.group)
    others = [each for each in group.members if each.id != member.member_id]
    if (
        group.state == STABLE
        and others  # who is alone gets all there is, though perhaps only with the next heartbeat
        and len(others) < len(group.members)
        and not any(each.partitions for each in group.members if each not in others)
    ):
        raise CommandError(
            f"group {group.id!r} gave this member no partition: its other members have them all "
            f"(see `kavka groups describe {group.id} --members`)"
        )
