"""SASL/GSSAPI (RFC 4752): a security context of Kerberos, and then the agreement that nothing more is wrapped in it.

The context itself is a port: what a Kerberos library has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kavka.model.errors import SaslAuthenticationFailed
from kavka.security.sasl.exchange import Authenticated, SaslRefused

NO_LAYER: Final = 1
"""The only security layer that Kafka uses: TLS has the others."""
_OFFER: Final = bytes((NO_LAYER, 0, 0, 0))


class ContextError(Exception):
    """What the library says against a token."""


class SecurityContext(Protocol):
    """One side of a context being established."""

    @property
    def complete(self) -> bool:
        """Whether it is established."""

    @property
    def peer(self) -> str:
        """Who is at the other side of an established context: a Kerberos principal."""

    def step(self, token: bytes | None) -> bytes:
        """Take in a token of the other side, None at the start, and give the next one; raises ContextError."""

    def wrap(self, message: bytes) -> bytes:
        """A message with a proof that it is ours; raises ContextError."""

    def unwrap(self, message: bytes) -> bytes:
        """The message of the other side; raises ContextError."""


class GssapiServer:
    """Judges one login."""

    def __init__(self, context: SecurityContext, local_name: Callable[[str], str | None]) -> None:
        """`local_name` is the user that a principal is, None for nobody."""
        self._context = context
        self._local_name = local_name
        self._offered = False
        self.authenticated: Authenticated | None = None

    def respond(self, token: bytes) -> bytes:
        """The next token of the context; then what layers there are; then nothing, and it is over."""
        if self.authenticated is not None:
            raise SaslRefused("a token came after the login")
        try:
            if not self._context.complete:
                answer = self._context.step(token)
                if answer or not self._context.complete:
                    return answer
                token = b""  # the context needs no token of ours: go on
            if not self._offered:
                if token:
                    raise SaslRefused("a token came that the context does not need")
                self._offered = True
                return self._context.wrap(_OFFER)
            chosen = self._context.unwrap(token)
        except ContextError as error:
            raise SaslRefused(f"Kerberos does not take the token: {error}") from None
        if len(chosen) < len(_OFFER) or chosen[0] != NO_LAYER:
            raise SaslRefused("the client wants a security layer that there is not")
        # As in Kafka, whom the client asks to be taken for does not matter: it is who the ticket says.
        name = self._local_name(self._context.peer)
        if not name:
            raise SaslRefused(f"no rule says which user {self._context.peer} is")
        self.authenticated = Authenticated(name)
        return b""


class GssapiClient:
    """Logs in with a ticket."""

    def __init__(self, context: SecurityContext) -> None:
        self._context = context
        self._chosen = False

    def begin(self) -> bytes:
        """The ticket for the service."""
        return self._step(None)

    def respond(self, challenge: bytes) -> bytes | None:
        """The next token of the context; then the choice of no layer; then nothing."""
        if not self._context.complete:
            return self._step(challenge)
        if self._chosen:
            return None
        try:
            offered = self._context.unwrap(challenge)
            if len(offered) != len(_OFFER) or not offered[0] & NO_LAYER:
                raise SaslAuthenticationFailed("the server insists on a security layer, which Kafka has none of")
            self._chosen = True
            return self._context.wrap(_OFFER)
        except ContextError as error:
            raise SaslAuthenticationFailed(f"Kerberos does not take what the server says: {error}") from None

    def _step(self, token: bytes | None) -> bytes:
        try:
            return self._context.step(token)
        except ContextError as error:
            raise SaslAuthenticationFailed(f"no Kerberos login: {error}") from None
