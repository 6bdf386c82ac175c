"""Delegation tokens: handed out, renewed, ended and swept."""

from __future__ import annotations

import pytest

from kavka.model.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidPrincipalType,
    UnsupportedVersion,
)
from kavka.security.token import token_hmac

ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
HOUR = 3_600_000
DAY = 24 * HOUR


def ledger_with_tokens(ledgers, **settings):
    return ledgers(delegation_token_secret_key="secret", **settings)


def test_a_token_is_its_owners_and_its_secret_follows_from_its_id(ledgers):
    ledger = ledger_with_tokens(ledgers)
    token = ledger.create_token(ALICE, BOB, [CAROL], -1, ledger.now_ms)
    assert (token.record.owner, token.record.requester, token.record.renewers) == (BOB, ALICE, [CAROL])
    assert token.hmac == token_hmac("secret", token.record.token_id)
    assert token.record.max_timestamp == ledger.now_ms + 7 * DAY
    assert token.record.expiration_timestamp == ledger.now_ms + DAY
    assert ledger.image.security.tokens[token.record.token_id] == token.record


def test_a_shorter_life_can_be_asked_for_and_a_longer_one_not(ledgers):
    ledger = ledger_with_tokens(ledgers)
    assert (
        ledger.create_token(ALICE, ALICE, [], HOUR, ledger.now_ms).record.expiration_timestamp == ledger.now_ms + HOUR
    )
    assert (
        ledger.create_token(ALICE, ALICE, [], 99 * DAY, ledger.now_ms).record.max_timestamp == ledger.now_ms + 7 * DAY
    )


def test_owners_and_renewers_renew_up_to_the_end_of_its_life(ledgers):
    ledger = ledger_with_tokens(ledgers)
    token = ledger.create_token(ALICE, ALICE, [BOB], 2 * DAY, ledger.now_ms)
    ledger.now_ms += 20 * HOUR
    assert ledger.renew_token(BOB, token.hmac, HOUR, ledger.now_ms) == ledger.now_ms + HOUR
    assert ledger.renew_token(ALICE, token.hmac, -1, ledger.now_ms) == ledger.now_ms + DAY
    ledger.now_ms += 20 * HOUR
    assert ledger.renew_token(ALICE, token.hmac, -1, ledger.now_ms) == token.record.max_timestamp
    with pytest.raises(DelegationTokenOwnerMismatch):
        ledger.renew_token(CAROL, token.hmac, -1, ledger.now_ms)
    with pytest.raises(DelegationTokenNotFound):
        ledger.renew_token(ALICE, b"another", -1, ledger.now_ms)
    ledger.now_ms += 9 * HOUR
    with pytest.raises(DelegationTokenExpired):
        ledger.renew_token(ALICE, token.hmac, -1, ledger.now_ms)


def test_a_token_ends_at_once_or_at_a_time(ledgers):
    ledger = ledger_with_tokens(ledgers)
    token = ledger.create_token(ALICE, ALICE, [], -1, ledger.now_ms)
    assert ledger.expire_token(ALICE, token.hmac, HOUR, ledger.now_ms) == ledger.now_ms + HOUR
    with pytest.raises(DelegationTokenOwnerMismatch):
        ledger.expire_token(BOB, token.hmac, -1, ledger.now_ms)
    assert ledger.expire_token(ALICE, token.hmac, -1, ledger.now_ms) == ledger.now_ms
    assert not ledger.image.security.tokens


def test_what_is_over_is_swept(ledgers):
    ledger = ledger_with_tokens(ledgers)
    over = ledger.create_token(ALICE, ALICE, [], HOUR // 2, ledger.now_ms)
    stays = ledger.create_token(ALICE, ALICE, [], DAY, ledger.now_ms)
    ledger.now_ms += HOUR + 1
    for _ in range(3):
        ledger.tick(ledger.now_ms)
    assert set(ledger.image.security.tokens) == {stays.record.token_id}
    assert over.record.token_id not in ledger.image.security.tokens


def test_tokens_need_a_secret_a_version_and_users(ledgers):
    with pytest.raises(DelegationTokenAuthDisabled):
        ledgers().create_token(ALICE, ALICE, [], -1, 0)
    with pytest.raises(UnsupportedVersion):
        ledger_with_tokens(ledgers, metadata_version=13).create_token(ALICE, ALICE, [], -1, 0)
    with pytest.raises(InvalidPrincipalType):
        ledger_with_tokens(ledgers).create_token(ALICE, ALICE, ["Group:x"], -1, 0)
