"""One connection to a broker: pipelined requests, each answer given to the request it belongs to.

Kafka answers the requests of a connection in their order, so an answer to any but the oldest
request means that the stream cannot be trusted and closes the connection. So does a request
that times out: nobody would be left to take its late answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from kavka.client.dial import Transport
from kavka.model.errors import CorruptMessage, KafkaError, NetworkException, RequestTimedOut, UnsupportedVersion
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import Api, ApiKey, api
from kavka.protocol.schema import declared

R = TypeVar("R")

_SMALL: Final = 64 * 1024
_UNSUPPORTED_VERSION: Final = UnsupportedVersion.code.to_bytes(2, "big")


class _Sent:
    """A request whose answer has not come."""

    __slots__ = ("answer", "api", "correlation_id", "deadline", "version")

    def __init__(
        self, api: Api, version: int, correlation_id: int, answer: asyncio.Future[Any], deadline: float
    ) -> None:
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.answer = answer
        self.deadline = deadline


class _Receiver(asyncio.BufferedProtocol):
    """Cuts the stream into frames; a frame larger than the shared buffer is received into its own."""

    def __init__(self, connection: Connection, max_frame_bytes: int) -> None:
        self._connection = connection
        self._max = max_frame_bytes
        self._small = bytearray(_SMALL)
        self._filled = 0
        self._large: bytearray | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        target = self._large if self._large is not None else self._small
        return memoryview(target)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what arrived."""
        self._filled += nbytes
        if self._large is not None:
            if self._filled == len(self._large):
                frame, self._large, self._filled = self._large, None, 0
                self._connection._received(frame)
            return
        try:
            self._split()
        except CorruptMessage as error:
            self._connection._fail(error)

    def _split(self) -> None:
        buffer, start, end = self._small, 0, self._filled
        while end - start >= 4:
            size = int.from_bytes(buffer[start : start + 4], "big", signed=True)
            if not 4 <= size <= self._max:
                raise CorruptMessage(f"the broker announced an answer of {size} bytes")
            if end - start - 4 < size:
                if size > _SMALL - 4:
                    # The records of a fetch are handed out as views of this buffer, which nobody writes again.
                    self._large = bytearray(size)
                    self._filled = end - start - 4
                    self._large[: self._filled] = buffer[start + 4 : end]
                    return
                break
            frame = bytes(buffer[start + 4 : start + 4 + size])
            start += 4 + size
            self._connection._received(frame)
        if start:
            buffer[: end - start] = buffer[start:end]
        self._filled = end - start

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer or the network ended it."""
        reason = f": {exc}" if exc is not None else ""
        self._connection._fail(NetworkException(f"{self._connection.address} closed the connection{reason}"))


class Connection:
    """An open connection that knows what its broker understands; made by a `Connector`."""

    def __init__(self, address: str, client_id: str, request_timeout_ms: int, max_frame_bytes: int) -> None:
        self.address = address
        self.versions: Mapping[int, tuple[int, int]] = {}
        """The versions the broker offers, by API key."""
        self.features: Mapping[str, int] = {}
        """The finalized features of the cluster."""
        self.on_lost: Callable[[KafkaError], None] | None = None
        """Called when the connection ends otherwise than by `close`."""
        self.receiver = _Receiver(self, max_frame_bytes)
        """Takes what arrives."""
        self.transport: Transport | None = None
        self.renew_at: float | None = None
        """The time of the loop from which the log-in should be renewed; None for never."""
        self._held: list[tuple[_Sent | None, bytes]] | None = None
        self._client_id = client_id
        self._timeout_ms = request_timeout_ms
        self._loop = asyncio.get_running_loop()
        self._sent: deque[_Sent] = deque()
        self._next_id = 0
        self._failure: KafkaError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._failure is not None

    @property
    def must_renew(self) -> bool:
        """Whether it is time to log in again."""
        return self.renew_at is not None and self._loop.time() >= self.renew_at

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._sent)

    def version(self, key: int, at_most: int | None = None) -> int:
        """The newest version of an API that both sides know; UnsupportedVersion when there is none."""
        spoken = api(key)
        ours = spoken.max_version - spoken.latest_version_unstable
        low, high = self.versions.get(key, (0, -1))
        newest = min(high, ours if at_most is None else min(ours, at_most))
        if newest < max(low, spoken.min_version):
            offered = f"{spoken.name} only in versions {low} to {high}" if high >= 0 else f"no {spoken.name}"
            raise UnsupportedVersion(f"{self.address} offers {offered}")
        return newest

    def send(
        self,
        request: Any,
        response: type[R],
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
        urgent: bool = False,
    ) -> asyncio.Future[R]:
        """Send a request now; the future has its answer, or the error that ended the connection.

        One that is urgent goes out while others are held.
        """
        spoken = api(declared(type(request)).key)
        chosen = self.version(spoken.key) if version is None else version
        answer: asyncio.Future[R] = self._loop.create_future()
        transport, correlation_id, frame = self._prepare(chosen, request)
        deadline = self._loop.time() + (self._timeout_ms if timeout_ms is None else timeout_ms) / 1000
        sent = _Sent(spoken, chosen, correlation_id, answer, deadline)
        if self._held is not None and not urgent:
            self._held.append((sent, frame))
            return answer
        self._put(transport, sent, frame)
        return answer

    def _put(self, transport: Transport, sent: _Sent, frame: bytes) -> None:
        self._sent.append(sent)
        if self._timer is None or self._timer_at > sent.deadline:
            self._watch(sent.deadline)
        transport.write(frame)

    def hold(self) -> None:
        """Keep requests back that are not urgent, until they are released."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Send what was held back, in its order."""
        held, self._held = self._held, None
        for sent, frame in held or ():
            if self._failure is not None or self.transport is None:
                if sent is not None and not sent.answer.done():
                    sent.answer.set_exception(NetworkException(f"the connection to {self.address} was closed"))
            elif sent is None:
                self.transport.write(frame)
            else:
                self._put(self.transport, sent, frame)

    def send_unanswered(self, request: Any, *, version: int | None = None) -> None:
        """Send a request that the broker does not answer: a produce with acks=0."""
        chosen = self.version(declared(type(request)).key) if version is None else version
        transport, _, frame = self._prepare(chosen, request)
        if self._held is not None:
            self._held.append((None, frame))
        else:
            transport.write(frame)

    async def request(
        self, request: Any, response: type[R], *, version: int | None = None, timeout_ms: int | None = None
    ) -> R:
        """Send a request and wait for its answer."""
        return await self.send(request, response, version=version, timeout_ms=timeout_ms)

    def close(self) -> None:
        """Hang up; requests without an answer fail."""
        self.on_lost = None
        self._fail(NetworkException(f"the connection to {self.address} was closed"))

    def _prepare(self, version: int, request: Any) -> tuple[Transport, int, bytes]:
        if self._failure is not None:
            raise NetworkException(self._failure.message)
        if self.transport is None:
            raise NetworkException(f"not connected to {self.address}")
        correlation_id = self._next_id
        frame = encode_request(version, correlation_id, self._client_id, request)
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        return self.transport, correlation_id, frame

    def _received(self, frame: bytes | bytearray) -> None:
        if self._failure is not None:
            return
        if not self._sent:
            self._fail(CorruptMessage(f"{self.address} sent an answer that nothing asked for"))
            return
        sent = self._sent.popleft()
        correlation_id = int.from_bytes(frame[:4], "big")
        if correlation_id != sent.correlation_id:
            self._sent.appendleft(sent)
            self._fail(CorruptMessage(f"{self.address} answered {correlation_id} instead of {sent.correlation_id}"))
            return
        try:
            message = _read_answer(sent, frame)
        except KafkaError as error:
            self._sent.appendleft(sent)
            self._fail(CorruptMessage(f"{self.address} sent a {sent.api.name} answer that cannot be read: {error}"))
            return
        if not sent.answer.done():
            sent.answer.set_result(message)

    def _watch(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._check_deadlines)
        self._timer_at = deadline

    def _check_deadlines(self) -> None:
        self._timer = None
        if not self._sent:
            return
        oldest = min(sent.deadline for sent in self._sent)
        if oldest > self._loop.time():
            self._watch(oldest)
            return
        late = next(sent for sent in self._sent if sent.deadline == oldest)
        self._fail(RequestTimedOut(f"{self.address} did not answer {late.api.name} in time"))

    def _fail(self, error: KafkaError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.transport is not None:
            self.transport.abort()
        sent, self._sent = self._sent, deque()
        for request in sent:
            if not request.answer.done():
                request.answer.set_exception(type(error)(error.message))
        if self.on_lost is not None:
            self.on_lost(error)


def _read_answer(sent: _Sent, frame: bytes | bytearray) -> Any:
    version = sent.version
    if sent.api.key == ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
        version = 0
    return parse_response(sent.api, version, frame)[1]
