"""The two ways to ask a registry: from an event loop, or from a thread that may wait.

What is asked and kept is the same in both, and written once, as coroutines: those that ask `Inline` never wait for a
loop, so that `now` runs them to their end.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from kavka.client.deadline import within
from kavka.client.registry.errors import RegistryUnreachable
from kavka.client.registry.http import Address, Answer, Session

T = TypeVar("T")


class Way(Protocol):
    """How requests are made."""

    async def ask(self, method: str, path: str, body: bytes | None) -> Answer:
        """The answer to a request; raises RegistryUnreachable."""

    def turn(self) -> AbstractAsyncContextManager[None]:
        """One question at a time, and none for ever; raises RegistryUnreachable."""

    def close(self) -> None:
        """End what goes on, and the connection."""


class _Sessions:
    """The session in use, and another one after it was aborted."""

    def __init__(self, addresses: tuple[Address, ...], trust: ssl.SSLContext | None, seconds: float) -> None:
        self.seconds = seconds
        self.name = ", ".join(each.name for each in addresses)
        self._make = partial(Session, addresses, trust, seconds)
        self._session = self._make()

    def current(self) -> Session:
        """One that can be used."""
        if self._session.aborted:
            self._session = self._make()
        return self._session


class Inline:
    """Requests that are made by the thread that wants to know."""

    def __init__(self, addresses: tuple[Address, ...], trust: ssl.SSLContext | None, seconds: float) -> None:
        self._sessions = _Sessions(addresses, trust, seconds)

    async def ask(self, method: str, path: str, body: bytes | None) -> Answer:
        """The answer to a request, waited for."""
        return self._sessions.current().ask(method, path, body)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Whoever runs the coroutine has seen to it that nobody else does."""
        yield

    def close(self) -> None:
        """End the connection."""
        self._sessions.current().close()


class Threaded:
    """Requests that are made by a thread beside the event loop."""

    def __init__(self, addresses: tuple[Address, ...], trust: ssl.SSLContext | None, seconds: float) -> None:
        self._sessions = _Sessions(addresses, trust, seconds)
        self._lock = asyncio.Lock()

    async def ask(self, method: str, path: str, body: bytes | None) -> Answer:
        """The answer to a request; a caller that is cancelled ends it."""
        session = self._sessions.current()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Answer] = loop.create_future()

        def work() -> None:
            try:
                outcome: Answer | RegistryUnreachable = session.ask(method, path, body)
            except RegistryUnreachable as error:
                outcome = error
            with contextlib.suppress(RuntimeError):  # nobody waits any more, not even a loop
                loop.call_soon_threadsafe(_settle, done, outcome)

        threading.Thread(target=work, name="kavka-registry", daemon=True).start()
        try:
            return await done
        except asyncio.CancelledError:
            session.abort()
            raise

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the others, but no longer than a request may take."""
        seconds = self._sessions.seconds
        try:
            async with within(seconds), self._lock:
                yield
        except TimeoutError:
            said = f"{self._sessions.name}: no answer within {seconds:g} s"
            raise RegistryUnreachable(f"the schema registry cannot be reached ({said})") from None

    def close(self) -> None:
        """End what goes on, and the connection."""
        session = self._sessions.current()
        session.abort()
        if not self._lock.locked():
            session.close()


def _settle(done: asyncio.Future[Answer], outcome: Answer | RegistryUnreachable) -> None:
    if done.done():
        return
    if isinstance(outcome, Answer):
        done.set_result(outcome)
    else:
        done.set_exception(outcome)


def now(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that asks nobody but an inline registry, and so never waits for a loop."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("this has to be awaited in an event loop: it waits for more than the schema registry")
