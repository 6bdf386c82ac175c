"""One request of a browser: who asks, what a form brought, and what the answer is, with words for what went wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from kavka import __version__
from kavka.client import Admin, Pool
from kavka.console.rendering import render
from kavka.console.sessions import Seat, Sessions
from kavka.console.settings import ConsoleSettings
from kavka.model import errors
from kavka.model.errors import KafkaError

logger = logging.getLogger(__name__)

COOKIE: Final = "kavka_console"
TOKEN: Final = "csrf"
EVENTS: Final = "text/event-stream"
"""What browsers accept where a script follows events, and connects again by itself."""
PAGE_SECONDS: Final = 15.0
MOST_FORM_BYTES: Final = 4 << 20
MOST_PUBLIC_BYTES: Final = 64 * 1024
"""Of a form that needs no sign-in."""
MOST_FIELDS: Final = 100
READ_ONLY: Final = "this console only shows: it was started with --console-read-only"

REFUSED: Final = (
    errors.TopicAuthorizationFailed,
    errors.GroupAuthorizationFailed,
    errors.ClusterAuthorizationFailed,
    errors.TransactionalIdAuthorizationFailed,
    errors.DelegationTokenAuthorizationFailed,
)
MISSING: Final = (errors.UnknownTopicOrPartition, errors.GroupIdNotFound, errors.InvalidTopicException)


class RefusedError(Exception):
    """A request that is not carried out, with its status and words for the person."""

    def __init__(self, status: int, title: str, what: str) -> None:
        super().__init__(what)
        self.status = status
        self.title = title


@dataclass(frozen=True)
class Console:
    """What all requests share."""

    settings: ConsoleSettings
    sessions: Sessions
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the console stops."""


class Explained(NamedTuple):
    """An error in words."""

    status: int
    title: str
    what: str
    do: str


def explain(error: Exception, user: str | None) -> Explained:
    """What an error means for the person before the browser."""
    who = user or "whoever uses this console without signing in"
    said = str(error) or type(error).__name__
    if isinstance(error, RefusedError):
        return Explained(error.status, error.title, said, "")
    if isinstance(error, REFUSED):
        return Explained(403, "Not allowed", said, f"Ask for an ACL that allows it: {who} has none for this.")
    if isinstance(error, MISSING):
        return Explained(404, "Not there", said, "It may have been deleted, or the name is not spelled like that.")
    if isinstance(error, TimeoutError | errors.NetworkException | errors.RequestTimedOut | OSError):
        return Explained(
            503,
            "The cluster does not answer",
            said if said != "TimeoutError" else f"no answer within {PAGE_SECONDS:g} s",
            "See whether its nodes run and whether a majority of its controllers is up; this page tries again.",
        )
    if isinstance(error, KafkaError):
        return Explained(502, "The cluster refused", f"{said} ({type(error).__name__}, error {error.code})", "")
    return Explained(400, "That cannot be read", said, "")


