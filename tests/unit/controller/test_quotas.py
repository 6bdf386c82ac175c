"""Setting and removing client quotas."""

from __future__ import annotations

import pytest

from kavka.controller.quotas import Alteration
from kavka.model.errors import InvalidRequest

ALICE = (("user", "alice"),)
PRODUCE = "producer_byte_rate"


def values(ledger):
    return {key: record.value for key, record in ledger.image.security.quotas.items()}


def test_a_quota_is_set_changed_and_removed(ledgers):
    ledger = ledgers()
    assert ledger.alter_client_quotas([Alteration(ALICE, [(PRODUCE, 1000.0)])]) == [None]
    assert values(ledger) == {(ALICE, PRODUCE): 1000.0}
    written = len(ledger.log)
    ledger.alter_client_quotas([Alteration(ALICE, [(PRODUCE, 1000.0), ("consumer_byte_rate", None)])])
    assert len(ledger.log) == written
    ledger.alter_client_quotas([Alteration(ALICE, [(PRODUCE, None)])])
    assert values(ledger) == {}


def test_those_without_a_name_are_not_those_with_none(ledgers):
    ledger = ledgers()
    both = (("client-id", None), ("user", "alice"))
    ledger.alter_client_quotas(
        [Alteration((("user", None),), [(PRODUCE, 1.0)]), Alteration(tuple(reversed(both)), [(PRODUCE, 2.0)])]
    )
    assert values(ledger) == {((("user", None),), PRODUCE): 1.0, (both, PRODUCE): 2.0}


def test_the_largest_number_of_bytes_is_a_quota_as_it_is_sent(ledgers):
    largest = float((1 << 63) - 1)
    ledger = ledgers()
    assert ledger.alter_client_quotas([Alteration(ALICE, [(PRODUCE, largest)])]) == [None]
    assert values(ledger) == {(ALICE, PRODUCE): largest}


def test_what_is_only_asked_for_is_not_written(ledgers):
    ledger = ledgers()
    assert ledger.alter_client_quotas([Alteration(ALICE, [(PRODUCE, 1000.0)])], validate_only=True) == [None]
    assert values(ledger) == {}


@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        ((), [(PRODUCE, 1.0)]),
        ((("user", ""),), [(PRODUCE, 1.0)]),
        ((("group", "g"),), [(PRODUCE, 1.0)]),
        ((("user", "a"), ("user", "b")), [(PRODUCE, 1.0)]),
        ((("user", "a"), ("ip", "::1")), [(PRODUCE, 1.0)]),
        ((("ip", "no-address"),), [("connection_creation_rate", 1.0)]),
        ((("ip", "::1"),), [(PRODUCE, 1.0)]),
        (ALICE, [("connection_creation_rate", 1.0)]),
        (ALICE, [(PRODUCE, 0.0)]),
        (ALICE, [(PRODUCE, -5.0)]),
        (ALICE, [(PRODUCE, float("nan"))]),
        (ALICE, [(PRODUCE, 1.5)]),
        (ALICE, [(PRODUCE, 1e30)]),
        (ALICE, [(PRODUCE, 1.0), (PRODUCE, 2.0)]),
        ((("ip", "::1"),), [("connection_creation_rate", 2.0**31)]),
    ],
)
def test_what_means_nothing_is_refused_alone(ledgers, entity, ops):
    ledger = ledgers()
    bob = Alteration((("user", "bob"),), [("request_percentage", 12.5)])
    refused, done = ledger.alter_client_quotas([Alteration(entity, ops), bob])
    assert isinstance(refused, InvalidRequest)
    assert done is None
    assert set(values(ledger)) == {((("user", "bob"),), "request_percentage")}


def test_the_name_of_a_host_is_kept_as_it_is(ledgers):
    ledger = ledgers()
    rate = [("connection_creation_rate", 1.0)]
    first, second = ledger.alter_client_quotas(
        [Alteration((("ip", name),), rate) for name in ("web", "db")], hosts={"web"}
    )
    assert first is None
    assert isinstance(second, InvalidRequest)
    assert set(values(ledger)) == {((("ip", "web"),), "connection_creation_rate")}


def test_an_entity_is_altered_once_in_a_request(ledgers):
    ledger = ledgers()
    first, second = ledger.alter_client_quotas([Alteration(ALICE, [(PRODUCE, value)]) for value in (1.0, 2.0)])
    assert first is None
    assert isinstance(second, InvalidRequest)
    assert values(ledger) == {(ALICE, PRODUCE): 1.0}
