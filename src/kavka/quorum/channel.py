"""How a node asks the active controller: at once where that is this node, else over a line of its own.

A request is asked again, of whoever is the controller then, when the connection breaks or the one asked does not lead
any more; so a controller may see the same request twice, as Kafka's do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Protocol

from kavka.client.connector import Connector
from kavka.client.deadline import within
from kavka.client.line import STEADY, Address, Line
from kavka.model.errors import (
    BrokerNotAvailable,
    KafkaError,
    NetworkException,
    NotController,
    RequestTimedOut,
)
from kavka.pacing.turn import Turn
from kavka.protocol.registry import API
from kavka.protocol.schema import Message, declared, fields_of

RETRY_SECONDS: Final = 0.05
"""How long a node waits before it asks again: elections take longer than asking in vain."""
CONNECT_TIMEOUT_MS: Final = 2_000


class ActiveController(Protocol):
    """What a node knows about the quorum leader."""

    @property
    def is_active(self) -> bool:
        """Whether it is this node."""

    @property
    def leader_endpoint(self) -> Address | None:
        """The endpoint of another node that is the leader; None while none is known."""

    def on_leader_change(self, callback: Callable[[], None]) -> None:
        """Have a function called whenever one of the above changes."""


class ControllerChannel:
    """One line to the controllers; requests that must not wait for each other use one each."""

    def __init__(
        self,
        quorum: ActiveController,
        local: Callable[[Any], Awaitable[Any]],
        connector: Connector,
        *,
        timeout_ms: int = 30_000,
        client_id: str = "kavka-node",
    ) -> None:
        self.line = Line(
            connector,
            self._leader,
            name="the active controller",
            client_id=client_id,
            request_timeout_ms=timeout_ms,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            backoff=STEADY,
        )
        self.line.on_lost = self._lost
        self.on_lost: Callable[[], None] | None = None
        """Called when the controller, or the way to it, ends the connection."""
        self._quorum = quorum
        self._local = local
        self._timeout_ms = timeout_ms
        self._changed = asyncio.Event()
        self._closed = False
        quorum.on_leader_change(self._leader_changed)

    async def call(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        """The controller's answer; raises RequestTimedOut, or UnsupportedVersion where it does not know the API."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._timeout_ms if timeout_ms is None else timeout_ms) / 1000
        failure: KafkaError = NotController("no controller is known")
        while True:
            self._changed.clear()
            try:
                answer = await self._ask(request, deadline)
                if not await refuses(answer, NotController.code):
                    return answer
                failure = NotController("the one that was asked does not lead the quorum")
                self.line.hang_up()
            except (NotController, NetworkException, RequestTimedOut, BrokerNotAvailable) as error:
                failure = error
                self.line.hang_up()
            left = deadline - loop.time()
            if self._closed or left <= 0:
                name = API[declared(type(request)).key].name
                raise RequestTimedOut(f"no controller has answered {name}: {failure}") from failure
            await self._wait(min(RETRY_SECONDS, left))

    def close(self) -> None:
        """Hang up, and answer nobody who still waits."""
        self._closed = True
        self._changed.set()
        self.line.close()

    async def _ask(self, request: Any, deadline: float) -> Any:
        if self._quorum.is_active:
            return await self._local(request)
        connection = await self.line.connect()
        left = deadline - asyncio.get_running_loop().time()
        response = API[declared(type(request)).key].response()
        return await connection.request(request, response, timeout_ms=max(1, int(left * 1000)))

    def _leader(self) -> Address:
        endpoint = self._quorum.leader_endpoint
        if endpoint is None:
            raise BrokerNotAvailable("no controller is known")
        return endpoint

    async def _wait(self, seconds: float) -> None:
        """Until it makes sense to ask again."""
        try:
            async with within(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _lost(self) -> None:
        if self.on_lost is not None:
            self.on_lost()

    def _leader_changed(self) -> None:
        """Whoever waits for an answer of the former leader asks the new one."""
        self._changed.set()
        if self._quorum.is_active or self._quorum.leader_endpoint != self.line.address:
            self.line.hang_up()
        self.line.wake()


async def refuses(message: Any, code: int) -> bool:
    """Whether a response has an error code somewhere, be it of one topic among many."""
    turn = Turn()
    for part in _parts(message):
        if getattr(part, "error_code", 0) == code:
            return True
        await turn.breathe()
    return False


def _parts(message: Message) -> Iterator[Message]:
    """A message and all that are in it."""
    yield message
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        for part in value if isinstance(value, list) else (value,):
            if not isinstance(part, Message):
                break
            yield from _parts(part)
