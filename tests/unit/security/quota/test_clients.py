"""Whose quota counts, and who shares it."""

from __future__ import annotations

import pytest

from kavka.security.quota.clients import IDLE_MS, ClientQuotas
from kavka.security.quota.limits import Client, QuotaType, limit_of
from kavka.security.quota.rate import Windows

LEVELS = [
    (("u", "c"), ("u", "c")),
    (("u", None), ("u", "c")),
    (("u", ""), ("u", "")),
    ((None, "c"), ("u", "c")),
    ((None, None), ("u", "c")),
    ((None, ""), ("u", "")),
    (("", "c"), ("", "c")),
    (("", None), ("", "c")),
]


@pytest.mark.parametrize("first", range(8))
def test_the_most_specific_of_eight_levels_counts(first):
    limits = {key: 1.0 + number for number, (key, _) in enumerate(LEVELS) if number >= first}
    assert limit_of(limits, "u", "c") == (LEVELS[first][1], 1.0 + first)


def test_others_have_the_defaults_or_nothing():
    limits: dict[Client, float] = {("u", "c"): 1.0, ("u", ""): 2.0, (None, ""): 3.0, ("", "c"): 4.0}
    assert limit_of(limits, "u", "other") == (("u", ""), 2.0)
    assert limit_of(limits, "v", "c") == (("v", ""), 3.0)
    assert limit_of({("", "c"): 4.0}, "v", "d") is None


def test_a_client_without_an_id_has_what_its_user_has():
    assert limit_of({("u", None): 1.0, ("", None): 2.0}, "u", "") is None
    assert limit_of({("u", None): 1.0, (None, ""): 2.0}, "u", "") == (("u", ""), 2.0)


@pytest.fixture
def quotas():
    return ClientQuotas(Windows(), Windows())


def test_who_shares_a_bucket(quotas):
    quotas.limit({QuotaType.PRODUCE: {("u", ""): 100.0}})
    first, second, other = (quotas.of(*client, 0) for client in (("User:u", "a"), ("User:u", "b"), ("User:v", "a")))
    assert first.produce is second.produce
    assert (first.fetch, first.request, first.mutation, other) == (None, None, None, None)


def test_a_changed_limit_keeps_what_was_used_and_a_removed_one_does_not(quotas):
    quotas.limit({QuotaType.FETCH: {("", None): 100.0}})
    quotas.of("User:u", "c", 0).fetch.record(5000, 0)
    quotas.limit({QuotaType.FETCH: {("", None): 100.0, ("", "c"): 1000.0}})
    assert quotas.of("User:u", "c", 0).fetch.throttle_ms(0) == 0
    quotas.limit({QuotaType.FETCH: {("", "c"): 100.0}})
    assert quotas.of("User:u", "c", 0).fetch.throttle_ms(0) == 40_000
    quotas.limit({})
    assert quotas.of("User:u", "c", 0) is None
    assert len(quotas) == 0


def test_what_nobody_uses_is_forgotten(quotas):
    quotas.limit({QuotaType.PRODUCE: {("", None): 100.0}, QuotaType.MUTATION: {("", None): 1.0}})
    idle, busy = quotas.of("User:u", "idle", 0), quotas.of("User:u", "busy", 0)
    busy.produce.record(1, 5)
    quotas.forget_idle(IDLE_MS)
    assert len(quotas) == 1
    assert quotas.of("User:u", "busy", IDLE_MS).produce is busy.produce
    assert quotas.of("User:u", "idle", IDLE_MS).produce is not idle.produce


def test_many_clients_are_not_all_remembered(quotas):
    quotas.limit({QuotaType.PRODUCE: {("u", "c"): 100.0}})
    kept = quotas.of("User:u", "c", 0)
    for number in range(20_001):
        assert quotas.of("User:u", f"made-up-{number}", 0) is None
    assert len(quotas.known) <= 10_001
    assert quotas.of("User:u", "c", 0).produce is kept.produce
