"""One HTTP request to a server that is not trusted to answer, to be brief or to stay where it is.

It runs in a thread of its own; after its time its socket is shut, which ends the thread whatever the server does.
Redirects are not followed: where a request goes is decided by who configured it, not by who answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from kavka.client.deadline import within

MAX_BYTES: Final = 1 << 20
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class HttpError(Exception):
    """A request that did not come to a good end; says nothing of what was sent."""


def checked_url(url: str) -> SplitResult:
    """A URL that may be asked: by https, or within this machine; raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError("it is no URL that begins with https://")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError("http:// is only taken within this machine, use https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not have a user's name in it")
    return parts


async def fetch(
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    trust: ssl.SSLContext | None = None,
    seconds: float = 10.0,
) -> bytes:
    """The answer to a GET, or to a POST of a body; raises HttpError."""
    request = _Request(checked_url(url), body, dict(headers or {}), trust, seconds)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def work() -> None:
        try:
            outcome: bytes | Exception = request.run()
        except (OSError, http.client.HTTPException, ValueError) as error:
            outcome = HttpError(f"{request.parts.hostname} did not answer as it should: {type(error).__name__}")
        except HttpError as error:
            outcome = error
        with contextlib.suppress(RuntimeError):  # nobody waits any more, not even a loop
            loop.call_soon_threadsafe(_settle, done, outcome)

    threading.Thread(target=work, name="kavka-http", daemon=True).start()
    try:
        async with within(seconds):
            return await done
    except TimeoutError:
        raise HttpError(f"{request.parts.hostname} did not answer within {seconds:g} s") from None
    finally:
        request.abort()


def _settle(done: asyncio.Future[bytes], outcome: bytes | Exception) -> None:
    if done.done():
        return
    if isinstance(outcome, bytes):
        done.set_result(outcome)
    else:
        done.set_exception(outcome)


class _Request:
    """A request and the socket that it runs on."""

    def __init__(
        self,
        parts: SplitResult,
        body: bytes | None,
        headers: dict[str, str],
        trust: ssl.SSLContext | None,
        timeout: float,
    ) -> None:
        self.parts = parts
        self._body = body
        self._headers = {"Accept": "application/json", **headers}
        assert parts.hostname is not None
        if parts.scheme == "https":
            context = trust if trust is not None else ssl.create_default_context()
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        self._aborted = False

    def run(self) -> bytes:
        """Ask, and read the whole answer."""
        path = self.parts.path or "/"
        if self.parts.query:
            path = f"{path}?{self.parts.query}"
        try:
            self._connection.request("GET" if self._body is None else "POST", path, self._body, self._headers)
            if self._aborted:
                raise HttpError("it was too late")
            answer = self._connection.getresponse()
            if answer.status != http.client.OK:
                raise HttpError(f"{self.parts.hostname} answered with status {answer.status}")
            content = answer.read(MAX_BYTES + 1)
        finally:
            self._connection.close()
        if len(content) > MAX_BYTES:
            raise HttpError(f"{self.parts.hostname} answered with more than {MAX_BYTES} bytes")
        return content

    def abort(self) -> None:
        """Let the thread end, wherever it is."""
        self._aborted = True
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
