"""JSON Schema: a table of changes, each judged in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kavka.coordinator.registry import json_schema
from kavka.coordinator.registry.json_compatibility import differences
from kavka.coordinator.registry.schema import SchemaError

STR, INT, NUM, BOOL = ({"type": each} for each in ("string", "integer", "number", "boolean"))


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def closed(**properties: Any) -> dict[str, Any]:
    return {**obj(**properties), "additionalProperties": False}


def arr(items: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "array", **({} if items is None else {"items": items}), **more}


LIMITS = [
    (kind, word, small, large)
    for kind, words in {
        "string": ("maxLength", "minLength"),
        "number": ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"),
        "integer": ("maximum", "minimum"),
        "array": ("maxItems", "minItems"),
        "object": ("maxProperties", "minProperties"),
    }.items()
    for word in words
    for small, large in ((1, 2),)
]

# old, new, whether the new one lets pass what the old one did, and the reverse
CHANGES: list[tuple[Any, Any, bool, bool]] = [
    *(
        ({"type": kind, word: small}, {"type": kind, word: large}, "max" in word.lower(), "min" in word.lower())
        for kind, word, small, large in LIMITS
    ),
    *(({"type": kind}, {"type": kind, word: small}, False, True) for kind, word, small, _ in LIMITS),
    (STR, STR, True, True),
    (STR, INT, False, False),
    (INT, NUM, True, False),
    (STR, {}, True, False),
    (STR, True, True, False),
    (STR, False, False, True),
    ({**STR, "title": "a"}, {**STR, "title": "b", "description": "c", "default": "d"}, True, True),
    (STR, {**STR, "pattern": "^a"}, False, True),
    ({**STR, "pattern": "^a"}, {**STR, "pattern": "^b"}, False, False),
    ({**INT, "multipleOf": 10}, {**INT, "multipleOf": 5}, True, False),
    (INT, {**INT, "multipleOf": 5}, False, True),
    ({**INT, "multipleOf": 4}, {**INT, "multipleOf": 6}, False, False),
    ({**STR, "enum": ["a"]}, {**STR, "enum": ["a", "b"]}, True, False),
    ({**STR, "enum": ["a"]}, STR, True, False),
    ({**STR, "enum": ["a"]}, {**STR, "enum": ["b"]}, False, False),
    ({"const": 1}, {"const": 2}, False, False),
    ({"const": 1}, {"enum": [1, 2]}, True, False),
    ({"type": ["string"]}, STR, True, True),
    (STR, {"type": ["string", "null"]}, True, False),
    ({"type": ["string", "null"]}, {"type": ["string", "integer"]}, False, False),
    (STR, {"anyOf": [STR, INT]}, True, False),
    (STR, {"oneOf": [STR, INT]}, True, False),
    ({"oneOf": [STR]}, {"oneOf": [STR, BOOL]}, True, False),
    ({"anyOf": [STR, INT]}, {"oneOf": [INT, STR]}, True, True),
    ({"oneOf": [{**STR, "maxLength": 3}]}, {"oneOf": [{**STR, "maxLength": 5}, INT]}, True, False),
    (STR, {"allOf": [STR]}, True, True),
    ({"allOf": [STR, {"maxLength": 3}]}, {"allOf": [STR]}, True, False),
    ({"not": NUM}, {"not": INT}, True, False),
    (STR, {**STR, "not": {"const": "x"}}, False, True),
    (obj(a=STR), obj(), True, False),
    (obj(a=STR), obj(a=INT), False, False),
    (obj(a=STR), obj(b=STR), False, False),
    (obj(a=STR), obj(a=STR, b=True), True, True),
    (closed(a=STR), closed(a=STR, b=STR), True, False),
    (closed(a=STR), obj(a=STR), True, False),
    (closed(a=STR), closed(a=STR, b=False), True, True),
    (closed(a=STR), {**closed(a=STR, b=STR), "required": ["b"]}, False, False),
    (closed(a=STR), {**closed(a=STR, b={**STR, "default": ""}), "required": ["b"]}, True, False),
    (obj(a=STR), {**obj(a=STR), "required": ["a"]}, False, True),
    (obj(a={**STR, "default": ""}), {**obj(a={**STR, "default": ""}), "required": ["a"]}, True, True),
    ({"additionalProperties": STR}, {"additionalProperties": INT}, False, False),
    ({"additionalProperties": False}, {"additionalProperties": STR}, True, False),
    ({"additionalProperties": STR}, {"additionalProperties": True}, True, False),
    ({**obj(a=STR), "additionalProperties": STR}, {**obj(a=STR, b=STR), "additionalProperties": STR}, True, True),
    ({**obj(a=STR), "additionalProperties": STR}, {**obj(a=STR, b=INT), "additionalProperties": STR}, False, False),
    (
        {**closed(), "patternProperties": {"^n_": INT}},
        {**closed(n_a=INT), "patternProperties": {"^n_": INT}},
        True,
        True,
    ),
    ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["b", "c"]}}, False, True),
    ({"dependencies": {}, **obj()}, {"dependencies": {"a": ["b"]}, **obj()}, False, True),
    ({"dependencies": {"a": STR}}, {"dependencies": {"a": INT}}, False, False),
    ({"dependentRequired": {"a": ["b"]}}, {"dependentRequired": {"a": ["b", "c"]}}, False, True),
    (arr(), arr(STR), False, True),
    (arr(INT), arr(NUM), True, False),
    (arr([STR]), arr([STR, INT]), False, True),
    (arr([STR], additionalItems=False), arr([STR, INT], additionalItems=False), True, False),
    (arr([STR], additionalItems=INT), arr([STR, INT], additionalItems=INT), True, True),
    (arr([STR], additionalItems=INT), arr([STR, STR], additionalItems=INT), False, False),
    (arr([STR], additionalItems=False), arr([STR]), True, False),
    (arr(uniqueItems=True), arr(), True, False),
    (arr(prefixItems=[STR], items=False), arr(prefixItems=[STR, INT], items=False), True, False),
    (
        {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 5, "exclusiveMaximum": True, **NUM},
        {"exclusiveMaximum": 5, **NUM},
        True,
        True,
    ),
    ({"definitions": {"s": STR}, "$ref": "#/definitions/s"}, STR, True, True),
    ({"$defs": {"s": STR}, "$ref": "#/$defs/s"}, {"$defs": {"s": INT}, "$ref": "#/$defs/s"}, False, False),
    (
        {"$defs": {"n": obj(next={"$ref": "#/$defs/n"})}, "$ref": "#/$defs/n"},
        {"$defs": {"n": obj(next={"$ref": "#/$defs/n"})}, "$ref": "#/$defs/n"},
        True,
        True,
    ),
    (
        {"$defs": {"n": closed(next={"$ref": "#/$defs/n"}, v=INT)}, "$ref": "#/$defs/n"},
        {"$defs": {"n": closed(next={"$ref": "#/$defs/n"}, v=NUM)}, "$ref": "#/$defs/n"},
        True,
        False,
    ),
]


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: f"{json.dumps(case[0])} to {json.dumps(case[1])}"[:100])
def test_each_change_is_judged_in_both_directions(case: tuple[Any, Any, bool, bool]) -> None:
    old, new = (json_schema.parse(json.dumps(each)) for each in case[:2])
    found, reverse = differences(new, old), differences(old, new)
    assert (not found, not reverse) == case[2:], [*found, *reverse]


def test_the_table_has_enough_verdicts() -> None:
    assert len(CHANGES) * 2 >= 150


def test_a_difference_names_the_property() -> None:
    old, new = (json_schema.parse(json.dumps(obj(a=obj(b=each)))) for each in (STR, INT))
    (found,) = differences(new, old)
    assert (found.kind, found.path) == ("TYPE_CHANGED", "#/properties/a/properties/b")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "text"}, "#/type"),
        ({"properties": []}, "#/properties"),
        ({"$ref": "#/definitions/none"}, "nothing at"),
        ({"$ref": "other.json"}, "no such schema"),
        ({"definitions": {"a": {"$ref": "#/definitions/a"}}, "$ref": "#/definitions/a"}, "itself"),
        ({"$schema": "http://example.com/mine"}, "no draft"),
        ([], "neither"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_reason(schema: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        json_schema.parse(json.dumps(schema))


def test_other_documents_are_found_by_name() -> None:
    schema = json_schema.parse(
        json.dumps({"properties": {"a": {"$ref": "address.json#/definitions/street"}}}),
        {"address.json": json.dumps({"definitions": {"street": STR}})},
    )
    assert schema.resolved({"$ref": "address.json#/definitions/street"}) == STR
