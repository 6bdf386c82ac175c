"""Describing and altering client quotas: what a filter means, and every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.alter_client_quotas import alter_client_quotas
from kavka.broker.handlers.describe_client_quotas import describe_client_quotas
from kavka.model.errors import InvalidRequest, UnsupportedVersion
from kavka.protocol.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kavka.protocol.schemas.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

EXACT, DEFAULT, SPECIFIED = range(3)


@pytest.fixture
def alter(ask, loop):
    def call(*entries, version=1, validate_only=False):
        request = AlterClientQuotasRequest(
            entries=[
                RequestEntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
                )
                for entity, ops in entries
            ],
            validate_only=validate_only,
        )
        response = ask(alter_client_quotas, request, version, loop)
        return [row.error_code for row in response.entries]

    return call


@pytest.fixture
def describe(ask, loop):
    def call(*components, strict=False, version=1):
        request = DescribeClientQuotasRequest(
            components=[ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components],
            strict=strict,
        )
        response = ask(describe_client_quotas, request, version, loop)
        return {
            tuple((component.entity_type, component.entity_name) for component in entry.entity): {
                quota.key: quota.value for quota in entry.values
            }
            for entry in response.entries
        }

    return call


ALICE, ANYBODY, BOTH = (("user", "alice"),), (("user", None),), (("user", "alice"), ("client-id", "app"))
RATE = [("producer_byte_rate", 1000.0)]


@pytest.fixture
def set_(alter):
    assert alter((ALICE, RATE), (ANYBODY, RATE), (BOTH, [*RATE, ("request_percentage", 12.5)])) == [0, 0, 0]


@pytest.mark.parametrize("version", [0, 1])
def test_a_filter_means_what_it_names(set_, describe, version):
    everything = {ALICE: dict(RATE), ANYBODY: dict(RATE), BOTH: {**dict(RATE), "request_percentage": 12.5}}
    assert describe(version=version) == everything
    assert describe(("user", SPECIFIED, None)) == everything
    assert describe(("user", EXACT, "alice")).keys() == {ALICE, BOTH}
    assert describe(("user", EXACT, "alice"), strict=True).keys() == {ALICE}
    assert describe(("user", DEFAULT, None)).keys() == {ANYBODY}
    assert describe(("user", SPECIFIED, None), ("client-id", EXACT, "app")).keys() == {BOTH}
    assert describe(("ip", SPECIFIED, None)) == {}
    assert describe(strict=True) == {}


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", EXACT, "a")], InvalidRequest),
        ([("user", EXACT, "a"), ("user", SPECIFIED, None)], InvalidRequest),
        ([("planet", EXACT, "mars")], UnsupportedVersion),
        ([("user", EXACT, None)], InvalidRequest),
        ([("user", DEFAULT, "a")], InvalidRequest),
        ([("user", SPECIFIED, "a")], InvalidRequest),
        ([("user", 3, None)], InvalidRequest),
        ([("ip", DEFAULT, None), ("user", DEFAULT, None)], InvalidRequest),
    ],
)
def test_a_filter_that_contradicts_itself_is_refused(describe, components, error):
    with pytest.raises(error):
        describe(*components)


@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        ((), RATE),
        ((("planet", "mars"),), RATE),
        ((("user", "a"), ("user", "b")), RATE),
        ((("ip", "10.0.0.1"), ("user", "a")), [("connection_creation_rate", 1.0)]),
        ((("ip", "not an address"),), [("connection_creation_rate", 1.0)]),
        ((("ip", "10.0.0.1"),), RATE),
        (ALICE, [("connection_creation_rate", 1.0)]),
        (ALICE, [("producer_byte_rate", 0.5)]),
        (ALICE, [("producer_byte_rate", -1.0)]),
        (ALICE, [*RATE, *RATE]),
        (ALICE, [("nonsense", 1.0)]),
    ],
)
def test_what_cannot_be_limited_so_is_refused_alone(alter, describe, entity, ops):
    assert alter((entity, ops), (ANYBODY, RATE)) == [42, 0]
    assert describe() == {ANYBODY: dict(RATE)}


def test_addresses_of_both_families_have_quotas(alter, describe):
    rate = [("connection_creation_rate", 3.0)]
    entities = [(("ip", name),) for name in ("10.0.0.1", "2001:db8::1", None)]
    assert alter(*((entity, rate) for entity in entities)) == [0, 0, 0]
    assert describe(("ip", SPECIFIED, None)).keys() == set(entities)


def test_a_host_has_a_quota_by_its_name_if_somebody_knows_it(alter, describe):
    rate = [("connection_creation_rate", 3.0)]
    assert alter(((("ip", "localhost"),), rate), ((("ip", "not a host!"),), rate)) == [0, 42]
    assert describe(("ip", SPECIFIED, None)).keys() == {(("ip", "localhost"),)}


def test_what_is_only_checked_is_not_set(alter, describe):
    assert alter((ALICE, RATE), validate_only=True) == [0]
    assert describe() == {}


def test_a_removed_quota_is_gone(set_, alter, describe):
    assert alter((ALICE, [("producer_byte_rate", None)])) == [0]
    assert ALICE not in describe()
