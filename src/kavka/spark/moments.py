"""Dates and times as JSON has them: the texts that Spark reads as DATE, TIMESTAMP and TIMESTAMP_NTZ."""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo
from typing import Any, Final

_DAY: Final = r"\+?(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE: Final = re.compile(_DAY + r"(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_MOMENT: Final = re.compile(
    _DAY + r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(?: *([A-Za-z+-].*))?)?)?)?)?)?", re.ASCII
)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?", re.ASCII)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FARTHEST: Final = 18 * 3600


def date_from(item: Any) -> dt.date:
    """A DATE."""
    if type(item) is not str:
        raise ValueError(f"{item!r:.80} is not a text, which a DATE is read from")
    match = _DATE.fullmatch(item.strip())
    if match is None:
        raise ValueError(f"{item!r:.80} is not a date")
    try:
        return dt.date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError as error:
        raise ValueError(f"{item!r:.80} is not a date: {error}") from None


def moment_from(item: Any) -> dt.datetime:
    """A TIMESTAMP: a text (in UTC if it has no zone), or seconds since 1970."""
    if type(item) is int:
        try:
            return _EPOCH + dt.timedelta(seconds=item)
        except OverflowError:
            raise ValueError(f"{item} seconds since 1970 are beyond the year 9999: not milliseconds?") from None
    local, zone = _read(item)
    return local.replace(tzinfo=dt.UTC) if zone is None else _placed(local, zone)


def local_moment_from(item: Any) -> dt.datetime:
    """A TIMESTAMP_NTZ: a text without a zone."""
    local, zone = _read(item)
    if zone is not None:
        raise ValueError(f"{item!r:.80} has a time zone, and a TIMESTAMP_NTZ has none")
    return local


def _read(item: Any) -> tuple[dt.datetime, str | None]:
    if type(item) is not str:
        raise ValueError(f"{item!r:.80} is not a text, which a time is read from")
    match = _MOMENT.fullmatch(item.strip())
    if match is None:
        raise ValueError(f"{item!r:.80} is not a date and time")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = int(((fraction or "") + "000000")[:6])
    try:
        local = dt.datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), micros
        )
    except ValueError as error:
        raise ValueError(f"{item!r:.80} is not a date and time: {error}") from None
    return local, zone


def _placed(local: dt.datetime, zone: str) -> dt.datetime:
    try:
        return local.replace(tzinfo=_zone(zone)).astimezone(dt.UTC)
    except OverflowError:
        raise ValueError(f"{local} in {zone} is out of range") from None


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> dt.tzinfo:
    if name in ("Z", "UTC", "GMT", "UT"):
        return dt.UTC
    match = _OFFSET.fullmatch(name)
    if match is not None:
        sign, hours, minutes, seconds = match.groups()
        away = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        if away > _FARTHEST or int(minutes or 0) > 59 or int(seconds or 0) > 59:
            raise ValueError(f"there is no time zone {name!r}")
        return dt.timezone(dt.timedelta(seconds=away if sign == "+" else -away))
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}") from None
