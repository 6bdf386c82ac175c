"""What each client has used of its quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kavka.security.quota.limits import NO_LIMITS, Bucket, Client, QuotaType, limit_of, limit_of_bucket
from kavka.security.quota.rate import Rate, TokenBucket, Windows

IDLE_MS: Final = 3_600_000
"""After so long without use it is forgotten what was used."""
REMEMBERED: Final = 10_000
"""How many clients are known at a time without being looked up again: their ids come from themselves."""

Limits = Mapping[QuotaType, Mapping[Client, float]]


class Allowance(NamedTuple):
    """What one client is held against; None where nothing limits it."""

    produce: Rate | None
    fetch: Rate | None
    request: Rate | None
    mutation: TokenBucket | None


class ClientQuotas:
    """The buckets of all clients; a change of the limits keeps what was used."""

    def __init__(self, windows: Windows, mutation_windows: Windows) -> None:
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._limits: Limits = {}
        self._rates: dict[tuple[QuotaType, Bucket], Rate] = {}
        self._tokens: dict[Bucket, TokenBucket] = {}
        self.known: dict[tuple[str, str], Allowance | None] = {}
        """What is remembered of clients, by principal and client id."""

    def __len__(self) -> int:
        return len(self._rates) + len(self._tokens)

    @property
    def window_ms(self) -> int:
        """How long one window of a rate is."""
        return self._windows.length_ms

    def limit(self, limits: Limits) -> None:
        """Put other limits in force."""
        self._limits = limits
        self.known.clear()
        for kind, bucket in list(self._rates):
            bound = limit_of_bucket(limits.get(kind, NO_LIMITS), bucket)
            if bound is None:
                del self._rates[kind, bucket]
            else:
                self._rates[kind, bucket].bound = bound
        for bucket in list(self._tokens):
            bound = limit_of_bucket(limits.get(QuotaType.MUTATION, NO_LIMITS), bucket)
            if bound is None:
                del self._tokens[bucket]
            else:
                self._tokens[bucket].bound = bound

    def of(self, principal: str, client_id: str, now_ms: int) -> Allowance | None:
        """What a client is held against; None if nothing limits it."""
        try:
            return self.known[principal, client_id]
        except KeyError:
            pass
        user = principal.partition(":")[2]
        if len(self.known) >= REMEMBERED:
            self.known.clear()
        found = Allowance(
            self._rate(QuotaType.PRODUCE, user, client_id, now_ms),
            self._rate(QuotaType.FETCH, user, client_id, now_ms),
            self._rate(QuotaType.REQUEST, user, client_id, now_ms),
            self._bucket(user, client_id, now_ms),
        )
        allowance = None if found == (None, None, None, None) else found
        self.known[principal, client_id] = allowance
        return allowance

    def _rate(self, kind: QuotaType, user: str, client_id: str, now_ms: int) -> Rate | None:
        found = limit_of(self._limits.get(kind, NO_LIMITS), user, client_id)
        if found is None:
            return None
        bucket, bound = found
        rate = self._rates.get((kind, bucket))
        if rate is None:
            rate = self._rates[kind, bucket] = Rate(bound, self._windows, now_ms)
        return rate

    def _bucket(self, user: str, client_id: str, now_ms: int) -> TokenBucket | None:
        found = limit_of(self._limits.get(QuotaType.MUTATION, NO_LIMITS), user, client_id)
        if found is None:
            return None
        bucket, bound = found
        tokens = self._tokens.get(bucket)
        if tokens is None:
            tokens = self._tokens[bucket] = TokenBucket(bound, self._mutation_windows, now_ms)
        return tokens

    def forget_idle(self, now_ms: int) -> None:
        """Forget what nobody has used for long."""
        idle = now_ms - IDLE_MS
        rates = [key for key, rate in self._rates.items() if rate.used_ms <= idle]
        tokens = [key for key, bucket in self._tokens.items() if bucket.used_ms <= idle]
        for key in rates:
            del self._rates[key]
        for bucket in tokens:
            del self._tokens[bucket]
        if rates or tokens:
            self.known.clear()  # it holds them
