"""What connections may do: decisions are remembered, forgotten when the rules change, and told to the audit log."""

from __future__ import annotations

import itertools
import logging
import random
from dataclasses import replace

import pytest
from tests.scale import rounds

from kavka.broker import gate as gate_module
from kavka.broker.context import NOT_ASKED, Context
from kavka.broker.gate import Gate, java_address
from kavka.metadata.access import acl_of
from kavka.metadata.delta import MetadataDelta, apply
from kavka.metadata.image import EMPTY
from kavka.metadata.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from kavka.model.errors import ClusterAuthorizationFailed, TopicAuthorizationFailed, UnknownServerError
from kavka.model.types import Uuid
from kavka.net.session import Session
from kavka.protocol import schema
from kavka.protocol.registry import ApiKey
from kavka.security.acl import Operation, PatternType, PermissionType, ResourceType
from kavka.security.authorizer import Authorizer

TOPIC, READ, WRITE, DESCRIBE = ResourceType.TOPIC, Operation.READ, Operation.WRITE, Operation.DESCRIBE
ID = Uuid(b"i" * 16)
RULE = AccessControlEntryRecord(
    id=ID,
    resource_type=TOPIC,
    resource_name="orders",
    pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=READ,
    permission_type=PermissionType.ALLOW,
)


class Counting(Authorizer):
    """Says how often it was asked."""

    decided = 0

    def decide(self, *asked):
        self.decided += 1
        return super().decide(*asked)


class Setup:
    def __init__(self, authorizer=None):
        self.image = EMPTY
        self.authorizer = authorizer or Counting(["User:root"])
        self.gate = Gate(self.authorizer)

    def write(self, *records):
        self.image, delta = apply(self.image, records, self.image.offset + len(records), 1)
        self.gate.apply(self.image, delta)

    def context(self, principal="User:alice"):
        session = Session(1, "PLAINTEXT", "127.0.0.1", 50_000, principal)
        session.guard = self.gate.guard(principal, session.client_host)
        return Context(ApiKey.FETCH, 13, "app", session, 0)


def test_rights_come_and_go_with_the_rules():
    setup = Setup()
    ctx = setup.context()
    assert not ctx.allows(READ, TOPIC, "orders")
    setup.write(RULE)
    assert ctx.allows(READ, TOPIC, "orders")
    assert not ctx.allows(WRITE, TOPIC, "orders")
    setup.write(RemoveAccessControlEntryRecord(id=ID))
    assert not ctx.allows(READ, TOPIC, "orders")


def test_a_decision_is_made_once_until_the_rules_change():
    setup = Setup()
    setup.write(RULE)
    ctx = setup.context()
    for _ in range(5):
        assert ctx.allows(READ, TOPIC, "orders")
    assert setup.authorizer.decided == 1
    setup.gate.apply(replace(setup.image, offset=99), MetadataDelta())
    assert ctx.allows(READ, TOPIC, "orders")
    assert setup.authorizer.decided == 1


def test_names_from_clients_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(gate_module, "REMEMBERED", 10)
    ctx = Setup().context()
    for number in range(100):
        ctx.allows(READ, TOPIC, f"name-{number}")
    assert len(ctx.session.guard._decisions) <= 10


def test_names_of_32_kilobytes_are_decided_on_and_not_remembered():
    setup = Setup()
    rule = schema.replace(RULE, resource_type=ResourceType.GROUP, resource_name="g", pattern_type=PatternType.PREFIXED)
    setup.write(rule)
    ctx = setup.context()
    for number in range(200):
        name = f"{number:03}".rjust(32_767, "g")
        assert ctx.allows(READ, ResourceType.GROUP, name)
        assert not ctx.allows(READ, ResourceType.GROUP, name[::-1], asked=False)
    assert setup.gate.remembered == len(ctx.session.guard._decisions) == 0
    assert setup.authorizer.decided == 400


def test_connections_of_one_principal_share_what_was_decided_and_all_of_them_a_bound(monkeypatch):
    setup = Setup()
    assert setup.context().session.guard is not setup.context("User:bob").session.guard
    first, second = setup.context(), setup.context()
    assert first.session.guard is second.session.guard
    first.allows(READ, TOPIC, "orders")
    second.allows(READ, TOPIC, "orders")
    assert (setup.authorizer.decided, setup.gate.remembered) == (1, 1)
    monkeypatch.setattr(gate_module, "REMEMBERED_BY_ALL", 20)
    guests = [setup.context(f"User:{number}") for number in range(10)]
    for number in range(10):
        for guest in guests:
            guest.allows(READ, TOPIC, f"name-{number}")
    held = sum(len(guest.session.guard._decisions) for guest in guests)
    assert held <= setup.gate.remembered <= 20


