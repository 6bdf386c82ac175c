"""The schema registry over HTTP, as Confluent's clients speak to it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from kavka.console.http import HttpRequest, HttpResponse, HttpServer

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MAX_BODY_BYTES: Final = 4 << 20

Answer = Callable[[str, str, Mapping[str, str], bytes, str], Awaitable[tuple[int, Any]]]
"""Answers a method, a path, a query, a body and the client's address: with a status and a body."""


class RegistryFace:
    """Turns HTTP into calls of the registry, and its answers into HTTP."""

    def __init__(self, listener: str, answer: Answer) -> None:
        host, _, port = listener.rpartition(":")
        self._server = HttpServer(host.strip("[]"), int(port), MAX_BODY_BYTES, self._respond)
        self._answer = answer

    async def open(self) -> str:
        """Listen; the address that was bound."""
        return await self._server.open()

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._server.run()

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        status, body = await self._answer(
            request.method, request.path, request.query, request.body, request.client_host
        )
        return HttpResponse(status, json.dumps(body, ensure_ascii=False).encode(), CONTENT_TYPE)
