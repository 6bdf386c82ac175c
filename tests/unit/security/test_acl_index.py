"""The ACLs in force, by resource."""

from __future__ import annotations

import random

import pytest

from kavka.security.acl import Acl, Acls, Operation, PatternType, PermissionType, ResourceType


def acl(principal: str, pattern: PatternType = PatternType.LITERAL) -> Acl:
    return Acl(ResourceType.TOPIC, "t", pattern, Operation.READ, principal, "*", PermissionType.ALLOW)


def test_rules_are_kept_once_in_the_order_of_kafka_and_found_again() -> None:
    wanted = [acl(f"User:{number}") for number in range(200)] + [acl("User:p", PatternType.PREFIXED)]
    shuffled = random.Random(5).sample(wanted, len(wanted))
    acls = Acls(shuffled + shuffled)
    assert list(acls) == sorted(wanted[:-1]) + wanted[-1:]
    assert all(one in acls for one in wanted)
    assert acl("User:200") not in acls
    for one in shuffled:
        acls.remove(one)
        assert one not in acls
    assert len(acls) == 0
    with pytest.raises(KeyError):
        acls.remove(wanted[0])