def test_what_went_with_a_connection_does_not_make_others_forget(monkeypatch):
    monkeypatch.setattr(gate_module, "REMEMBERED_BY_ALL", 20)
    setup = Setup()
    stays = setup.context()
    stays.allows(READ, TOPIC, "orders")
    for number in range(100):
        setup.context(f"User:{number}").allows(READ, TOPIC, "orders")  # and gone
    decided = setup.authorizer.decided
    stays.allows(READ, TOPIC, "orders")
    assert setup.authorizer.decided == decided


def test_what_is_forgotten_is_not_counted(monkeypatch):
    monkeypatch.setattr(gate_module, "REMEMBERED", 10)
    setup = Setup()
    ctx = setup.context()
    for number in range(95):
        ctx.allows(READ, TOPIC, f"name-{number}")
    assert setup.gate.remembered == len(ctx.session.guard._decisions) == 5
    setup.write(RULE)
    assert setup.gate.remembered == 0


def test_before_the_rules_are_there_only_super_users_are_let_through():
    gate = Gate(Authorizer(["User:root"], True), loaded=False)
    alice, root = gate.guard("User:alice", "127.0.0.1"), gate.guard("User:root", "127.0.0.1")
    assert alice is not None
    assert root is not None
    assert root.allows(WRITE, TOPIC, "orders", ApiKey.FETCH)
    assert root.allows_any(WRITE, TOPIC)
    for ask in (lambda: alice.allows(WRITE, TOPIC, "x", ApiKey.FETCH), lambda: alice.allows_any(WRITE, TOPIC)):
        with pytest.raises(UnknownServerError):
            ask()
    gate.apply(EMPTY, MetadataDelta())
    assert alice.allows(WRITE, TOPIC, "x", ApiKey.FETCH)


def test_what_is_denied_is_told_and_what_is_only_looked_up_is_not(caplog):
    setup = Setup()
    setup.write(RULE)
    ctx = setup.context()
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        ctx.allows(WRITE, TOPIC, "orders", asked=False)
        ctx.allows(READ, TOPIC, "orders")
        assert caplog.messages == []
        ctx.allows(WRITE, TOPIC, "orders")
    (line,) = caplog.messages
    assert line == (
        "Principal = User:alice is Denied operation = WRITE from host = 127.0.0.1 on resource = Topic:LITERAL:orders "
        "for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny"
    )


def test_what_is_allowed_is_told_to_those_who_want_all(caplog):
    with caplog.at_level(logging.DEBUG, "kafka.authorizer.logger"):
        Setup().context("User:root").allows(WRITE, TOPIC, "orders")
    assert caplog.messages[0].endswith(
        "is Allowed operation = WRITE from host = 127.0.0.1 on resource = "
        "Topic:LITERAL:orders for request = Fetch with resourceRefCount = 1 "
        "based on rule SuperUser"
    )


def test_a_missing_right_is_the_error_of_its_resource():
    ctx = Setup().context()
    with pytest.raises(TopicAuthorizationFailed):
        ctx.require(READ, TOPIC, "orders")
    with pytest.raises(ClusterAuthorizationFailed):
        ctx.require(Operation.ALTER, ResourceType.CLUSTER)


def test_items_part_into_those_that_are_allowed_and_the_others():
    setup = Setup()
    setup.write(RULE)
    assert setup.context().permitted(READ, TOPIC, ["a", "orders", "b"], str) == (["orders"], ["a", "b"])


def test_operations_are_bits():
    setup = Setup()
    setup.write(RULE)
    ctx = setup.context()
    assert ctx.operations(TOPIC, "orders") == 1 << READ | 1 << DESCRIBE
    assert ctx.operations(TOPIC, "orders", wanted=False) == NOT_ASKED
    assert ctx.operations(ResourceType.CLUSTER) == 0


def test_some_topic_is_enough_where_any_will_do():
    setup = Setup()
    ctx = setup.context()
    assert not ctx.allows_any(READ, TOPIC)
    setup.write(RULE)
    assert ctx.allows_any(READ, TOPIC)


