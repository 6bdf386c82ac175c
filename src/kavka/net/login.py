"""The SASL log-in of a connection: SaslHandshake chooses a mechanism, SaslAuthenticate carries its tokens.

A log-in is the first receiver of a connection. Nothing but the APIs 17, 18 and 36 reaches anybody before a client is
in; then the dispatcher takes over, behind somebody who watches the time if the session has an end (KIP-368). Who fails
is told so after a delay, and hung up on. Why exactly is for the log of the node alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from kavka.kernels.frames import parse_header
from kavka.model.clock import Clock
from kavka.model.errors import (
    IllegalSaslState,
    KafkaError,
    MalformedMessage,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from kavka.net.connection import Connection, Receiver
from kavka.net.lobby import Lobby
from kavka.net.responses import PENDING, Reply
from kavka.net.session import Session
from kavka.protocol.compiler import decode
from kavka.protocol.header import encode_response
from kavka.protocol.refusal import refusal
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kavka.protocol.schemas.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kavka.security.sasl.exchange import Authenticated, SaslRefused, SaslServer

logger = logging.getLogger(__name__)

BETWEEN_RELOGINS_MS: Final = 1_000
"""Kafka takes no second re-authentication within a second."""
UNKNOWN: Final = "Unknown"
"""Stands for the mechanism of a client that has chosen none of those that are offered."""

Begin = Callable[[Session], SaslServer]
Tell = Callable[[Session, str, KafkaError | None, str], None]
"""Hears of a log-in: whose, by which mechanism, with which error it was refused if it was, and why."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One mechanism of a listener."""

    begin: Begin
    max_reauth_ms: int
    """How long a log-in lasts at most; 0 for as long as the credentials do."""
    mechanism: object = None
    """Whose offer it is, for whoever has to run it."""


class Logins:
    """How the clients of one listener log in."""

    def __init__(
        self,
        offers: Mapping[str, Offer],
        *,
        max_receive_bytes: int,
        failure_delay_ms: int,
        lobby: Lobby,
        clock: Clock,
        admit: Callable[[Session], None],
        tell: Tell,
    ) -> None:
        """`admit` is told of a session whose principal has become known, `tell` of every attempt."""
        self.offers = offers
        """By mechanism; another mapping takes its place when settings change."""
        self.max_receive_bytes = max_receive_bytes
        self.failure_delay = failure_delay_ms / 1000
        self.lobby = lobby
        self.clock = clock
        self.admit = admit
        self.tell = tell
        self.succeeded: Counter[str] = Counter()
        """By mechanism, as are those that failed."""
        self.failed: Counter[str] = Counter()

    def welcome(self, connection: Connection) -> None:
        """Let the first thing that a client does be to log in."""
        connection.receiver = SaslLogin(self, connection)
        connection.max_frame = self.max_receive_bytes
        self.lobby.welcome(connection)


