"""SASL/OAUTHBEARER (RFC 7628): a bearer token in one message; what the token is worth is judged elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kavka.model.errors import SaslAuthenticationFailed
from kavka.security.sasl.exchange import Authenticated, SaslRefused

MECHANISM: Final = "OAUTHBEARER"
AUTH: Final = "auth"
SEPARATOR: Final = "\x01"
INVALID_TOKEN: Final = '{"status":"invalid_token"}'
"""All that a client is told of a token that is not good: which rule it broke is for the node's own log."""

_SASL_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_KEY: Final = r"[A-Za-z]+"
_VALUE: Final = r"[\x21-\x7E \t\r\n]+"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01")
_BEARER: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_EXTENSION: Final = re.compile(_KEY)
_EXTENSION_VALUE: Final = re.compile(_VALUE)


class InvalidTokenError(Exception):
    """A token that is not good; says why, and nothing of the token itself."""


Judge = Callable[[str], Authenticated]
"""Who a token is for, and until when; raises InvalidTokenError."""


class OAuthBearerServer:
    """Judges one login."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._invalid: str | None = None
        self.authenticated: Authenticated | None = None

    def respond(self, token: bytes) -> bytes:
        """Nothing but the end of the exchange; or an error, after which the client has one more message to send."""
        if self.authenticated is not None:
            raise SaslRefused("a token came after the login")
        if self._invalid is not None:
            if token == SEPARATOR.encode():
                raise SaslRefused(self._invalid, told=INVALID_TOKEN)
            raise SaslRefused("the client went on after it was told that its token is not good")
        bearer, authzid = read_first(token)
        try:
            found = self._judge(bearer)
        except InvalidTokenError as error:
            self._invalid = str(error)
            return INVALID_TOKEN.encode()
        if authzid not in ("", found.name):
            raise SaslAuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({authzid}) "
                f"that is different from the token's principal name ({found.name})"
            )
        self.authenticated = found
        return b""


def read_first(message: bytes) -> tuple[str, str]:
    """The bearer token of a client's first message, and whom it asks to be taken for; raises SaslRefused."""
    found = _FIRST.fullmatch(message.decode("utf-8", errors="replace"))
    if found is None:
        raise SaslRefused("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.partition("=")[::2] for pair in found["pairs"].split(SEPARATOR) if pair)
    if AUTH not in pairs:
        raise SaslRefused("Invalid OAUTHBEARER client first message: 'auth' not specified")
    bearer = _BEARER.fullmatch(pairs[AUTH])
    if bearer is None or bearer["scheme"].lower() != "bearer":
        raise SaslRefused("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    return bearer["token"], found["authzid"] or ""


class OAuthBearerClient:
    """Logs in with a token."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        """Raises ValueError for a token or extensions that cannot be sent."""
        if _BEARER.fullmatch(f"Bearer {token}") is None:
            raise ValueError("the bearer token has characters that no such token has")
        for key, value in (extensions or {}).items():
            if key == AUTH or not (_EXTENSION.fullmatch(key) and _EXTENSION_VALUE.fullmatch(value)):
                raise ValueError(f"the extension {key!r} cannot be sent")
        pairs = "".join(f"{key}={value}{SEPARATOR}" for key, value in (extensions or {}).items())
        self._first = f"n,,{SEPARATOR}{AUTH}=Bearer {token}{SEPARATOR}{pairs}{SEPARATOR}".encode()
        self._refused = False

    def begin(self) -> bytes:
        """All there is to say."""
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        """Nothing, unless the server did not take the token: then the byte that ends the exchange."""
        if not challenge:
            return None
        if self._refused:
            raise SaslAuthenticationFailed("the server goes on after it refused the token")
        self._refused = True
        return SEPARATOR.encode()
