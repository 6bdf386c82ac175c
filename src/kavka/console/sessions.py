"""Who looks at the console: sessions, their principals, and the tokens that forms must bring back.

Where the cluster has nobody log in, all browsers share one seat and cost no memory. Otherwise a session has a seat of
its own, connected with the credentials that were given at the sign-in; they are kept in memory only.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from kavka.client.registry import SchemaRegistry
from kavka.console.settings import ConsoleSettings
from kavka.console.values import Values
from kavka.console.watching import Watch
from kavka.model.errors import KafkaError, NetworkException, SaslAuthenticationFailed
from kavka.model.settings import SettingError

logger = logging.getLogger(__name__)

MOST_SESSIONS: Final = 100
IDLE_SECONDS: Final = 1800.0
LONGEST_SECONDS: Final = 12 * 3600.0
SIGN_IN_SECONDS: Final = 10.0
MOST_FAILURES: Final = 10
FAILURE_SECONDS: Final = 60.0
MOST_HOSTS: Final = 1000
MOST_TAILS: Final = 8
TICK_SECONDS: Final = 0.25


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    """Do something whose failure must not end the console."""
    try:
        await work
    except Exception:
        logger.exception("looking at the cluster failed")


class SignInError(Exception):
    """Why somebody cannot come in, in words for them."""


class NoAnswerError(SignInError):
    """The cluster has not said whether the credentials are good."""


class Seat:
    """One principal at the cluster, and what is seen from there."""

    def __init__(
        self, user: str | None, cluster: str, pages: tuple[str, ...] = (), registry: SchemaRegistry | None = None
    ) -> None:
        self.user = user
        self.cluster = cluster
        self.values = None if registry is None else Values(registry)
        """Reads records by their schemas, where there is a registry."""
        self.watch = Watch(cluster, pages)
        self.tails = 0
        """How many live tails it has open."""
        self.began = self.used = time.monotonic()

    async def close(self) -> None:
        """Hang up."""
        await self.watch.close()
        if self.values is not None:
            self.values.close()

    def over(self, now: float) -> bool:
        """Whether it is time to sign in again."""
        return now - self.used > IDLE_SECONDS or now - self.began > LONGEST_SECONDS


class Sessions:
    """All sessions of a console."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._key = secrets.token_bytes(32)
        self._seats: OrderedDict[str, Seat] = OrderedDict()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._pages = (settings.metrics,) if settings.metrics else ()
        self._shared: Seat | None = None

    def new_id(self) -> str:
        """An id for a browser's cookie."""
        return secrets.token_urlsafe(24)

    def token(self, id_: str) -> str:
        """What a form of this browser must bring back."""
        return hmac.new(self._key, id_.encode(), hashlib.sha256).hexdigest()

    def genuine(self, id_: str, token: str) -> bool:
        """Whether a form was made for this browser."""
        return hmac.compare_digest(self.token(id_).encode(), token.encode())

    def seat(self, id_: str | None, *, automatic: bool = False) -> Seat | None:
        """The seat of a browser; None if somebody has to sign in first. What is `automatic` is not somebody's visit."""
        if not self._settings.signs_in:
            if self._shared is None:
                self._shared = Seat(None, self._settings.cluster(), self._pages, self._settings.schemas())
            return self._shared
        seat = self._seats.get(id_ or "")
        if seat is None or id_ is None or seat.over(time.monotonic()):
            return None
        if not automatic:
            seat.used = time.monotonic()
            self._seats.move_to_end(id_)
        return seat

    async def sign_in(self, user: str, password: str, mechanism: str, host: str) -> str:
        """Connect with credentials; the id of the new session; raises SignInError."""
        failures = self._failures_of(host)
        if len(failures) >= MOST_FAILURES:
            raise SignInError("too many failed attempts from your address: wait a minute")
        if mechanism not in self._settings.offered:
            raise SignInError(f"{mechanism or 'nothing'} is not a mechanism of this cluster's listener")
        credentials = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
        attempt = time.monotonic()
        failures.append(attempt)  # until it is known to be none: many at once are many
        try:
            seat = await self._connected(user, credentials)
        except NoAnswerError:
            self._take_back(failures, attempt)
            raise
        self._take_back(failures, attempt)
        while len(self._seats) >= MOST_SESSIONS:
            _, oldest = self._seats.popitem(last=False)
            await oldest.close()
        id_ = self.new_id()
        self._seats[id_] = seat
        return id_

    def _take_back(self, failures: deque[float], attempt: float) -> None:
        if attempt in failures:  # it may have been long ago
            failures.remove(attempt)

    async def _connected(self, user: str, credentials: Mapping[str, str]) -> Seat:
        try:
            registry = self._settings.schemas((user, credentials["sasl.password"]))
            seat = Seat(user, self._settings.cluster(credentials), self._pages, registry)
        except (SettingError, ValueError) as error:
            raise SignInError(str(error)) from None
        try:
            async with asyncio.timeout(SIGN_IN_SECONDS):
                await seat.watch.pool.any()
        except TimeoutError:
            await seat.close()
            raise NoAnswerError("the cluster does not answer") from None
        except SaslAuthenticationFailed:
            await seat.close()
            raise SignInError("the cluster knows nobody by this name and password") from None
        except (NetworkException, OSError) as error:
            await seat.close()
            raise NoAnswerError(str(error) or "the cluster does not answer") from None
        except KafkaError as error:
            await seat.close()
            raise SignInError(str(error) or "the cluster refuses") from None
        return seat

    async def sign_out(self, id_: str) -> None:
        """Forget a session and its credentials."""
        seat = self._seats.pop(id_, None)
        if seat is not None:
            await seat.close()

    def _failures_of(self, host: str) -> deque[float]:
        failures = self._failures.setdefault(host, deque())
        self._failures.move_to_end(host)
        while len(self._failures) > MOST_HOSTS:
            self._failures.popitem(last=False)
        while failures and time.monotonic() - failures[0] > FAILURE_SECONDS:
            failures.popleft()
        return failures

    async def run(self) -> None:
        """Look at the cluster for whoever is looking, until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                seats = [*self._seats.values()] + ([self._shared] if self._shared is not None else [])
                for seat in seats:
                    look, examine = seat.watch.due(loop.time())
                    if look:
                        tasks.create_task(_logged(seat.watch.look_now()))
                    if examine:
                        tasks.create_task(_logged(seat.watch.examine_now()))
                for id_ in [id_ for id_, seat in self._seats.items() if seat.over(time.monotonic())]:
                    await self.sign_out(id_)
                await asyncio.sleep(TICK_SECONDS)

    async def close(self) -> None:
        """Hang up everywhere."""
        for id_ in list(self._seats):
            await self.sign_out(id_)
        if self._shared is not None:
            await self._shared.close()
