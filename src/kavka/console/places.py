"""Places in logs as people write them: ends, offsets, times, and so far before the end or before now."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from kavka.client import EARLIEST, LATEST, Admin, At, Last, Place, TopicPartition

PLACE: Final = (
    "start, end, an offset, -N (the last N), a time (2026-01-31T12:00), -5m (that long ago) or @milliseconds."
)
NO_END: Final = (1 << 63) - 1
_BACK: Final = re.compile(r"-([0-9]+)(ms|s|m|h|d)?", re.ASCII)
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_place(text: str) -> Place:
    """Read a place; times are UTC unless they say otherwise; raises ValueError."""
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
        raise ValueError(f"{text!r} is not {PLACE.removesuffix('.')}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return At(int(moment.timestamp() * 1000))


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


async def shifted(admin: Admin, committed: Mapping[TopicPartition, int], by: int) -> dict[TopicPartition, int]:
    """Offsets so many records on, or back if negative, within what the log has."""
    return await within(admin, {tp: offset + by for tp, offset in committed.items()})
