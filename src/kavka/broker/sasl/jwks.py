"""The public keys that bearer tokens are signed with: from a URL or a file, and again when they may have changed."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import unquote, urlsplit

from kavka.client.deadline import within
from kavka.client.http import HttpError, fetch
from kavka.model.clock import Clock
from kavka.security.jwt import MAX_KID, Jwks

logger = logging.getLogger(__name__)

MISSING_KIDS: Final = 16
MISSING_MS: Final = 60_000
"""So many ids of keys that were not there are remembered, for so long: none of them has the keys fetched again."""
BETWEEN_FETCHES_MS: Final = 1_000
"""Whoever makes up ids of keys has them fetched no more often than this."""
FETCH_SECONDS: Final = 10.0

Load = Callable[[], Awaitable[bytes]]


def from_url(url: str, trust: ssl.SSLContext | None) -> Load:
    """Fetch the keys from a server."""
    return lambda: fetch(url, trust=trust, seconds=FETCH_SECONDS)


def read_file(url: str) -> bytes:
    """The keys in a file, whose URL begins with file://; raises OSError."""
    with open(unquote(urlsplit(url).path), "rb") as file:
        return file.read()


def from_file(url: str) -> Load:
    """Read the keys from a file."""
    return lambda: asyncio.to_thread(read_file, url)


class RefreshingJwks:
    """The keys in force; a load that fails leaves them as they are."""

    def __init__(
        self,
        load: Load,
        clock: Clock,
        *,
        refresh_ms: int,
        backoff_ms: int,
        backoff_max_ms: int,
        keys: Jwks | None = None,
    ) -> None:
        self._load = load
        self._clock = clock
        self._refresh_ms = refresh_ms
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._missing: dict[str, int] = {}
        self._wanted = asyncio.Event()
        self.keys = Jwks() if keys is None else keys
        self.failures = 0
        """How many loads in a row have failed."""

    def miss(self, kid: str) -> None:
        """A token names a key that is not there: have the keys loaded again soon, unless that was tried already."""
        now_ms = self._clock.monotonic_ms()
        if len(kid) > MAX_KID or now_ms - self._missing.get(kid, -MISSING_MS) < MISSING_MS:
            return
        self._missing.pop(kid, None)
        self._missing[kid] = now_ms
        if len(self._missing) > MISSING_KIDS:
            del self._missing[next(iter(self._missing))]
        self._wanted.set()

    async def run(self) -> None:
        """Load the keys from time to time, and when one is missed, until cancelled."""
        while True:
            await self.refresh()
            await self._rest()

    async def refresh(self) -> None:
        """Load the keys once."""
        self._wanted.clear()
        try:
            keys = Jwks.parse(await self._load())
            if not keys:
                raise ValueError("it has no key that signatures can be checked with")
        except (HttpError, OSError, ValueError) as error:
            self.failures += 1
            if self.failures.bit_count() == 1:  # a server that stays away is told of less and less often
                logger.warning("refreshing the JWKS failed (%d times): %s", self.failures, error)
            return
        if self.failures:
            logger.info("JWKS refreshed again")
        self.failures = 0
        self.keys = keys
        self._missing.clear()

    async def _rest(self) -> None:
        await asyncio.sleep(BETWEEN_FETCHES_MS / 1000 if not self.failures else self._backoff_seconds())
        if self.failures:
            return
        try:
            async with within(self._refresh_ms / 1000):
                await self._wanted.wait()
        except TimeoutError:
            pass

    def _backoff_seconds(self) -> float:
        doubled = self._backoff_ms * 2 ** min(self.failures - 1, 20)
        return float(min(doubled, self._backoff_max_ms)) / 1000
