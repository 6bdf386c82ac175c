"""Produce requests that are served later than they came, and hold back the requests behind them until then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from kavka.broker.slots import OneSlot, Slots
from kavka.kernels.frames import parse_produce
from kavka.kernels.layout import ProduceFields
from kavka.replica.judging import PART_BYTES, Judging


class Kept(NamedTuple):
    """A request that waits, with all that its answer takes."""

    place: OneSlot
    asked: ProduceFields
    size: int
    version: int
    correlation_id: int
    client_id: str


def keep(connection: Slots, request: memoryview, version: int, correlation_id: int, client_id: str) -> Kept:
    """Keep a copy of a request, as the connection goes on to use its buffer."""
    copy = memoryview(bytes(request))
    place = OneSlot(connection.open_slot(exclusive=True), connection.session)
    connection.serve_large(len(copy))
    return Kept(place, parse_produce(copy, 0, len(copy), version), len(copy), version, correlation_id, client_id)


def in_parts(kept: Kept, judging: Judging | None, then: Callable[[], None]) -> None:
    """Call back when everything is judged: at once if there is little, else others have turns in between."""
    loop = asyncio.get_running_loop()

    def go_on() -> None:
        if judging is None or judging.run(PART_BYTES):
            then()
        elif not kept.place.slot.closed:
            loop.call_soon(go_on)

    go_on()
