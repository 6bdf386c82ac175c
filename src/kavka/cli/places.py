"""Places in logs as commands are given them: ends, offsets, times, and so far before the end or before now."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import typer

from kavka.cli.output import CommandError
from kavka.client import EARLIEST, LATEST, Admin, At, Last, Place, TopicPartition

PLACE: Final = (
    "start, end, an offset, -N (the last N), a time (2026-01-31T12:00), -5m (that long ago) or @milliseconds."
)
NO_END: Final = (1 << 63) - 1
_BACK: Final = re.compile(r"-([0-9]+)(ms|s|m|h|d)?", re.ASCII)
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_place(text: str, option: str = "--from") -> Place:
    """Read a place; times are UTC unless they say otherwise."""
    if text in ("start", "earliest"):
        return "start"
    if text in ("end", "latest"):
        return "end"
    if text.isascii() and text.isdigit():
        return int(text)
    if text.startswith("@") and text[1:].isascii() and text[1:].isdigit():
        return At(int(text[1:]))
    back = _BACK.fullmatch(text)
    if back is not None and back[2]:
        return At(max(0, time.time_ns() // 1_000_000 - int(back[1]) * _UNITS_MS[back[2]]))
    if back is not None:
        return Last(int(back[1]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not {PLACE.removesuffix('.')}", param_hint=option) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return At(int(moment.timestamp() * 1000))


async def partitions_of(admin: Admin, texts: Iterable[str], option: str = "--topic") -> list[TopicPartition]:
    """The partitions that a user names: topics, or some partitions of them as TOPIC:P,P."""
    chosen = []
    for text in texts:
        name, colon, indexes = text.rpartition(":")
        if not colon:
            name, indexes = text, ""
        count = len((await admin.describe_topic(name)).partitions)
        try:
            wanted = [int(index) for index in indexes.split(",")] if indexes else list(range(count))
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:P,P", param_hint=option) from None
        missing = [index for index in wanted if not 0 <= index < count]
        if missing:
            raise CommandError(f"topic {name!r} has no partition {missing[0]}")
        chosen += [TopicPartition(name, index) for index in wanted]
    return chosen


async def offsets_of(admin: Admin, partitions: Sequence[TopicPartition], place: Place) -> dict[TopicPartition, int]:
    """The offset of a place in each partition, within what its log has."""
    if isinstance(place, int):
        return await within(admin, dict.fromkeys(partitions, place))
    if isinstance(place, At):
        found = await admin.list_offsets(dict.fromkeys(partitions, place.timestamp_ms))
        return await within(
            admin,
            {tp: found_offset.offset if found_offset.offset >= 0 else NO_END for tp, found_offset in found.items()},
        )
    if isinstance(place, Last):
        ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
        return await within(admin, {tp: found_offset.offset - place.count for tp, found_offset in ends.items()})
    return await within(admin, dict.fromkeys(partitions, 0 if place == "start" else NO_END))


async def within(admin: Admin, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Offsets, moved to the nearest one that the log has."""
    if not offsets:
        return {}
    starts = await admin.list_offsets(dict.fromkeys(offsets, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(offsets, LATEST))
    return {tp: min(max(at, starts[tp].offset), ends[tp].offset) for tp, at in offsets.items()}