def test_without_a_guard_everything_is_allowed():
    ctx = Context(ApiKey.FETCH, 13, "app", Session(1, "PLAINTEXT", "127.0.0.1", 50_000), 0)
    assert ctx.allows(READ, TOPIC, "orders")
    assert ctx.allows_any(READ, TOPIC)
    ctx.require(Operation.ALTER, ResourceType.CLUSTER)


def test_without_an_authorizer_there_is_no_guard():
    assert Gate(None).guard("User:alice", "127.0.0.1") is None


@pytest.mark.parametrize(
    ("host", "printed"),
    [("10.0.0.7", "10.0.0.7"), ("::1", "0:0:0:0:0:0:0:1"), ("fe80::1:0a%eth0", "fe80:0:0:0:0:0:1:a%eth0")],
)
def test_addresses_are_those_that_java_prints(host, printed):
    assert java_address(host) == printed


# -- any history of rules -------------------------------------------------------------------------

TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
NAMES = ("a", "ab", "abc", "b", "*", "*a", "ba")
PRINCIPALS = ("User:alice", "User:bob")
HOSTS = ("127.0.0.1", "10.0.0.7")
OPERATIONS = (READ, WRITE, DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
CONTAINS = {
    DESCRIBE: {READ, WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def drawn(draw, number):
    return schema.replace(
        RULE,
        id=Uuid(number.to_bytes(16, "big")),
        resource_type=draw.choice(TYPES),
        resource_name=draw.choice(NAMES),
        pattern_type=draw.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        principal=draw.choice((*PRINCIPALS, "User:*")),
        host=draw.choice((*HOSTS, "*")),
        operation=draw.choice((*OPERATIONS, Operation.ALL)),
        permission_type=draw.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)),
    )


def concerns(rule, kind, name):
    if rule.resource_type != kind:
        return False
    if rule.pattern_type == PatternType.PREFIXED:
        return name.startswith(rule.resource_name)
    return rule.resource_name == name or (rule.resource_name == "*" and not name.startswith("*"))


def expected(rules, principal, host, operation, kind, name):
    """Every rule looked at, one after the other."""
    about = [rule for rule in rules if concerns(rule, kind, name)]
    mine = [rule for rule in about if rule.principal in (principal, "User:*") and rule.host in (host, "*")]
    if any(
        rule.permission_type == PermissionType.DENY and rule.operation in (operation, Operation.ALL) for rule in mine
    ):
        return False
    granting = {operation, Operation.ALL} | CONTAINS.get(operation, set())
    return any(rule.permission_type == PermissionType.ALLOW and rule.operation in granting for rule in mine)


@pytest.mark.parametrize("seed", range(rounds(200, 8)))
def test_after_any_history_of_rules_decisions_are_those_of_the_rules_that_are_left(seed):
    """Many rules come and go in one image or in several, some again, some for others; images are skipped or new."""
    draw, setup = random.Random(seed), Setup(Authorizer())
    guards = {(who, host): setup.gate.guard(who, host) for who in PRINCIPALS for host in HOSTS}
    there: dict[Uuid, AccessControlEntryRecord] = {}
    gone: list[AccessControlEntryRecord] = []
    numbers = itertools.count()
    for _ in range(40):
        records = []
        for _ in range(draw.choice((1, 1, 2, 5, 60))):
            if there and draw.random() < 0.5:
                gone.append(there.pop(draw.choice(list(there))))
                records.append(RemoveAccessControlEntryRecord(id=gone[-1].id))
                continue
            rule = drawn(draw, next(numbers))
            if gone and draw.random() < 0.3:  # one that was there before
                rule = schema.replace(draw.choice(gone), id=rule.id)
            if acl_of(rule) not in map(acl_of, there.values()):
                there[rule.id] = rule
                records.append(rule)
        setup.image, delta = apply(setup.image, records, setup.image.offset + 1, 1)
        if draw.random() < 0.3:
            continue  # followed with the next
        if draw.random() < 0.2:  # as after a snapshot
            setup.image, delta = apply(EMPTY, list(there.values()), setup.image.offset, 1)
        setup.gate.apply(setup.image, delta)
        for (who, host), guard in guards.items():
            for operation, kind, name in itertools.product(OPERATIONS, TYPES, NAMES):
                assert guard is not None
                wanted = expected(there.values(), who, host, operation, kind, name)
                assert guard.allows(operation, kind, name, ApiKey.FETCH, False) == wanted, (who, host, operation, name)
