"""Creating and deleting ACLs."""

from __future__ import annotations

import pytest

from kavka.controller.results import MAX_RECORDS
from kavka.metadata.access import AccessRules
from kavka.model.errors import InvalidRequest
from kavka.security.acl import Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType

READ = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, Operation.READ, "User:alice", "*", PermissionType.ALLOW)
ALL = AclFilter(ResourceType.ANY, None, PatternType.ANY, Operation.ANY, None, None, PermissionType.ANY)


def in_force(ledger):
    rules = AccessRules()
    rules.follow(ledger.image)
    return set(rules.acls)


def test_a_rule_is_in_force_once_it_is_created_and_no_longer_once_it_is_deleted(ledgers):
    ledger = ledgers()
    assert ledger.create_acls([READ]) == [None]
    assert in_force(ledger) == {READ}
    assert ledger.delete_acls([ALL]) == [[READ]]
    assert in_force(ledger) == set()


def test_a_rule_that_is_in_force_is_not_written_again(ledgers):
    ledger = ledgers()
    assert ledger.create_acls([READ, READ]) == [None, None]
    written = len(ledger.log)
    assert ledger.create_acls([READ]) == [None]
    assert len(ledger.log) == written
    assert len(ledger.image.security.acls) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": ResourceType.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"pattern_type": 9}, "Invalid patternType UNKNOWN"),
        ({"operation": Operation.ANY}, "Invalid operation ANY"),
        ({"operation": 77}, "Invalid operation UNKNOWN"),
        ({"permission_type": PermissionType.ANY}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"principal": "alice"}, "Could not parse principal from `alice`"),
    ],
)
def test_a_rule_that_would_mean_nothing_is_refused_alone(ledgers, change, message):
    ledger = ledgers()
    refused, created = ledger.create_acls([READ._replace(**change), READ])
    assert isinstance(refused, InvalidRequest)
    assert message in str(refused)
    assert created is None
    assert in_force(ledger) == {READ}


def test_each_filter_says_what_it_meant_even_if_another_meant_it_too(ledgers):
    ledger = ledgers()
    write = READ._replace(operation=Operation.WRITE)
    ledger.create_acls([READ, write])
    outcomes = ledger.delete_acls([ALL._replace(operation=Operation.READ), ALL, ALL._replace(resource_type=99)])
    assert [set(outcome) if isinstance(outcome, list) else type(outcome) for outcome in outcomes] == [
        {READ},
        {READ, write},
        InvalidRequest,
    ]
    assert in_force(ledger) == set()


def test_more_rules_than_one_batch_holds_are_not_deleted_at_once(ledgers):
    ledger = ledgers()
    for first in range(0, MAX_RECORDS + 1, 5000):
        ledger.create_acls([READ._replace(resource_name=str(number)) for number in range(first, first + 5000)])
    with pytest.raises(InvalidRequest, match="Cannot remove more than"):
        ledger.delete_acls([ALL])
    assert len(in_force(ledger)) > MAX_RECORDS
