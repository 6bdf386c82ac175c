"""Places in logs as commands are given them: ends, offsets, times, and so far before the end or before now."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

import typer

from kavka.client import At, Last, Place

PLACE: Final = (
    "start, end, an offset, -N (the last N), a time (2026-01-31T12:00), -5m (that long ago) or @milliseconds."
)
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
