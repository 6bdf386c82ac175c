"""Where a client has its bearer tokens from: a function of the program, or an authorization server (RFC 6749, 4.4)."""

from __future__ import annotations

import json
import os
import ssl
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from kavka.client.http import HttpError, checked_url, fetch
from kavka.model.errors import SaslAuthenticationFailed

ALLOWED_URLS: Final = "KAVKA_SASL_OAUTHBEARER_ALLOWED_URLS"
"""The environment variable that names, with commas between, the servers that a configuration may send clients to."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token, and until when it is one."""

    value: str
    expires_at: float | None = None
    """In seconds since 1970; None for not known."""

    def __repr__(self) -> str:
        return f"BearerToken(expires_at={self.expires_at})"


TokenSource = Callable[[], Awaitable[BearerToken | str]]
"""Gives the token that the next log-in is made with."""


def allowed_urls() -> frozenset[str]:
    """What the environment of the program allows."""
    return frozenset(filter(None, (url.strip() for url in os.environ.get(ALLOWED_URLS, "").split(","))))


class ClientCredentials:
    """Tokens for a program in its own name, each used until most of its time is over."""

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str | None = None,
        trust: ssl.SSLContext | None = None,
        seconds: float = 10.0,
        window: float = 0.8,
        now: Callable[[], float] = time.time,
        allowed: frozenset[str] | None = None,
    ) -> None:
        """Raises ValueError for a URL that is not allowed, by the program or else by its environment.

        `window` is the part of a token's time after which the next one is fetched.
        """
        checked_url(url)
        if url not in (allowed_urls() if allowed is None else allowed):
            raise ValueError(f"{url} is not among the URLs that {ALLOWED_URLS} allows")
        self._url = url
        self._credentials = b64encode(f"{quote_plus(client_id)}:{quote_plus(client_secret)}".encode()).decode()
        self._body = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        self._trust = trust
        self._seconds = seconds
        self._window = window
        self._now = now
        self._token: BearerToken | None = None
        self._use_until = 0.0

    async def __call__(self) -> BearerToken:
        """The token in use, or a new one; raises SaslAuthenticationFailed."""
        if self._token is not None and self._now() < self._use_until:
            return self._token
        asked_at = self._now()
        try:
            answer = await fetch(
                self._url,
                body=urlencode(self._body).encode(),
                headers={
                    "Authorization": f"Basic {self._credentials}",
                    "Content-Type": "application/x-www-form-urlencoded",
                },
                trust=self._trust,
                seconds=self._seconds,
            )
            value, seconds = _read(json.loads(answer))
        except (HttpError, ValueError) as error:
            raise SaslAuthenticationFailed(f"no bearer token was given: {error}") from None
        expires_at = None if seconds is None else asked_at + seconds
        self._token = BearerToken(value, expires_at)
        self._use_until = asked_at + (seconds or 0.0) * self._window
        return self._token


def _read(answer: Any) -> tuple[str, float | None]:
    """The token in an answer and for how many seconds it is one; raises ValueError."""
    token = answer.get("access_token", answer.get("id_token")) if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token:
        raise ValueError("the answer has no access_token")
    seconds = answer.get("expires_in")
    return token, float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None
