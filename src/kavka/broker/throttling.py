"""A request whose client has quotas: what it uses is counted, and where that is too much the client waits (KIP-219).

The response leaves at once and tells the time; then nothing of the connection is read until it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from math import inf
from time import perf_counter_ns
from typing import Final

from kavka.broker.quotas import Quotas
from kavka.broker.slots import ResponseSlot
from kavka.kernels.frames import sole_client
from kavka.model.types import Piece
from kavka.net.connection import Connection
from kavka.net.responses import PENDING, Reply
from kavka.net.session import Session
from kavka.protocol.registry import ApiKey
from kavka.protocol.throttle_time import with_throttle_time
from kavka.security.quota.clients import Allowance
from kavka.security.quota.limits import QuotaType
from kavka.security.quota.rate import Rate

PERCENT_PER_NANOSECOND: Final = 1e-7
PRODUCE: Final = int(ApiKey.PRODUCE)
SHARE_FETCH: Final = int(ApiKey.SHARE_FETCH)
FETCHES: Final = frozenset({int(ApiKey.FETCH), SHARE_FETCH})
SIZE_BYTES: Final = 4
"""What a frame has before it, and does not count."""
MOST_TIME: Final = 100.0
"""Percent of a second: more time than what comes in one read can take."""
EXEMPT: Final = frozenset({ApiKey.WRITE_TXN_MARKERS})
"""What brokers ask of each other, beside the fetches of followers."""
COUNTED_ALONE: Final = FETCHES | EXEMPT


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
        *,
        begins: bool = True,
    ) -> None:
        """`bandwidth_ms` is for how long its client has to wait for the bytes of the request.

        One that does not begin now is being served already, and what that takes is counted elsewhere.
        """
        self._connection = connection
        self._quotas = quotas
        self._allowance = allowance
        self._api_key = api_key
        self._version = version
        self._bandwidth_ms = bandwidth_ms
        self._exempt = api_key in EXEMPT
        self._counted = False
        self._began_ns = perf_counter_ns() if begins and allowance.request is not None else 0
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
    def most_fetched(self) -> float:
        """The most bytes that can be given at once without making the client wait for certain."""
        rate = self._allowance.fetch
        return inf if rate is None else rate.most

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
        if bandwidth_ms <= 0 and request_ms <= 0:
            return 0
        return self._wait(QuotaType.FETCH, bandwidth_ms, request_ms)

    # -- answers ------------------------------------------------------------------------------

    def settle(self, reply: Reply) -> Reply:
        """Count an answer that is there."""
        if reply is PENDING:
            if self._began_ns:
                self.spent_ns += perf_counter_ns() - self._began_ns
                self._began_ns = 0
            return reply
        if self._counted:
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
        throttle_ms = rate.use(self.spent_ns * PERCENT_PER_NANOSECOND, now_ms)
        return min(throttle_ms, self._quotas.window_ms) if throttle_ms else 0

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


class ReadMeter:
    """Counts requests of one kind that came in one read as one, while their client is far from its quotas.

    As long as all of them together are within the quotas, so is each, and no response has to tell a time. The sums are
    the same, and a request alone costs next to nothing. Fetches, and what changes partitions, are each counted.
    """

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self.on = False

    def follow(self, quotas: Quotas) -> None:
        """Count as long as any client has a quota."""
        self.on = quotas.limits_clients

    def begin(
        self, connection: Connection, buffer: memoryview, frames: list[tuple[int, int]]
    ) -> Callable[[int, int], None] | None:
        """What counts the frames once they are served; None if each has to be counted by itself."""
        sole = sole_client(buffer, frames)
        if sole is None:
            return None
        api_key, client_id = sole
        if api_key in COUNTED_ALONE:
            return None
        allowance = allowance_of(self._quotas, connection.session, client_id)
        if allowance is None:
            return _nothing
        produce, _, request, mutation = allowance
        if request is not None and not request.has_room(MOST_TIME):
            return None
        if api_key != PRODUCE:
            if mutation is not None:
                return None
            produce = None
        elif produce is not None and not produce.has_room(frames[-1][1]):
            return None
        return partial(self._count, produce, request, frames, perf_counter_ns())

    def _count(
        self,
        produce: Rate | None,
        request: Rate | None,
        frames: list[tuple[int, int]],
        began_ns: int,
        end: int,
        unanswered: int,
    ) -> None:
        now_ms, served = self._quotas.now_ms(), len(frames)
        if end < frames[-1][1]:
            served = sum(each_end <= end for _, each_end in frames)
        if not served:
            return
        if produce is not None:
            produce.record(end - served * SIZE_BYTES, now_ms)
        if request is not None and served > unanswered:
            spent_ns = (perf_counter_ns() - began_ns) * (served - unanswered) / served
            request.record(spent_ns * PERCENT_PER_NANOSECOND, now_ms)


def _nothing(end: int, unanswered: int) -> None:
    """Count nothing: the client has no quota."""


def allowance_of(quotas: Quotas, session: Session, client_id: str) -> Allowance | None:
    """What a client is held against; None if nothing limits it."""
    try:
        return quotas.known[session.principal, client_id]
    except KeyError:
        return quotas.of(session, client_id)


def limited_later(
    quotas: Quotas, connection: Connection, api_key: int, version: int, client_id: str
) -> Throttled | None:
    """A request that is counted with others up to here, and from now on by itself, as it has to wait."""
    allowance = allowance_of(quotas, connection.session, client_id)
    if allowance is None or allowance.request is None:
        return None
    return Throttled(connection, quotas, allowance, api_key, version, begins=False)


def limited(
    quotas: Quotas, connection: Connection, api_key: int, version: int, client_id: str, request_bytes: int
) -> Throttled | Rate | None:
    """A request that is counted, or whose client waits, once it is answered.

    One that is far from its quotas is worth no object: what is left to do is to add the time that it takes to a rate,
    if there is one. The bytes of a Produce are counted here.
    """
    try:
        allowance = quotas.known[connection.session.principal, client_id]
    except KeyError:
        allowance = quotas.of(connection.session, client_id)
    if allowance is None:
        return None
    produce, fetch, request, mutation = allowance
    bandwidth_ms = 0
    if api_key == PRODUCE:
        if produce is not None:
            bandwidth_ms = produce.use(request_bytes, quotas.now_ms())
        if bandwidth_ms == 0 and (request is None or request.has_room(MOST_TIME)):
            return request
    elif request is None:
        if (fetch if api_key in FETCHES else mutation) is None:
            return None
    elif mutation is None and api_key not in COUNTED_ALONE and request.has_room(MOST_TIME):
        return request
    return Throttled(connection, quotas, allowance, api_key, version, bandwidth_ms)
