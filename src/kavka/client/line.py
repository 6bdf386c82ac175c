"""One outgoing connection to a node: dialled when it is needed, and again when it broke, but not too often.

How long a node is left alone follows Kafka's `reconnect.backoff.ms` and `reconnect.backoff.max.ms`: after each failure
in a row twice as long, from the moment of the failure; what ended a connection that worked counts as the first. A
connection that this side hung up is replaced at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.client.connector import MAX_FRAME_BYTES, Connector
from kavka.client.deadline import within
from kavka.model.errors import (
    IllegalSaslState,
    KafkaError,
    NetworkException,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from kavka.protocol.registry import API
from kavka.protocol.schema import declared

if TYPE_CHECKING:
    from kavka.client.connection import Connection

logger = logging.getLogger(__name__)

Address = tuple[str, int]

AUTHENTICATION: Final = (SaslAuthenticationFailed, UnsupportedSaslMechanism, IllegalSaslState)
TOLD: Final = (NetworkException, *AUTHENTICATION)
"""What a line tells of in the log, once: who meets it need not."""
JITTER: Final = 0.2


class Backoff(NamedTuple):
    """How long to wait after a failure: from the first to the longest, doubling."""

    first_ms: float
    longest_ms: float

    def seconds(self, failures: int, draw: float) -> float:
        """The wait after so many failures in a row before this one; `draw`, from 0 to 1, makes it up to 20 % other."""
        if self.longest_ms <= self.first_ms:
            return self.longest_ms / 1000
        wait = min(self.first_ms * 2.0 ** min(failures, 30), self.longest_ms)
        return min(wait * (1 - JITTER + 2 * JITTER * draw), self.longest_ms) / 1000


CLIENT: Final = Backoff(50, 1_000)
"""The defaults of `reconnect.backoff.ms` and `reconnect.backoff.max.ms`."""
AT_ONCE: Final = Backoff(0, 0)
"""For those who pace themselves: a follower leaves its leader alone for `replica.fetch.backoff.ms`, whatever failed."""
STEADY: Final = Backoff(50, 50)
"""How Kafka's brokers dial controllers and coordinators: they are back, or others take their place, within moments."""


class Line:
    """The way to one node; shared by many, or that of one who polls, behind whose request all others would wait."""

    def __init__(
        self,
        connector: Connector,
        where: Callable[[], Address],
        *,
        name: str,
        client_id: str,
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        backoff: Backoff = CLIENT,
    ) -> None:
        """`where` says the node's address, each time it matters; a KafkaError of it is that of whoever asks."""
        self.name = name
        self.on_lost: Callable[[], None] | None = None
        """Called when the other side, or the way to it, ends a connection."""
        self._connector = connector
        self._where = where
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._max_frame_bytes = max_frame_bytes
        self._backoff = backoff
        self._connection: Connection | None = None
        self._address: Address | None = None
        self._dialling = asyncio.Lock()
        self._woken = asyncio.Event()
        self._failures = 0
        self._not_before = 0.0
        self._failed_dials = 0
        self._failure: KafkaError | None = None
        self._closed = False

    @property
    def connection(self) -> Connection | None:
        """The open connection, if there is one that can be used at once."""
        connection = self._open
        return connection if connection is not None and not connection.must_renew else None

    @property
    def _open(self) -> Connection | None:
        connection = self._connection
        return connection if connection is not None and not connection.closed else None

    @property
    def address(self) -> Address | None:
        """Where the node was when it was last asked for."""
        return self._address

    @property
    def backs_off_until(self) -> float:
        """The time of the loop before which it is not dialled."""
        return self._not_before

    async def request(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        """The node's answer; raises KafkaError."""
        connection = await self.connect()
        return await connection.request(request, API[declared(type(request)).key].response(), timeout_ms=timeout_ms)

    async def connect(self) -> Connection:
        """The open connection, to where the node is now; dialled if need be, not before the node was left alone.

        Raises NetworkException if it cannot be reached, or the error by which it refuses. Who comes while somebody
        dials shares the outcome.
        """
        if (connection := self._current()) is not None and not connection.must_renew:
            return connection
        failed_dials = self._failed_dials
        async with self._dialling:
            if self._failure is not None and self._failed_dials != failed_dials:
                raise type(self._failure)(self._failure.message)
            while (connection := self._current()) is None:
                await self._dial()
            if connection.must_renew:
                await self._renew(connection)
            return connection

    async def _renew(self, connection: Connection) -> None:
        """Log in again before the other side ends the session."""
        try:
            async with within(self._connect_timeout_ms / 1000):
                await self._connector.renew(connection)
        except TimeoutError:
            self.hang_up()
            raise NetworkException(f"{self.name} did not take the log-in again in time") from None
        except KafkaError as error:
            self.hang_up()
            self._refused(error)
            raise

    def hang_up(self) -> None:
        """Close the connection; the next request dials anew, at once."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def wake(self) -> None:
        """The node may be back, or be somewhere else: dial it at once."""
        self._failures, self._not_before = 0, 0.0
        self._woken.set()

    def close(self) -> None:
        """Hang up, and dial no more."""
        self._closed = True
        self._woken.set()
        self.hang_up()

    def _current(self) -> Connection | None:
        """The open connection, unless the node is somewhere else by now."""
        if self._closed:
            raise NetworkException(f"the line to {self.name} is closed")
        address = self._where()
        if address != self._address:
            self.hang_up()
            self._address, self._failure = address, None
            self.wake()
        return self._open

    async def _dial(self) -> None:
        """Dial once, or wait until it may be dialled."""
        wait = self._not_before - asyncio.get_running_loop().time()
        if wait > 0:
            await self._rest(wait)
            return
        assert self._address is not None
        host, port = self._address
        try:
            connection = await self._connector.connect(
                host,
                port,
                client_id=self._client_id,
                request_timeout_ms=self._request_timeout_ms,
                connect_timeout_ms=self._connect_timeout_ms,
                max_frame_bytes=self._max_frame_bytes,
            )
        except KafkaError as error:
            if self._address != (host, port):
                return  # it is somewhere else by now
            self._refused(error)
            raise
        if self._closed or self._address != (host, port):
            connection.close()
            return
        if self._failure is not None:
            logger.info("connection to %s is established again", self.name)
        self._connection, self._failure, self._failures = connection, None, 0
        connection.on_lost = self._lost

    async def _rest(self, seconds: float) -> None:
        self._woken.clear()
        try:
            async with within(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _back_off(self) -> None:
        wait = self._backoff.seconds(self._failures, self._connector.draw())
        self._not_before = asyncio.get_running_loop().time() + wait
        self._failures += 1

    def _refused(self, error: KafkaError) -> None:
        """It could not be reached, or did not let us in: said once, however often it is tried."""
        said, self._failure = self._failure, error
        self._failed_dials += 1
        self._back_off()
        if type(said) is type(error):
            return
        if isinstance(error, AUTHENTICATION):
            logger.error("connection to %s failed authentication due to: %s", self.name, error)
        else:
            logger.warning("connection to %s could not be established: %s", self.name, error)

    def _lost(self, error: KafkaError) -> None:
        logger.info("connection to %s was lost: %s", self.name, error)
        self._connection = None
        self._back_off()
        if self.on_lost is not None:
            self.on_lost()
