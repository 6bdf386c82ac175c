"""DescribeClientQuotas, AlterClientQuotas."""

from __future__ import annotations

from math import inf

from jvm.differential.case import Case, cases

from kavka.protocol.schemas.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kavka.protocol.schemas.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
Entity = tuple[tuple[str, str | None], ...]

ALICE: Entity = (("user", "alice"),)
ANY_USER: Entity = (("user", None),)
APP: Entity = (("client-id", "app"),)
BOTH: Entity = (("user", "alice"), ("client-id", "app"))
HOME: Entity = (("ip", "127.0.0.1"),)
HOST: Entity = (("ip", "localhost"),)
RATE = ("producer_byte_rate", 1e9)


def alter(*entries: tuple[Entity, list[tuple[str, float | None]]], check: bool = False) -> AlterClientQuotasRequest:
    """Quotas to set, or with None to remove."""
    rows = [
        RequestEntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
        )
        for entity, ops in entries
    ]
    return AlterClientQuotasRequest(entries=rows, validate_only=check)


def describe(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    """The quotas that a filter means."""
    rows = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return DescribeClientQuotasRequest(components=rows, strict=strict)


def refused(name: str, entity: Entity, *ops: tuple[str, float | None]) -> Case:
    """One entity that cannot have that."""
    return Case(f"a quota {name}", alter((entity, list(ops))), 1)


CASES = [
    *cases(0, 1, name="no quotas", request=describe()),
    *cases(0, 1, name="set a quota", request=alter((ALICE, [RATE, ("request_percentage", 99.5)]))),
    Case("only check a quota", alter((APP, [RATE]), check=True), 1),
    Case("check the largest quota", alter((APP, [("producer_byte_rate", 2.0**63)]), check=True), 1),
    Case("check a quota without an end", alter((APP, [("request_percentage", inf)]), check=True), 1),
    Case("set one quota", alter((ANY_USER, [("consumer_byte_rate", 1e9)])), 1),
    Case("set a quota of a pair", alter((BOTH, [("controller_mutation_rate", 1e6)])), 1),
    Case("set a quota of an address", alter((HOME, [("connection_creation_rate", 1e6)])), 1),
    Case("set a quota of an IPv6 address", alter(((("ip", "2001:db8::1"),), [("connection_creation_rate", 9)])), 1),
    Case("check a quota of a host", alter((HOST, [("connection_creation_rate", 1e6)]), check=True), 1),
    Case("set nothing", alter((ALICE, [])), 1),
    Case("remove a quota that is not there", alter((APP, [("producer_byte_rate", None)])), 1),
    refused("of nobody", (), RATE),
    refused("of an unknown type", (("planet", "mars"),), RATE),
    refused("of an empty name", (("user", ""),), RATE),
    refused("of a user and an address", (("user", "a"), ("ip", "127.0.0.1")), RATE),
    refused("of no address", (("ip", "not an address!"),), ("connection_creation_rate", 1.0)),
    refused("of an address for bytes", HOME, RATE),
    refused("of a user for connections", ALICE, ("connection_creation_rate", 1.0)),
    refused("that there is not", ALICE, ("nonsense", 1.0)),
    refused("of zero", ALICE, ("producer_byte_rate", 0.0)),
    refused("below zero", ALICE, ("request_percentage", -1.0)),
    refused("of half a byte", ALICE, ("producer_byte_rate", 1.5)),
    refused("too large", ALICE, ("producer_byte_rate", 1e30)),
    refused("of too many connections", HOME, ("connection_creation_rate", 1e10)),
    refused("set twice", ALICE, RATE, ("producer_byte_rate", 2e9)),
    *cases(0, 1, name="all quotas", request=describe()),
    Case("quotas of a user", describe(("user", EXACT, "alice")), 1),
    Case("quotas of a user alone", describe(("user", EXACT, "alice"), strict=True), 1),
    Case("quotas of any user", describe(("user", SPECIFIED, None)), 1),
    Case("quotas of users without their own", describe(("user", DEFAULT, None)), 1),
    Case("quotas of a pair", describe(("user", EXACT, "alice"), ("client-id", EXACT, "app")), 1),
    Case("quotas of addresses", describe(("ip", SPECIFIED, None)), 1),
    Case("quotas of nobody strictly", describe(strict=True), 1),
    Case("a filter of an empty type", describe(("", EXACT, "a")), 1),
    Case("a filter of an unknown type", describe(("planet", EXACT, "mars")), 1),
    Case("a filter of a type twice", describe(("user", EXACT, "a"), ("user", SPECIFIED, None)), 1),
    Case("a filter of no name", describe(("user", EXACT, None)), 1),
    Case("a filter of a name too many", describe(("user", DEFAULT, "a")), 1),
    Case("a filter of an unknown match", describe(("user", 7, None)), 1),
    Case("a filter of addresses and users", describe(("ip", SPECIFIED, None), ("user", SPECIFIED, None)), 1),
    Case(
        "remove quotas",
        alter(
            (ALICE, [("producer_byte_rate", None), ("request_percentage", None)]),
            (ANY_USER, [("consumer_byte_rate", None)]),
            (BOTH, [("controller_mutation_rate", None)]),
            (HOME, [("connection_creation_rate", None)]),
            ((("ip", "2001:db8::1"),), [("connection_creation_rate", None)]),
        ),
        1,
    ),
    Case("no quotas again", describe(), 1),
]
