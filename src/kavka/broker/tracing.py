"""Spans of some of the requests of a node; the others are passed on as they are.

Not imported by a node without `kavka.otel.traces.sample`: there the server calls the dispatcher itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from time import time_ns
from typing import Final, Protocol

from kavka.kernels.frames import parse_header
from kavka.net.connection import Connection, Receiver
from kavka.net.responses import PENDING, Reply
from kavka.protocol.registry import API, ApiKey

LOOKED_INTO_BYTES: Final = 64 << 10
MOST_TRACES: Final = 32
TRACEPARENT: Final = re.compile(rb"\x16traceparent\x6e00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f][13579bdf]")
"""W3C's header of a trace that somebody keeps, as a record that is not compressed has it: lengths and texts."""

Traced = tuple[int, int]
"""The ids of a trace and of the span in it that a record was sent in."""


class Spans(Protocol):
    """Where spans go."""

    def add(
        self,
        name: str,
        began_ns: int,
        ended_ns: int,
        attributes: Mapping[str, str | int],
        /,
        sent_in: Sequence[Traced] = (),
    ) -> None:
        """A request that was served, and the spans that its records were sent in."""


def sent_in(frame: memoryview) -> list[Traced]:
    """The spans that the records of a Produce request were sent in, as far as its beginning can be read."""
    found = TRACEPARENT.finditer(frame[:LOOKED_INTO_BYTES])
    spans = ((int(each[1], 16), int(each[2], 16)) for each in found)
    return list(dict.fromkeys(islice((span for span in spans if all(span)), MOST_TRACES)))


class TracedRequests:
    """Stands before a dispatcher, and has a share of the requests told, from their arrival to their answer."""

    def __init__(self, dispatch: Receiver, spans: Spans, share: float, draw: Callable[[], float]) -> None:
        self._dispatch = dispatch
        self._spans = spans
        self._share = share
        self._draw = draw

    def __call__(self, connection: Connection, buffer: memoryview, start: int, end: int) -> Reply:
        """Serve one frame."""
        if self._draw() >= self._share:
            return self._dispatch(connection, buffer, start, end)
        began_ns = time_ns()
        key, version, correlation_id, client_id, _ = parse_header(buffer, start, end)
        traces = sent_in(buffer[start:end]) if key == ApiKey.PRODUCE else ()
        reply = self._dispatch(connection, buffer, start, end)
        told = partial(
            self._answered, connection, key, version, correlation_id, client_id, end - start, began_ns, traces
        )
        if reply is PENDING:
            connection.and_then(told)
        else:
            told()
        return reply

    def _answered(
        self,
        connection: Connection,
        key: int,
        version: int,
        correlation_id: int,
        client_id: str,
        request_bytes: int,
        began_ns: int,
        traces: Sequence[Traced],
    ) -> None:
        session = connection.session
        attributes: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.client.id": client_id,
            "client.address": session.client_host,
            "kavka.listener": session.listener,
            "kavka.principal": session.principal,
            "kavka.api.version": version,
            "kavka.correlation_id": correlation_id,
            "kavka.request.bytes": request_bytes,
        }
        self._spans.add(API[key].name, began_ns, time_ns(), attributes, traces)