class Visit:
    """One request, and how it is answered."""

    def __init__(self, request: Request, console: Console, id_: str, seat: Seat | None) -> None:
        self.request = request
        self.settings = console.settings
        self.sessions = console.sessions
        self.ending = console.ending
        self.id = id_
        self._seat = seat
        self.form: Mapping[str, str] = {}

    @property
    def seat(self) -> Seat:
        """From where the cluster is seen."""
        assert self._seat is not None
        return self._seat

    @property
    def pool(self) -> Pool:
        """The connections of the principal."""
        return self.seat.watch.pool

    @property
    def admin(self) -> Admin:
        """The principal's admin client."""
        return Admin(self.pool)

    def asked(self, name: str, default: str = "") -> str:
        """A field of the query."""
        return self.request.query_params.get(name, default)

    def asked_number(self, name: str, default: int, low: int, high: int) -> int:
        """A number of the query, within bounds."""
        text = self.asked(name)
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            return default
        return min(max(int(text), low), high)

    def page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A page out of a template."""
        seat = self._seat
        shared = {
            "path": self.request.url.path,
            "section": self.request.url.path.strip("/").partition("/")[0],
            "csrf": self.sessions.token(self.id),
            "user": seat.user if seat is not None else None,
            "signs_in": self.settings.signs_in,
            "signed_in": seat is not None,
            "read_only": self.settings.read_only,
            "has_registry": self.settings.registry is not None,
            "stale": seat.watch.error if seat is not None else None,
            "looked_at": seat.watch.looked_at if seat is not None else None,
            "version": __version__,
        }
        return HTMLResponse(render(template, {**shared, **values}), status)

    def failure(self, error: Exception) -> HTMLResponse:
        """The page for an error."""
        found = explain(error, self._seat.user if self._seat is not None else None)
        return self.page("error.html", found.status, explained=found)

    async def read_form(self, most: int) -> None:
        """Read what a form sent, and whether this console made it; raises RefusedError."""
        body = bytearray()
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                async for chunk in self.request.stream():
                    body += chunk
                    if len(body) > most:
                        raise RefusedError(413, "Too large", f"this form has at most {most >> 10} KiB")
        except TimeoutError:
            raise RefusedError(408, "Too slow", f"the form did not come within {PAGE_SECONDS:g} s") from None
        kind = self.request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            raise RefusedError(415, "Not a form", "only forms are taken here")
        try:
            fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
        except ValueError:
            raise RefusedError(400, "That cannot be read", "the form is damaged") from None
        self.form = dict(fields)
        origin = self.request.headers.get("origin")
        elsewhere = origin is not None and urlsplit(origin).netloc != self.request.headers.get("host")
        if elsewhere or not self.sessions.genuine(self.id, self.form.get(TOKEN, "")):
            what = "the form was not made by this console, or the console was restarted: load the page again"
            raise RefusedError(403, "Load the page again", what)


Handler = Callable[[Visit], Awaitable[Response]]


def redirect(url: str) -> RedirectResponse:
    """Have the browser ask for another page."""
    return RedirectResponse(url, 303)


def safe_path(text: str) -> str:
    """A path of this console, whatever was asked for."""
    if not text.startswith("/") or text[1:2] in ("/", "\\") or any(character < "!" for character in text):
        return "/"
    return text


class Page:
    """Serves a handler: signs in first where that is needed, checks forms, explains errors."""

    def __init__(self, handler: Handler, *, public: bool = False, changes: bool = False) -> None:
        """`public` pages need no principal; one that `changes` something is not there in a read-only console."""
        self._handler = handler
        self._public = public
        self._changes = changes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive, send)
        console: Console = request.app.state.console
        known = request.cookies.get(COOKIE, "")
        id_ = known if 16 <= len(known) <= 64 else console.sessions.new_id()
        automatic = "x-live" in request.headers or request.headers.get("accept") == EVENTS
        seat = console.sessions.seat(id_, automatic=automatic)
        visit = Visit(request, console, id_, seat)
        response = await self._answer(visit, seat)
        if isinstance(response, Response) and visit.id != known:
            response.set_cookie(
                COOKIE, visit.id, httponly=True, samesite="strict", path="/", secure=request.url.scheme == "https"
            )
        await response(scope, receive, send)

    async def _answer(self, visit: Visit, seat: Seat | None) -> Response:
        request = visit.request
        if seat is None and not self._public:
            if request.headers.get("x-live"):
                return PlainTextResponse("sign in again", 401)
            here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return redirect(f"/sign-in?next={quote(here if request.method == 'GET' else '/', safe='')}")
        if seat is not None:
            seat.watch.touch()
        try:
            if request.method == "POST":
                await visit.read_form(MOST_PUBLIC_BYTES if self._public else MOST_FORM_BYTES)
                if self._changes and visit.settings.read_only:
                    raise RefusedError(403, "Read-only", READ_ONLY)
            async with asyncio.timeout(PAGE_SECONDS):
                return await self._handler(visit)
        except (RefusedError, KafkaError, TimeoutError, OSError, ValueError) as error:
            return visit.failure(error)
        except Exception:
            logger.exception("%s %s failed", request.method, request.url.path)
            return visit.failure(RefusedError(500, "The console failed", "its log says why"))
