"""What rules allow. The random comparison with Kafka's own authorizer is in tests/compat/jvm."""

from __future__ import annotations

import pytest

from kavka.security.acl import Acl, Acls, Operation, PatternType, PermissionType, ResourceType
from kavka.security.authorizer import Authorizer

ALICE, HERE = "User:alice", "127.0.0.1"


def rule(
    operation: Operation,
    permission: PermissionType = PermissionType.ALLOW,
    name: str = "orders",
    pattern: PatternType = PatternType.LITERAL,
    principal: str = ALICE,
    host: str = "*",
) -> Acl:
    return Acl(ResourceType.TOPIC, name, pattern, operation, principal, host, permission)


def allowed(rules: list[Acl], operation: Operation, authorizer: Authorizer | None = None, name: str = "orders") -> bool:
    decider = authorizer or Authorizer()
    return decider.decide(Acls(rules), ALICE, HERE, operation, ResourceType.TOPIC, name).allowed


@pytest.mark.parametrize("granted", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL])
def test_who_may_do_something_with_a_topic_may_see_it(granted: Operation) -> None:
    assert allowed([rule(granted)], Operation.DESCRIBE)


def test_what_is_contained_is_not_denied_with_what_contains_it() -> None:
    rules = [rule(Operation.READ, PermissionType.DENY), rule(Operation.DESCRIBE)]
    assert allowed(rules, Operation.DESCRIBE)
    assert not allowed(rules, Operation.READ)


def test_who_may_change_settings_may_see_them() -> None:
    assert allowed([rule(Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS)
    assert not allowed([rule(Operation.ALTER)], Operation.DESCRIBE_CONFIGS)


def test_a_rule_that_denies_wins_over_all_that_allow() -> None:
    rules = [rule(Operation.ALL), rule(Operation.READ, PermissionType.DENY, "*", principal="User:*")]
    assert not allowed(rules, Operation.READ)
    assert allowed(rules, Operation.WRITE)


def test_a_resource_without_rules_is_open_only_where_the_settings_say_so() -> None:
    assert not allowed([], Operation.READ)
    assert allowed([], Operation.READ, Authorizer(allow_everyone_if_no_acl_found=True))
    another = rule(Operation.READ, principal="User:bob")
    assert not allowed([another], Operation.READ, Authorizer(allow_everyone_if_no_acl_found=True))


def test_super_users_are_not_denied() -> None:
    assert allowed([rule(Operation.ALL, PermissionType.DENY)], Operation.READ, Authorizer(super_users=[ALICE]))


def test_hosts_and_principals_match_exactly_or_by_the_wildcard() -> None:
    assert not allowed([rule(Operation.READ, host="127.0.0.2")], Operation.READ)
    assert allowed([rule(Operation.READ, host=HERE)], Operation.READ)
    assert not allowed([rule(Operation.READ, principal="Group:alice")], Operation.READ)
    assert not allowed([rule(Operation.READ, principal="User:ali*")], Operation.READ)


def test_any_resource_will_do_unless_a_rule_denies_all_that_another_allows() -> None:
    def any_topic(*rules: Acl) -> bool:
        return Authorizer().decide_any(Acls(rules), ALICE, HERE, Operation.WRITE, ResourceType.TOPIC).allowed

    assert any_topic(rule(Operation.WRITE))
    assert any_topic(rule(Operation.WRITE, name="or", pattern=PatternType.PREFIXED))
    assert not any_topic(rule(Operation.READ))
    assert not any_topic(rule(Operation.WRITE), rule(Operation.WRITE, PermissionType.DENY))
    assert not any_topic(rule(Operation.WRITE), rule(Operation.WRITE, PermissionType.DENY, "ord", PatternType.PREFIXED))
    assert not any_topic(rule(Operation.WRITE), rule(Operation.WRITE, PermissionType.DENY, "*"))


def test_a_decision_names_its_rule() -> None:
    decision = Authorizer().decide(
        Acls([rule(Operation.READ)]), ALICE, HERE, Operation.READ, ResourceType.TOPIC, "orders"
    )
    assert decision.reason == (
        "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=orders, patternType=LITERAL, "
        "principal=User:alice, host=*, operation=READ, permissionType=ALLOW))"
    )
