"""SASL/PLAIN (RFC 4616): a name and a password in one token."""

from __future__ import annotations

from collections.abc import Callable

from kavka.model.errors import SaslAuthenticationFailed
from kavka.security.sasl.exchange import Authenticated

CheckPassword = Callable[[str, str], bool]
"""Whether a password is a user's; compares in a time that does not depend on either."""


class PlainServer:
    """Judges one login."""

    def __init__(self, check: CheckPassword) -> None:
        self._check = check
        self.authenticated: Authenticated | None = None

    def respond(self, token: bytes) -> bytes:
        """Nothing but the end of the exchange."""
        parts = token.decode("utf-8", errors="replace").split("\0")
        if len(parts) != 3:
            raise SaslAuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}")
        asked_for, name, password = parts
        if not name:
            raise SaslAuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationFailed("Authentication failed: password not specified")
        if not self._check(name, password):
            raise SaslAuthenticationFailed("Authentication failed: Invalid username or password")
        if asked_for not in ("", name):
            raise SaslAuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.authenticated = Authenticated(name)
        return b""


class PlainClient:
    """Logs in with a password."""

    def __init__(self, name: str, password: str) -> None:
        self._token = f"\0{name}\0{password}".encode()

    def begin(self) -> bytes:
        """All there is to say."""
        return self._token

    def respond(self, challenge: bytes) -> None:
        """The server has only agreed."""
