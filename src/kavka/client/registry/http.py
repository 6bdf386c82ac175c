"""HTTP requests to the addresses of a registry, one after the other, over a connection that is kept.

A session belongs to one thread at a time. Every request has a time limit for all of it: when that is over its socket is
shut, which ends the thread's wait whatever the server does. Answers are not longer than `MAX_BYTES`, and redirects are
not followed: where a password goes is decided by who configured it, not by who answers.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from kavka.client.registry.errors import RegistryUnreachable
from kavka.net.tls import reason_of

MAX_BYTES: Final = 32 << 20
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_ROUNDS: Final = 3
_PAUSE_SECONDS: Final = 0.1
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which another node, or the same a little later, may do better."""
_ONCE: Final = frozenset({"DELETE"})
"""What must not be asked again if it may have been done."""


class Answer(NamedTuple):
    """A status and a body."""

    status: int
    body: bytes


class Address:
    """Where a registry is, and who asks."""

    def __init__(self, url: str, auth: tuple[str, str] | None, token: str | None) -> None:
        """Raises ValueError for a URL or a token that is none."""
        parts = _checked(url)
        self.secure = parts.scheme == "https"
        assert parts.hostname is not None
        self.host = parts.hostname
        self.port = parts.port
        self.base = parts.path.rstrip("/")
        shown = f"[{self.host}]" if ":" in self.host else self.host
        self.name = f"{parts.scheme}://{shown}" + (f":{self.port}" if self.port else "") + self.base
        """For messages: without a password."""
        self.headers = {"Accept": f"{CONTENT_TYPE}, application/json"}
        if auth is None and parts.username is not None:
            auth = (unquote(parts.username), unquote(parts.password or ""))
        if auth is not None:
            said = base64.b64encode(f"{auth[0]}:{auth[1]}".encode()).decode("ascii")
            self.headers["Authorization"] = f"Basic {said}"
        elif token is not None:
            self.headers["Authorization"] = f"Bearer {_checked_token(token)}"

    def __repr__(self) -> str:
        return f"Address({self.name})"


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment:
        raise ValueError("the URL of a schema registry is http://HOST:PORT or https://HOST:PORT")
    return parts


def _checked_token(token: str) -> str:
    bare = token.strip()  # files that tokens come from end with a line break
    if not bare or not bare.isascii() or not bare.isprintable():
        raise ValueError("the bearer token is empty, or has a line break or another character that no header may have")
    return bare


def addresses_of(urls: str | Iterable[str], auth: tuple[str, str] | None, token: str | None) -> tuple[Address, ...]:
    """The addresses in a text with commas between, or a list; raises ValueError."""
    texts = urls.split(",") if isinstance(urls, str) else list(urls)
    if not texts:
        raise ValueError("a schema registry has at least one URL")
    return tuple(Address(text, auth, token) for text in texts)


class _TooMuchError(ValueError):
    """An answer that is not read to its end."""


class Session:
    """Asks the addresses of a registry in turn until one answers."""

    def __init__(self, addresses: tuple[Address, ...], trust: ssl.SSLContext | None, seconds: float) -> None:
        self._addresses = addresses
        self._trust = trust
        self._seconds = seconds
        self._at = 0  # the address that answered last
        self._connection: http.client.HTTPConnection | None = None
        self._connected: Address | None = None
        self._aborted = threading.Event()

    def ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """The answer to a request; raises RegistryUnreachable."""
        deadline = time.monotonic() + self._seconds
        watch = threading.Timer(self._seconds, self.abort)
        watch.daemon = True
        watch.start()
        try:
            return self._asked(method, path, body, deadline)
        finally:
            watch.cancel()

    def _asked(self, method: str, path: str, body: bytes | None, deadline: float) -> Answer:
        reasons: dict[str, str] = {}
        poor: Answer | None = None
        for attempt in range(_ROUNDS * len(self._addresses)):
            if attempt and attempt % len(self._addresses) == 0:
                pause = _PAUSE_SECONDS * (1 << (attempt // len(self._addresses) - 1))
                if time.monotonic() + pause >= deadline or self._aborted.wait(pause):
                    break
            address = self._addresses[self._at]
            try:
                answer = self._once(address, method, path, body, deadline)
            except (OSError, http.client.HTTPException, ValueError) as error:
                sent = self._connection is not None and self._connection.sock is not None
                self.close()
                late = self._aborted.is_set() or time.monotonic() >= deadline
                reasons[address.name] = f"no answer within {self._seconds:g} s" if late else _reason(error)
                if late or (sent and method in _ONCE):
                    break
            else:
                if answer.status not in _PASSING or (answer.status == 500 and method in _ONCE):
                    return answer
                poor = answer
            self._at = (self._at + 1) % len(self._addresses)
        if poor is not None:
            return poor
        said = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise RegistryUnreachable(f"the schema registry cannot be reached ({said or 'the client was closed'})")

    def _once(self, address: Address, method: str, path: str, body: bytes | None, deadline: float) -> Answer:
        connection = self._connection
        if connection is not None and self._connected is address and connection.sock is not None:
            try:
                return self._exchange(connection, address, method, path, body)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.close()  # it was closed while nobody asked
                if method in _ONCE or self._aborted.is_set():
                    raise
        self.close()
        left = max(deadline - time.monotonic(), 0.001)
        return self._exchange(self._dialled(address, left), address, method, path, body)

    def _dialled(self, address: Address, seconds: float) -> http.client.HTTPConnection:
        if self._aborted.is_set():
            raise TimeoutError
        if not address.secure:
            made = http.client.HTTPConnection(address.host, address.port, timeout=seconds)
        else:
            trust = self._trust if self._trust is not None else ssl.create_default_context()
            made = http.client.HTTPSConnection(address.host, address.port, timeout=seconds, context=trust)
        self._connection, self._connected = made, address
        made.connect()
        return made

    def _exchange(
        self, connection: http.client.HTTPConnection, address: Address, method: str, path: str, body: bytes | None
    ) -> Answer:
        headers: Mapping[str, str] = address.headers
        if body is not None:
            headers = {**headers, "Content-Type": CONTENT_TYPE}
        connection.request(method, f"{address.base}/{path}", body, dict(headers))
        answer = connection.getresponse()
        content = answer.read(MAX_BYTES + 1)
        if self._aborted.is_set():
            raise TimeoutError  # what was read may be half an answer
        if len(content) > MAX_BYTES:
            raise _TooMuchError(f"the answer has more than {MAX_BYTES} bytes")
        if answer.will_close:
            self.close()
        return Answer(answer.status, content)

    def abort(self) -> None:
        """End whatever goes on, from any thread; the session is of no use afterwards."""
        self._aborted.set()
        connection = self._connection
        sock = connection.sock if connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    @property
    def aborted(self) -> bool:
        """Whether it is of no use any more."""
        return self._aborted.is_set()

    def close(self) -> None:
        """Let the connection go; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return reason_of(error)
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    # What others say about a request that cannot be made may quote it, with the secrets in it.
    return str(error) if isinstance(error, _TooMuchError) else type(error).__name__
