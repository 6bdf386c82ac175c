"""Who asks the registry: HTTP's log-in with the users of the node's own SASL mechanisms.

A password is tried with PLAIN and with SCRAM, whose exchange is played in memory: what a right password is, is said in
one place, and one who is not known costs as much as one who is. A bearer token is one of OAUTHBEARER. Why a log-in
failed is for the log of the node alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kavka.metadata.image.security import SecurityImage
from kavka.model.clock import Clock
from kavka.model.errors import SaslAuthenticationFailed
from kavka.net.login import Logins, Offer
from kavka.net.server import Served
from kavka.net.session import Session
from kavka.security.sasl.exchange import Authenticated, SaslRefused, SaslServer
from kavka.security.sasl.scram import Mechanism, ScramClient

logger = logging.getLogger(__name__)

NONCE_BYTES: Final = 24
LONGEST: Final = 16 * 1024
"""No header that somebody logs in with is longer."""
BEARER: Final = "OAUTHBEARER"
MECHANISM: Final = "HTTP"
"""What counts and the audit log call it."""
PASSWORDS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Refused(NamedTuple):
    """Why somebody is not let in, as they are told."""

    challenges: tuple[str, ...]
    wrong: bool
    """Whether there was something wrong, rather than nothing at all: then the connection is closed."""


class _Known(NamedTuple):
    """A header that was right, as long as nothing has changed since."""

    digest: bytes
    offers: Mapping[str, Offer]
    credentials: object
    expires_at_ms: int | None


class RegistryLogin:
    """Lets the registry's clients in: each request says who asks."""

    def __init__(self, logins: Logins, security: Callable[[], SecurityImage], clock: Clock) -> None:
        self._logins = logins
        self._security = security
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._known: dict[int, _Known] = {}
        """By session."""
        self._trying = asyncio.Lock()

    async def let_in(self, connection: Served, header: str | None) -> Refused | None:
        """Know who sends a request, by its header; None if that is somebody."""
        session = connection.session
        if header is None or len(header) > LONGEST:
            return self._refused(wrong=header is not None)
        digest = hmac.digest(self._secret, header.encode("latin-1", "replace"), hashlib.sha256)
        if self._still_known(session, digest):
            return None
        rules = self._logins
        offers, credentials = rules.offers, self._security().scram
        try:
            proved = await self._proved(session, header, offers)
        except SaslAuthenticationFailed as error:
            rules.failed[MECHANISM] += 1
            self._forget(session)
            logger.info(
                "failed authentication of %s:%d on %s: %s",
                session.client_host,
                session.client_port,
                session.listener,
                error.reason if isinstance(error, SaslRefused) else error.message,
            )
            rules.tell(session, MECHANISM, error, error.reason if isinstance(error, SaslRefused) else error.message)
            await asyncio.sleep(rules.failure_delay)
            return self._refused(wrong=True)
        rules.succeeded[MECHANISM] += 1
        rules.lobby.leave(connection)
        if session.principal != f"User:{proved.name}":
            session.principal = f"User:{proved.name}"
            rules.admit(session)
        rules.tell(session, MECHANISM, None, "")
        self._known[session.id] = _Known(digest, offers, credentials, proved.expires_at_ms)
        connection.when_closed(self, lambda: self._forget(session))
        return None

    def _forget(self, session: Session) -> None:
        self._known.pop(session.id, None)

    def _still_known(self, session: Session, digest: bytes) -> bool:
        known = self._known.get(session.id)
        return (
            known is not None
            and hmac.compare_digest(known.digest, digest)
            and known.offers is self._logins.offers
            and known.credentials is self._security().scram
            and (known.expires_at_ms is None or self._clock.now_ms() < known.expires_at_ms)
        )

    def _refused(self, *, wrong: bool) -> Refused:
        offers = self._logins.offers
        challenges = ['Basic realm="kavka", charset="UTF-8"'] if any(name in offers for name in PASSWORDS) else []
        challenges += ['Bearer realm="kavka"'] if BEARER in offers else []
        return Refused(tuple(challenges), wrong)

    async def _proved(self, session: Session, header: str, offers: Mapping[str, Offer]) -> Authenticated:
        scheme, _, said = header.partition(" ")
        if scheme.lower() == "bearer" and BEARER in offers:
            token = f"n,,\x01auth=Bearer {said.strip()}\x01\x01".encode()
            return _asked_once(offers[BEARER].begin(session), token)
        if scheme.lower() != "basic":
            raise SaslRefused("the Authorization header has no scheme that is offered")
        name, password = read_basic(said.strip())
        reasons = []
        async with self._trying:  # one at a time: a crowd that guesses takes no more than one thread
            for mechanism in (each for each in PASSWORDS if each in offers):
                exchange = offers[mechanism].begin(session)
                try:
                    if mechanism == "PLAIN":
                        return _asked_once(exchange, f"\0{name}\0{password}".encode())
                    return await _played(exchange, Mechanism[mechanism.replace("-", "_")], name, password)
                except SaslAuthenticationFailed as error:
                    reasons.append(error.reason if isinstance(error, SaslRefused) else error.message)
        raise SaslRefused("; ".join(reasons) or "no mechanism with passwords is offered")


def read_basic(said: str) -> tuple[str, str]:
    """Name and password of a Basic header (RFC 7617); raises SaslRefused."""
    try:
        name, colon, password = b64decode(said, validate=True).decode().partition(":")
    except ValueError:
        raise SaslRefused("the Authorization header is not Basic's") from None
    if not colon or "\0" in name or "\0" in password:
        raise SaslRefused("the Authorization header has no name and password")
    return name, password


def _asked_once(exchange: SaslServer, token: bytes) -> Authenticated:
    exchange.respond(token)
    if exchange.authenticated is None:
        exchange.respond(b"\x01")  # ends an exchange that told of an error, and raises why
    assert exchange.authenticated is not None
    return exchange.authenticated


async def _played(exchange: SaslServer, mechanism: Mechanism, name: str, password: str) -> Authenticated:
    client = ScramClient(mechanism, name, password, secrets.token_urlsafe(NONCE_BYTES))
    challenge = exchange.respond(client.begin())
    # What a password costs is in here, and is meant to be much.
    proof = await asyncio.get_running_loop().run_in_executor(None, client.respond, challenge)
    assert proof is not None
    exchange.respond(proof)
    assert exchange.authenticated is not None
    return exchange.authenticated
