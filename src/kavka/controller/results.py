"""How much one decision of the controller may write."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.errors import UnknownServerError

MAX_RECORDS: Final = 10_000
"""The most records one request may write: they are one batch, which is there as a whole or not at all."""


def check_count(records: int) -> None:
    """Raise UnknownServerError, as Kafka does, when a request's records are too many for one batch."""
    if records > MAX_RECORDS:
        raise UnknownServerError(f"the request would write {records} records, more than {MAX_RECORDS} at once")


def bounded(records: list[Any]) -> tuple[Any, ...]:
    """The records of one request, if they fit one batch."""
    check_count(len(records))
    return tuple(records)
