"""Rules, the resources they concern and the filters that mean them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.security.acl import (
    OPERATIONS,
    REFUSED,
    Acl,
    AclFilter,
    Acls,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)


def acl(name: str, pattern: PatternType = PatternType.LITERAL, kind: ResourceType = ResourceType.TOPIC) -> Acl:
    return Acl(kind, name, pattern, Operation.READ, "User:alice", "*", PermissionType.ALLOW)


def names(acls: Acls, name: str, kind: ResourceType = ResourceType.TOPIC) -> list[str]:
    return [found.resource_name for found in acls.of(kind, name)]


def test_a_resource_is_concerned_by_its_name_its_prefixes_and_the_wildcard() -> None:
    acls = Acls(
        [
            acl("orders"),
            acl("ord"),
            acl("ord", PatternType.PREFIXED),
            acl("o", PatternType.PREFIXED),
            acl("x", PatternType.PREFIXED),
            acl("*"),
            acl("orders", kind=ResourceType.GROUP),
        ]
    )
    assert sorted(names(acls, "orders")) == ["*", "o", "ord", "orders"]
    assert sorted(names(acls, "ord")) == ["*", "o", "ord", "ord"]
    assert names(acls, "else") == ["*"]
    assert names(acls, "orders", ResourceType.GROUP) == ["orders"]
    assert len(acls) == len(list(acls)) == 7


def test_a_rule_given_twice_is_one() -> None:
    assert len(Acls([acl("a"), acl("a")])) == 1


RULES = st.builds(
    acl, st.sampled_from(["*", "a", "ab", "abc"]), st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED])
)


@given(st.lists(RULES), st.lists(RULES))
def test_rules_that_end_leave_no_trace(stay: list[Acl], go: list[Acl]) -> None:
    acls = Acls([*stay, *go])
    for rule in set(go) - set(stay):
        acls.remove(rule)
    assert set(acls) == set(stay)
    for name in ("a", "abcd", "*"):
        assert set(acls.of(ResourceType.TOPIC, name)) == set(Acls(stay).of(ResourceType.TOPIC, name))


@pytest.mark.parametrize(
    ("asked", "pattern", "meant"),
    [
        (None, PatternType.ANY, ["*", "or", "orders"]),
        ("orders", PatternType.LITERAL, ["orders"]),
        ("or", PatternType.PREFIXED, ["or"]),
        ("orders", PatternType.MATCH, ["*", "or", "orders"]),
        ("or", PatternType.ANY, ["or"]),
        ("else", PatternType.MATCH, ["*"]),
    ],
)
def test_a_filter_means_patterns_or_what_they_match(asked: str | None, pattern: PatternType, meant: list[str]) -> None:
    wanted = AclFilter(ResourceType.TOPIC, asked, pattern, Operation.ANY, None, None, PermissionType.ANY)
    rules = [acl("orders"), acl("*"), acl("or", PatternType.PREFIXED), acl("orders", kind=ResourceType.GROUP)]
    assert sorted(rule.resource_name for rule in rules if wanted.matches(rule)) == meant


def test_a_filter_with_numbers_that_mean_nothing_is_unknown() -> None:
    known = AclFilter(ResourceType.ANY, None, PatternType.ANY, Operation.ANY, None, None, PermissionType.ANY)
    assert not known.is_unknown
    for field in ("resource_type", "pattern_type", "operation", "permission_type"):
        for number in (0, 99):
            changed: dict[str, Any] = {field: number}
            assert known._replace(**changed).is_unknown


def test_every_kind_of_resource_has_operations_and_an_error() -> None:
    kinds = set(ResourceType) - {ResourceType.ANY}
    assert set(OPERATIONS) == set(REFUSED) == kinds
    assert ResourceType.DELEGATION_TOKEN.title == "DelegationToken"
