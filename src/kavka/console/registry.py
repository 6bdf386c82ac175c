"""The schema registry over HTTP, as Confluent's clients speak to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kavka.net.http import HttpConnection, HttpRequest, HttpResponse, HttpServing
from kavka.net.server import Served
from kavka.net.session import Session
from kavka.net.transport import Transport

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MAX_BODY_BYTES: Final = 2 << 20
UNAUTHORIZED: Final = {"error_code": 401, "message": "Unauthorized"}


class Refused(Protocol):
    """Somebody who is not let in."""

    @property
    def challenges(self) -> tuple[str, ...]:
        """How they might log in."""

    @property
    def wrong(self) -> bool:
        """Whether they tried, in vain."""


class Registry(Protocol):
    """Who lets clients in, and answers them."""

    async def let_in(self, connection: Any, authorization: str | None, /) -> Refused | None:
        """Know who sends a request; None if that is somebody."""

    async def answer(
        self, session: Any, method: str, path: str, query: Mapping[str, str], body: bytes, /
    ) -> tuple[int, Any]:
        """Status and answer of a request."""


class RegistryFace:
    """Turns HTTP into calls of the registry, and its answers into HTTP."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._serving = HttpServing(self, MAX_BODY_BYTES)

    def connect(self, session: Session, transport: Transport, on_close: Callable[[Served], None]) -> HttpConnection:
        """Take a new connection over."""
        return self._serving.connect(session, transport, on_close)

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._serving.run()

    async def let_in(self, connection: HttpConnection, headers: Mapping[str, str]) -> HttpResponse | None:
        """What somebody is told who may not ask anything; None for others."""
        refused = await self._registry.let_in(connection, headers.get("authorization"))
        if refused is None:
            return None
        challenges = tuple(("WWW-Authenticate", challenge) for challenge in refused.challenges)
        return _said(401, UNAUTHORIZED, challenges + ((("Connection", "close"),) if refused.wrong else ()))

    async def respond(self, connection: HttpConnection, request: HttpRequest) -> HttpResponse:
        """The answer to a request."""
        status, body = await self._registry.answer(
            connection.session, request.method, request.path, request.query, request.body
        )
        return _said(status, body)


def _said(status: int, body: Any, headers: tuple[tuple[str, str], ...] = ()) -> HttpResponse:
    return HttpResponse(status, json.dumps(body, ensure_ascii=False).encode(), CONTENT_TYPE, headers)