class _State(Enum):
    """What a client may say next."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    RAW_TOKENS = auto()
    """As AUTHENTICATE, without headers: after a SaslHandshake of version 0."""
    OVER = auto()


class SaslLogin:
    """One client on its way in, or proving again that it is who it was."""

    def __init__(self, rules: Logins, connection: Connection) -> None:
        self._rules = rules
        self._dispatcher: Receiver = connection.receiver
        self._max_frame = connection.max_frame
        self._meter = connection.meter
        connection.meter = None  # nobody in particular, as yet, sends this
        self._state = _State.VERSIONS_OR_HANDSHAKE
        self._mechanism = ""
        self._max_reauth_ms = 0
        self._exchange: SaslServer | None = None
        self._before: str | None = None
        """Who it was, where this is a re-authentication."""
        self._bad_mechanism = ""
        self._began_again_ms: int | None = None

    def __call__(self, connection: Connection, buffer: memoryview, start: int, end: int) -> Reply:
        """Serve one frame of a client that is not in."""
        if self._state is _State.OVER:
            return None
        try:
            if self._state is _State.RAW_TOKENS:
                return self._raw(connection, bytes(buffer[start:end]))
            key, version, correlation_id, _, pos = parse_header(buffer, start, end)
            api = API.get(key)
            if api is None or key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
                name = key if api is None else api.name
                raise IllegalSaslState(f"Unexpected Kafka request of type {name} during SASL {self._doing}")
            if key == ApiKey.API_VERSIONS and self._state is _State.VERSIONS_OR_HANDSHAKE:
                if api.min_version <= version <= api.max_version:
                    self._state = _State.HANDSHAKE  # else the client is told which version it may ask with
                return self._dispatcher(connection, buffer, start, end)
            if not api.min_version <= version <= api.max_version:
                raise UnsupportedVersion(f"{api.name} has no version {version}")
            request = decode(api.request(), buffer[:end], version, pos)
            if isinstance(request, SaslHandshakeRequest) and self._state is not _State.AUTHENTICATE:
                return self._choose(connection, request, version, correlation_id)
            if isinstance(request, SaslAuthenticateRequest) and self._state is _State.AUTHENTICATE:
                return self._authenticate(connection, request.auth_bytes, version, correlation_id)
            wrong = IllegalSaslState(f"Unexpected Kafka request of type {api.name} during SASL {self._doing}")
            answer = encode_response(key, version, correlation_id, refusal(request, version, wrong))
            return self._fail(connection, wrong, b"".join(answer))  # type: ignore[arg-type]
        except (IllegalSaslState, MalformedMessage, UnsupportedVersion) as error:
            return self._fail(connection, error)

    @property
    def _doing(self) -> str:
        return "handshake" if self._state in (_State.VERSIONS_OR_HANDSHAKE, _State.HANDSHAKE) else "authentication"

    # -- the exchange -----------------------------------------------------------------------

    def begin_again(self, connection: Connection, buffer: memoryview, start: int, end: int) -> Reply | None:
        """Take a SaslHandshake for the beginning of a re-authentication, None if it is too early for another one."""
        now_ms = self._rules.clock.monotonic_ms()
        if self._began_again_ms is not None and now_ms - self._began_again_ms < BETWEEN_RELOGINS_MS:
            return None
        self._began_again_ms = now_ms
        self._before = connection.session.principal
        self._state = _State.HANDSHAKE
        connection.receiver = self
        connection.max_frame = self._rules.max_receive_bytes
        self._rules.lobby.enter(connection)
        return self(connection, buffer, start, end)

    def _choose(
        self, connection: Connection, request: SaslHandshakeRequest, version: int, correlation_id: int
    ) -> Reply:
        offers, chosen = self._rules.offers, request.mechanism
        known = chosen in offers
        answer = SaslHandshakeResponse(
            error_code=0 if known else UnsupportedSaslMechanism.code, mechanisms=list(offers)
        )
        pieces = encode_response(ApiKey.SASL_HANDSHAKE, version, correlation_id, answer)
        if not known:
            error = UnsupportedSaslMechanism(f"Unsupported SASL mechanism {chosen!r:.100}")
            return self._fail(connection, error, b"".join(pieces))  # type: ignore[arg-type]
        if self._before is not None and chosen != self._mechanism:
            # as in Kafka the client learns of it with its first token
            self._bad_mechanism = (
                f"SASL mechanism '{chosen}' requested by client is not supported "
                f"for re-authentication of mechanism '{self._mechanism}'"
            )
        else:
            self._mechanism = chosen
            self._max_reauth_ms = offers[chosen].max_reauth_ms
            self._exchange = offers[chosen].begin(connection.session)
        self._state = _State.AUTHENTICATE if version else _State.RAW_TOKENS
        return pieces

    def _authenticate(self, connection: Connection, token: bytes, version: int, correlation_id: int) -> Reply:
        try:
            answer, lifetime_ms = self._judge(connection, token)
        except SaslAuthenticationFailed as error:
            words = self._words_for(error)
            refused = SaslAuthenticateResponse(error_code=error.code, error_message=words, auth_bytes=b"")
            pieces = encode_response(ApiKey.SASL_AUTHENTICATE, version, correlation_id, refused)
            return self._fail(connection, error, b"".join(pieces))  # type: ignore[arg-type]
        response = SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=answer, session_lifetime_ms=lifetime_ms
        )
        return encode_response(ApiKey.SASL_AUTHENTICATE, version, correlation_id, response)

    def _raw(self, connection: Connection, token: bytes) -> Reply:
        try:
            answer, _ = self._judge(connection, token)
        except SaslAuthenticationFailed as error:
            return self._fail(connection, error)
        return len(answer).to_bytes(4, "big") + answer

    def _judge(self, connection: Connection, token: bytes) -> tuple[bytes, int]:
        """The answer to a token, and how long the session lasts once it has begun; 0 for no end."""
        if self._exchange is None:
            raise SaslAuthenticationFailed(self._bad_mechanism)
        answer = self._exchange.respond(token)
        proved = self._exchange.authenticated
        return answer, 0 if proved is None else self._let_in(connection, proved)

    def _words_for(self, error: SaslAuthenticationFailed) -> str:
        """What the client is told."""
        if not isinstance(error, SaslRefused) or error.message:
            return error.message
        doing = "authentication" if self._before is None else "re-authentication"
        return f"Authentication failed during {doing} due to invalid credentials with SASL mechanism {self._mechanism}"

    # -- the end of it ----------------------------------------------------------------------

    def _let_in(self, connection: Connection, proved: Authenticated) -> int:
        rules, session = self._rules, connection.session
        principal = f"User:{proved.name}"
        if self._before is not None and principal != self._before:
            was, now = self._before.replace(":", ".", 1), principal.replace(":", ".", 1)
            raise SaslAuthenticationFailed(f"Cannot change principals during re-authentication from {was}: {now}")
        session.principal = principal
        session.token_authenticated = proved.token_authenticated
        rules.admit(session)
        rules.succeeded[self._mechanism] += 1
        rules.tell(session, self._mechanism, None, "" if self._before is None else "again")
        rules.lobby.leave(connection)
        self._exchange = None
        connection.max_frame = self._max_frame
        connection.meter = self._meter
        lifetimes = [] if proved.expires_at_ms is None else [max(0, proved.expires_at_ms - rules.clock.now_ms())]
        if self._max_reauth_ms > 0:
            lifetimes.append(self._max_reauth_ms)
        if not lifetimes:
            connection.receiver = self._dispatcher
            return 0
        ends_ms = rules.clock.monotonic_ms() + min(lifetimes)
        connection.receiver = Expiring(self, self._dispatcher, rules.clock, ends_ms)
        return min(lifetimes)

    def _fail(self, connection: Connection, error: KafkaError, answer: bytes | None = None) -> Reply:
        """Answer late, or not at all, and hang up."""
        self._state = _State.OVER
        self._exchange = None
        self._rules.failed[self._mechanism or UNKNOWN] += 1
        session = connection.session
        reason = error.reason if isinstance(error, SaslRefused) else error.message
        logger.info(
            "failed %sauthentication of %s:%d on %s: %s",
            "" if self._before is None else "re-",
            session.client_host,
            session.client_port,
            session.listener,
            reason,
        )
        self._rules.tell(session, self._mechanism, error, reason)
        slot = connection.open_slot(exclusive=True)

        def hang_up() -> None:
            connection.refuse()
            slot.answer(None if answer is None else [answer])

        asyncio.get_running_loop().call_later(self._rules.failure_delay, hang_up)
        return PENDING


class Expiring:
    """Serves a client until its session ends, unless it logs in again before."""

    __slots__ = ("_clock", "_dispatcher", "_ends_ms", "_login")

    def __init__(self, login: SaslLogin, dispatcher: Receiver, clock: Clock, ends_ms: int) -> None:
        self._login = login
        self._dispatcher = dispatcher
        self._clock = clock
        self._ends_ms = ends_ms

    def __call__(self, connection: Connection, buffer: memoryview, start: int, end: int) -> Reply:
        """Serve one request in time."""
        if end - start >= 2 and int.from_bytes(buffer[start : start + 2], "big") == ApiKey.SASL_HANDSHAKE:
            reply = self._login.begin_again(connection, buffer, start, end)
            if reply is not None:
                return reply
        elif self._clock.monotonic_ms() > self._ends_ms:
            logger.info(
                "closing a connection of %s: its session expired without re-authentication",
                connection.session.principal,
            )
            raise SaslAuthenticationFailed("the session has ended")
        return self._dispatcher(connection, buffer, start, end)
