"""Setting and removing SCRAM credentials."""

from __future__ import annotations

import pytest

from kavka.controller.scram import Deletion, Upsertion
from kavka.model.errors import (
    DuplicateResource,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from kavka.security.sasl.scram import Credential, Mechanism

ALICE = Upsertion("alice", Mechanism.SCRAM_SHA_256, 4096, b"salt", b"salted")


def test_the_log_keeps_what_a_login_is_judged_by_and_not_the_password(ledgers):
    ledger = ledgers()
    assert ledger.alter_scram_credentials([], [ALICE]) == {"alice": None}
    record = ledger.image.security.scram["alice", Mechanism.SCRAM_SHA_256]
    made = Credential.of_salted(Mechanism.SCRAM_SHA_256, b"salted", b"salt", 4096)
    assert (record.stored_key, record.server_key, record.iterations) == (made.stored_key, made.server_key, 4096)
    assert b"salted" not in (record.stored_key, record.server_key)
    assert "salted" not in repr(ALICE)


def test_a_credential_goes_by_its_mechanism(ledgers):
    ledger = ledgers()
    ledger.alter_scram_credentials([], [ALICE])
    outcome = ledger.alter_scram_credentials([Deletion("alice", Mechanism.SCRAM_SHA_512)], [])
    assert isinstance(outcome["alice"], ResourceNotFound)
    assert ledger.alter_scram_credentials([Deletion("alice", Mechanism.SCRAM_SHA_256)], []) == {"alice": None}
    assert not ledger.image.security.scram


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"name": ""}, UnacceptableCredential),
        ({"mechanism": 0}, UnsupportedSaslMechanism),
        ({"mechanism": 3}, UnsupportedSaslMechanism),
        ({"iterations": 4095}, UnacceptableCredential),
        ({"iterations": 16385}, UnacceptableCredential),
    ],
)
def test_what_breaks_a_rule_is_refused_alone(ledgers, change, error):
    ledger = ledgers()
    bad = ALICE._replace(**{"name": "bad", **change})
    outcomes = ledger.alter_scram_credentials([], [bad, ALICE])
    assert isinstance(outcomes[bad.name], error)
    assert outcomes["alice"] is None
    assert len(ledger.image.security.scram) == 1


def test_nobody_is_altered_twice_in_one_request(ledgers):
    ledger = ledgers()
    outcomes = ledger.alter_scram_credentials([], [ALICE, ALICE._replace(mechanism=2), ALICE])
    assert isinstance(outcomes["alice"], DuplicateResource)
    assert not ledger.image.security.scram


def test_an_old_metadata_version_has_no_place_for_credentials(ledgers):
    outcomes = ledgers(metadata_version=10).alter_scram_credentials([], [ALICE])
    assert isinstance(outcomes["alice"], UnsupportedVersion)
