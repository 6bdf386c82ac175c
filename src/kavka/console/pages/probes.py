"""What other programs ask: metrics, liveness and readiness, as the node's own page tells them."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from kavka.console.scraping import get
from kavka.console.visits import COOKIE, Console
from kavka.telemetry.prometheus import CONTENT_TYPE

ASK_SECONDS: Final = 10.0


async def _passed_on(request: Request, path: str, content_type: str = "text/plain; charset=utf-8") -> Response:
    console: Console = request.app.state.console
    if console.settings.metrics is None:
        return PlainTextResponse("this console belongs to no node: ask a node's kavka.metrics.listener\n", 404)
    try:
        status, text = await asyncio.to_thread(get, console.settings.metrics, path, ASK_SECONDS)
    except OSError as error:
        return PlainTextResponse(f"the node does not answer: {error}\n", 503)
    return Response(text, status, media_type=content_type)


async def metrics(request: Request) -> Response:
    """The node's metrics: where people sign in, for those who have."""
    console: Console = request.app.state.console
    if console.sessions.seat(request.cookies.get(COOKIE), automatic=True) is None:
        return PlainTextResponse("sign in first, or ask the node's kavka.metrics.listener\n", 401)
    return await _passed_on(request, "/metrics", CONTENT_TYPE)


async def healthz(request: Request) -> Response:
    """Whether the node lives; a console alone lives if it answers."""
    console: Console = request.app.state.console
    if console.settings.metrics is None:
        return PlainTextResponse("ok\n")
    return await _passed_on(request, "/healthz")


async def readyz(request: Request) -> Response:
    """Whether the node serves clients."""
    return await _passed_on(request, "/readyz")
