"""Spans of some of the requests of a node; the others are passed on as they are.

Not imported by a node without `kavka.otel.traces.sample`: there the server calls the dispatcher itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import time_ns
from typing import Protocol

from kavka.kernels.frames import parse_header
from kavka.net.connection import Connection, Receiver
from kavka.net.responses import PENDING, Reply
from kavka.protocol.registry import API


class Spans(Protocol):
    """Where spans go."""

    def add(self, name: str, began_ns: int, ended_ns: int, attributes: Mapping[str, str | int], /) -> None:
        """A request that was served."""


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
        reply = self._dispatch(connection, buffer, start, end)
        told = partial(self._answered, connection, key, version, correlation_id, client_id, end - start, began_ns)
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
        self._spans.add(API[key].name, began_ns, time_ns(), attributes)
