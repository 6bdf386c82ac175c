"""A request whose client has quotas: what it uses is counted, and where that is too much the client waits (KIP-219).

The response leaves at once and tells the time; then nothing of the connection is read until it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import perf_counter_ns
from typing import Final

from kavka.broker.quotas import Quotas
from kavka.broker.slots import ResponseSlot
from kavka.model.types import Piece
from kavka.net.connection import Connection
from kavka.net.responses import PENDING, Reply
from kavka.net.session import Session
from kavka.protocol.registry import ApiKey
from kavka.protocol.throttle_time import with_throttle_time
from kavka.security.quota.clients import Allowance
from kavka.security.quota.limits import QuotaType

PERCENT_PER_NANOSECOND: Final = 1e-7
PRODUCE: Final = int(ApiKey.PRODUCE)
SHARE_FETCH: Final = int(ApiKey.SHARE_FETCH)
FETCHES: Final = frozenset({int(ApiKey.FETCH), SHARE_FETCH})
UNCAPPED: Final = (1 << 31) - 1
EXEMPT: Final = frozenset({ApiKey.WRITE_TXN_MARKERS})
"""What brokers ask of each other, beside the fetches of followers."""


class Throttled:
    """A request of a connection whose answer, now or later, is counted before it leaves."""

    __slots__ = (
        "_allowance",
        "_api_key",
        "_bandwidth_ms",
        "_began_ns",
        "_connection",
        "_counted",
        "_exempt",
        "_quotas",
        "_version",
        "spent_ns",
        "told_ms",
    )

    def __init__(
        self,
        connection: Connection,
        quotas: Quotas,
        allowance: Allowance,
        api_key: int,
        version: int,
        bandwidth_ms: int = 0,
    ) -> None:
        """`bandwidth_ms` is for how long its client has to wait for the bytes of the request."""
        self._connection = connection
        self._quotas = quotas
        self._allowance = allowance
        self._api_key = api_key
        self._version = version
        self._bandwidth_ms = bandwidth_ms
        self._exempt = api_key in EXEMPT
        self._counted = False
        self._began_ns = perf_counter_ns() if allowance.request is not None else 0
        self.spent_ns = 0
        """How long the loop has been busy with it."""
        self.told_ms = 0
        """How long its client has to wait according to somebody else: the controller."""

    @property
    def session(self) -> Session:
        """Who asks."""
        return self._connection.session

    def open_slot(self, *, exclusive: bool) -> ResponseSlot:
        """Hold a place for a later answer."""
        return ThrottledSlot(self, self._connection.open_slot(exclusive=exclusive))

    def when_closed(self, key: Hashable, callback: Callable[[], None]) -> None:
        """Have a function called once the connection closes."""
        self._connection.when_closed(key, callback)

    def serve_large(self, size: int) -> None:
        """Count the bytes that the request holds until it is answered."""
        self._connection.serve_large(size)

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()

    # -- fetches ------------------------------------------------------------------------------

    @property
    def most_fetched(self) -> int:
        """The most bytes that can be given at once without making the client wait for certain."""
        rate = self._allowance.fetch
        return UNCAPPED if rate is None else min(int(rate.most), UNCAPPED)

    def exempt(self) -> None:
        """This is a follower's: it has throttles of its own."""
        self._exempt = True

    def hold(self, size: int) -> int:
        """Count what would be given, and say for how long the client has to wait instead; 0 if it may have it."""
        self._counted = True
        rate, now_ms, bandwidth_ms = self._allowance.fetch, self._quotas.now_ms(), 0
        request_ms = self._use_time(now_ms)
        if rate is not None:
            bandwidth_ms = rate.use(size, now_ms)
            if bandwidth_ms > 0 or request_ms > 0:
                rate.record(-size, now_ms)
        return self._wait(QuotaType.FETCH, bandwidth_ms, request_ms)

    # -- answers ------------------------------------------------------------------------------

    def settle(self, reply: Reply) -> Reply:
        """Count an answer that is there."""
        if reply is PENDING:
            if self._began_ns:
                self.spent_ns += perf_counter_ns() - self._began_ns
                self._began_ns = 0
            return reply
        return self.counted([reply] if isinstance(reply, bytes) else reply)

    def counted(self, response: list[Piece] | None) -> list[Piece] | None:
        """An answer (None: there is none), with the time in it that its client has to wait now."""
        if self._counted:
            return response
        self._counted = True
        now_ms = self._quotas.now_ms()
        request_ms = 0 if response is None else self._use_time(now_ms)
        if self.told_ms > 0:
            throttle_ms = self._wait(QuotaType.MUTATION, self.told_ms, request_ms)
        elif self._api_key == SHARE_FETCH and self._allowance.fetch is not None and response is not None:
            # What is acquired is given, where Kafka keeps it back until nobody else may have it for a while either.
            bandwidth_ms = self._allowance.fetch.use(sum(map(len, response)), now_ms)
            throttle_ms = self._wait(QuotaType.FETCH, bandwidth_ms, request_ms)
        else:
            throttle_ms = self._wait(QuotaType.PRODUCE, self._bandwidth_ms, request_ms)
        if throttle_ms <= 0 or response is None:
            return response
        return with_throttle_time(self._api_key, self._version, response, throttle_ms)

    def _use_time(self, now_ms: int) -> int:
        """Count how long the loop was busy; for how long the client has to wait for that."""
        rate = self._allowance.request
        if rate is None or self._exempt:
            return 0
        if self._began_ns:
            self.spent_ns += perf_counter_ns() - self._began_ns
            self._began_ns = 0
        return min(rate.use(self.spent_ns * PERCENT_PER_NANOSECOND, now_ms), self._quotas.window_ms)

    def _wait(self, kind: QuotaType, other_ms: int, request_ms: int) -> int:
        """Make the client wait for the longer of two times, of which one is for the time that it used."""
        throttle_ms = other_ms if other_ms > request_ms else request_ms
        if throttle_ms > 0:
            self._quotas.count_wait(kind if other_ms > request_ms else QuotaType.REQUEST, throttle_ms)
            self._connection.mute(throttle_ms)
        return throttle_ms


class ThrottledSlot:
    """The place of a late answer that is counted when it comes."""

    __slots__ = ("_request", "_slot")

    def __init__(self, request: Throttled, slot: ResponseSlot) -> None:
        self._request = request
        self._slot = slot

    @property
    def closed(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._slot.closed

    @property
    def left(self) -> bool:
        """Whether the client has closed its side."""
        return self._slot.left

    def answer(self, pieces: list[Piece] | None) -> None:
        """Give the response."""
        self._slot.answer(self._request.counted(pieces))

    def abort(self) -> None:
        """Close the connection instead of answering."""
        self._slot.abort()


def limited(
    quotas: Quotas, connection: Connection, api_key: int, version: int, client_id: str, request_bytes: int
) -> Throttled | None:
    """A request that is counted, or whose client waits, once it is answered; None for all others.

    The bytes of a Produce are counted here: so one that is within its quota costs no more than that.
    """
    session = connection.session
    try:
        allowance = quotas.known[session.principal, client_id]
    except KeyError:
        allowance = quotas.of(session, client_id)
    if allowance is None:
        return None
    produce, fetch, request, mutation = allowance
    bandwidth_ms = 0
    if api_key == PRODUCE:
        if produce is not None:
            bandwidth_ms = produce.use(request_bytes, quotas.now_ms())
        if bandwidth_ms == 0 and request is None:
            return None
    elif request is None and (fetch if api_key in FETCHES else mutation) is None:
        return None
    return Throttled(connection, quotas, allowance, api_key, version, bandwidth_ms)
