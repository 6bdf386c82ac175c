"""The console as an ASGI application: its pages, and what every answer of it says to browsers."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kavka.console.pages import (
    groups,
    nodes,
    overview,
    pipelines,
    probes,
    schemas,
    security,
    signing,
    tiers,
    topic,
    topics,
)
from kavka.console.rendering import HERE
from kavka.console.sessions import Sessions
from kavka.console.settings import ConsoleSettings
from kavka.console.visits import Console, Page

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC: Final = "/static/"


class Guarded:
    """Answers only who asks for this machine, and tells browsers what pages may do.

    A page of somebody else's whose name was made to lead here (DNS rebinding) asks by that name.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith(STATIC):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        asked = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        if not self._known(asked):
            what = f"{asked!r} is no name of this console: add it to kavka.console.hosts\n"
            await PlainTextResponse(what, 421)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)

    def _known(self, asked: str) -> bool:
        host = asked[: asked.index("]") + 1] if asked.startswith("[") and "]" in asked else asked.partition(":")[0]
        try:
            ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return host.lower().rstrip(".") in self._hosts
        return True


def own_names(settings: ConsoleSettings, host: str) -> frozenset[str]:
    """By which names this console may be asked."""
    names = {"localhost", socket.gethostname(), socket.getfqdn(), host, *settings.hosts}
    return frozenset(name.lower() for name in names if name)


def _routes() -> list[BaseRoute]:
    def get(path: str, handler: Any, **options: Any) -> Route:
        return Route(path, Page(handler, **options), methods=["GET"])

    def post(path: str, handler: Any, **options: Any) -> Route:
        return Route(path, Page(handler, **options), methods=["POST"])

    return [
        get("/", overview.show),
        get("/topics", topics.show),
        get("/topics/{topic}", topic.messages),
        get("/topics/{topic}/record", topic.record),
        get("/topics/{topic}/raw", topic.raw),
        get("/topics/{topic}/live", topic.live),
        get("/topics/{topic}/events", topic.events),
        get("/topics/{topic}/produce", topic.produce_form),
        post("/topics/{topic}/produce", topic.produce, changes=True),
        get("/topics/{topic}/partitions", topic.partitions),
        get("/topics/{topic}/config", topic.config),
        get("/groups", groups.show),
        get("/group", groups.group),
        post("/group/plan", groups.plan, changes=True),
        post("/group/reset", groups.reset, changes=True),
        get("/nodes", nodes.show),
        get("/security", security.show),
        get("/schemas", schemas.show),
        get("/pipelines", pipelines.show),
        get("/pipeline", pipelines.flow),
        get("/tiers", tiers.show),
        get("/series", overview.series),
        get("/sign-in", signing.form, public=True),
        post("/sign-in", signing.sign_in, public=True),
        post("/sign-out", signing.sign_out, public=True),
        Route("/metrics", probes.metrics),
        Route("/healthz", probes.healthz),
        Route("/readyz", probes.readyz),
        Mount("/static", StaticFiles(directory=HERE / "static")),
        Route("/{rest:path}", Page(overview.nothing, public=True), methods=["GET"]),
    ]


def make_app(settings: ConsoleSettings, host: str = "") -> Starlette:
    """The console of a cluster."""
    console = Console(settings, Sessions(settings))

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(console.sessions.run())
            yield
            watching.cancel()
        await console.sessions.close()

    app = Starlette(routes=_routes(), middleware=[Middleware(Guarded, hosts=own_names(settings, host))], lifespan=life)
    app.state.console = console
    return app
