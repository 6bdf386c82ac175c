"""Fetch: v4-18.

Behaviour:  waits up to max_wait_ms for min_bytes; the first partition with data gives at least one whole batch,
            however small the limits, and the others nothing rather than a piece of one; a session (KIP-227) is
            told only what is new. Followers read past the high watermark; consumers that know how to (v11) read from
            followers, or are sent to one (KIP-392).
Errors:     one per partition, answered at once; session errors for the whole request.
"""

from __future__ import annotations

from kavka.broker.rights import reading
from kavka.broker.slots import Slots
from kavka.broker.throttling import Throttled
from kavka.kernels.frames import encode_fetch_response, parse_fetch
from kavka.kernels.layout import FetchFields
from kavka.model.clock import Clock
from kavka.model.errors import InvalidFetchSessionEpoch, KafkaError, KafkaStorageError, NotLeaderOrFollower
from kavka.model.types import Piece
from kavka.net.responses import PENDING, Reply
from kavka.replica.fetching import FetchEntry, FetchSessions, FetchSet
from kavka.replica.manager import ReplicaManager
from kavka.replica.reading import FetchAttempt, FetchedTopics, FetchLimits
from kavka.replica.waiting import Purgatory
from kavka.replication.isr import BrokerEpoch

READ_COMMITTED = 1
TOPIC_IDS_SINCE = 13
STORAGE_ERROR_SINCE = 6
FOLLOWERS_SINCE = 11
LEADERS_SINCE = 16


class FetchHandler:
    """Serves Fetch straight from the frame."""

    def __init__(
        self, replicas: ReplicaManager, sessions: FetchSessions, purgatory: Purgatory, clock: Clock, max_bytes: int
    ) -> None:
        self._replicas = replicas
        self._sessions = sessions
        self._purgatory = purgatory
        self._clock = clock
        self._max_bytes = max_bytes

    def __call__(
        self,
        connection: Slots,
        buffer: memoryview,
        pos: int,
        end: int,
        version: int,
        correlation_id: int,
        client_id: str,
    ) -> Reply:
        """Answer with what there is, or wait for it."""
        request = parse_fetch(buffer, pos, end, version)
        try:
            scope, incremental = self._begin(request, version)
        except KafkaError as error:
            return refuse(version, correlation_id, error.code)
        limits = self._limits(request, version)
        hold = None
        if type(connection) is Throttled:
            if limits.follower is not None:
                connection.exempt()
            else:
                limits, hold = capped(limits, connection.most_fetched), connection.hold
        may_read = reading(connection.session.guard, follows=limits.follower is not None)
        attempt = FetchAttempt(self._replicas, scope, limits, incremental=incremental, may_read=may_read, hold=hold)
        if attempt.look() or (wait_ms := attempt.wait_ms(request.max_wait_ms)) <= 0 or not scope.entries:
            topics = attempt.result()
            if attempt.throttle_ms:
                return self._withheld(version, correlation_id, scope, incremental, attempt.throttle_ms)
            if attempt.failed:
                return self._with_errors(connection.session.listener, version, correlation_id, scope.id, topics)
            return encode_fetch_response(version, correlation_id, 0, 0, scope.id, topics)
        slot = connection.open_slot(exclusive=True)

        def answer(topics: FetchedTopics | None) -> None:
            if topics is None:
                slot.answer(refuse(version, correlation_id, InvalidFetchSessionEpoch.code))
            elif attempt.throttle_ms:
                slot.answer(self._withheld(version, correlation_id, scope, incremental, attempt.throttle_ms))
            else:
                listener = connection.session.listener
                slot.answer(self._with_errors(listener, version, correlation_id, scope.id, topics))

        attempt.park(wait_ms, self._purgatory, answer, lambda: slot.closed)
        return PENDING

    def _withheld(
        self, version: int, correlation_id: int, scope: FetchSet, incremental: bool, throttle_ms: int
    ) -> list[Piece]:
        """The response to a client that has to wait: nothing, and no session that it does not know already."""
        session_id = scope.id
        if not incremental:
            self._sessions.forget(scope)
            session_id = 0
        return encode_fetch_response(version, correlation_id, throttle_ms, 0, session_id, [])

    def _with_errors(
        self, listener: str, version: int, correlation_id: int, session_id: int, topics: FetchedTopics
    ) -> list[Piece]:
        """The response as its version knows errors: from v16 with where the leaders are (KIP-951)."""
        leaders: list[int] = []
        for _, rows in topics:
            for number, row in enumerate(rows):
                if row[1] == KafkaStorageError.code and version < STORAGE_ERROR_SINCE:
                    rows[number] = (row[0], NotLeaderOrFollower.code, *row[2:])
                    continue
                leader = row[9] if len(row) > 9 else None  # type: ignore[misc]  # rows are short or long
                if leader is not None and version >= LEADERS_SINCE:
                    leaders.append(leader[0])
                elif leader is not None:
                    rows[number] = (*row[:9], None, None)
        endpoints = self._replicas.endpoints(leaders, listener)
        return encode_fetch_response(version, correlation_id, 0, 0, session_id, topics, endpoints)

    def _limits(self, request: FetchFields, version: int) -> FetchLimits:
        max_bytes = min(request.max_bytes, self._max_bytes)
        min_bytes = min(request.min_bytes, max_bytes)
        if request.replica_id >= 0:
            follower = BrokerEpoch(request.replica_id, request.replica_epoch)
            return FetchLimits(min_bytes, max_bytes, False, follower)
        committed = request.isolation_level == READ_COMMITTED
        leader_only = version < FOLLOWERS_SINCE
        return FetchLimits(min_bytes, max_bytes, committed, None, leader_only, request.rack_id)

    def _begin(self, request: FetchFields, version: int) -> tuple[FetchSet, bool]:
        return self._sessions.begin(
            request.session_id,
            request.session_epoch,
            [FetchEntry(topic, *row[:6]) for topic, rows in request.topics for row in rows],
            [(topic, index) for topic, indexes in request.forgotten for index in indexes],
            version >= TOPIC_IDS_SINCE,
            self._clock.monotonic_ms(),
            privileged=request.replica_id >= 0,
        )


def capped(limits: FetchLimits, most: float) -> FetchLimits:
    """Limits for a client that would have to wait after more."""
    less = int(most) if limits.max_bytes > most else None
    return limits if less is None else limits._replace(max_bytes=less, min_bytes=min(limits.min_bytes, less))


def refuse(version: int, correlation_id: int, code: int) -> list[Piece]:
    """The response to a request that does not fit its session."""
    return encode_fetch_response(version, correlation_id, 0, code, 0, [])
