"""Soft state of the controller: what it does from time to time without being asked, and when next."""

from __future__ import annotations

from typing import Any

from kavka.controller.elections import MAX_ELECTIONS, Elections
from kavka.controller.tokens import SWEPT_AT_ONCE, Tokens
from kavka.metadata.image import MetadataImage
from kavka.model.settings import (
    AUTO_LEADER_REBALANCE_ENABLE,
    LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS,
    UNCLEAN_LEADER_ELECTION_INTERVAL_MS,
    Values,
)
from kavka.model.settings.security import DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS


class Periodic:
    """The controller's appointments; they count from when it became active."""

    def __init__(self, static: Values, elections: Elections, tokens: Tokens) -> None:
        self._elections = elections
        self._tokens = tokens
        self._sweep_ms = static[DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS]
        self._sweep_at = 0
        self._unclean_ms = static[UNCLEAN_LEADER_ELECTION_INTERVAL_MS]
        self._rebalance_ms: int | None = None
        if static[AUTO_LEADER_REBALANCE_ENABLE]:
            self._rebalance_ms = static[LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS] * 1000
        self._takeover = False
        self._active_at = 0
        self._unclean_at = 0
        self._rebalance_at: int | None = None

    def activate(self, now_ms: int) -> None:
        """Start counting."""
        self._takeover = True
        self._active_at = now_ms
        self._unclean_at = now_ms + self._unclean_ms
        self._sweep_at = now_ms + self._sweep_ms
        self._rebalance_at = None if self._rebalance_ms is None else now_ms + self._rebalance_ms

    def next_deadline_ms(self) -> int:
        """The next appointment."""
        if self._takeover:
            return self._active_at
        first = min(self._unclean_at, self._sweep_at)
        return first if self._rebalance_at is None else min(first, self._rebalance_at)

    def run(self, image: MetadataImage, now_ms: int) -> tuple[Any, ...]:
        """The records of the first appointment that is due and has any; what is too much for once stays due."""
        if self._takeover:
            self._takeover = False
            if records := self._elections.elect_leaderless(image):
                return records
        if now_ms >= self._unclean_at:
            records = self._elections.elect_uncleanly(image)
            if len(records) < MAX_ELECTIONS:
                self._unclean_at = now_ms + self._unclean_ms
            if records:
                return records
        if now_ms >= self._sweep_at:
            removed = self._tokens.sweep(image, now_ms)
            if len(removed) < SWEPT_AT_ONCE:
                self._sweep_at = now_ms + self._sweep_ms
            if removed:
                return removed
        if self._rebalance_at is not None and self._rebalance_ms is not None and now_ms >= self._rebalance_at:
            records = self._elections.rebalance(image)
            if len(records) < MAX_ELECTIONS:
                self._rebalance_at = now_ms + self._rebalance_ms
            return records
        return ()
