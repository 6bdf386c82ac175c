"""JSON Schema: a table of changes, each judged in both directions.

Where a verdict comes from: JSON Schema has no rules of compatibility, it says which values a schema lets pass. So a
change is compatible if a validator (jsonschema's) lets pass by the new schema what it lets pass by the old one, and
each verdict is tried with some hundred values: what is refused has to have a value that shows why. A few changes are
judged by rules that Confluent publishes for its registry; those are in a table of their own, with the places.
"""

from __future__ import annotations

import itertools
import json
from time import process_time
from typing import Any, Final

import pytest
from jsonschema import validators

from kavka.coordinator.registry import json_schema
from kavka.coordinator.registry.json_compatibility import differences
from kavka.coordinator.registry.schema import SchemaError

STR, INT, NUM, BOOL = ({"type": each} for each in ("string", "integer", "number", "boolean"))
LETTERS: Final = ["", "a", "b", "x", "ab", "abc", "abcdef"]
NUMBERS: Final = [0, 1, 2, 3, 4, 5, 5.5, 6, 8, 10, 12, 20, 1.5]
SOME: Final = ["", "x", 1, 1.5, None]
VALUES: Final[list[Any]] = [
    *LETTERS,
    *NUMBERS,
    *(True, None),
    *(dict(zip(keys, each, strict=True)) for n in range(3) for keys in itertools.combinations(("a", "b", "c", "n_a"), n)
      for each in itertools.product(SOME, repeat=n)),
    *(list(each) for n in range(4) for each in itertools.product(["", "x", 1, 2, 1.5], repeat=n)),
    *({"a": {"a": 1}}, {"next": {"next": 1}}, {"next": 1}, {"v": 1}, {"v": 1.5}, {"next": {"v": 1.5}}),
    *({"a": {"b": 1.5}}, {"a": "", "b": 1, "c": ""}, {"a": 1, "b": 1, "c": 1}),
]  # fmt: skip


def new(**words: Any) -> dict[str, Any]:
    """A schema of the newest draft."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **words}


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
    (obj(a=STR), {**obj(a=STR), "required": ["a"]}, False, True),
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
    ({"dependencies": {"a": obj(b=NUM)}}, {"dependencies": {"a": obj(b=INT)}}, False, True),
    ({"dependencies": {"a": {"minProperties": 2}}}, {"dependencies": {"a": {"minProperties": 3}}}, False, True),
    ({"dependencies": {"a": ["b"]}, **obj()}, obj(), True, False),
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
    # combinations
    ({"anyOf": [STR, INT]}, {"anyOf": [STR]}, False, True),
    ({"anyOf": [STR, INT]}, {"anyOf": [STR, BOOL]}, False, False),
    ({"oneOf": [STR, INT]}, {"oneOf": [STR, INT, BOOL]}, True, False),
    ({"allOf": [STR, {"minLength": 1}]}, {"allOf": [STR, {"minLength": 2}]}, False, True),
    ({"allOf": [obj(a=STR), obj(b=INT)]}, {"allOf": [obj(a=STR)]}, True, False),
    ({"allOf": [False]}, STR, True, False),
    ({"allOf": [STR, False]}, {"enum": []}, True, True),
    ({"not": STR}, {"not": {"type": ["string", "integer"]}}, False, True),
    ({"type": ["string", "integer"], "minLength": 1}, {"type": ["string", "integer"]}, True, False),
    ({"type": ["integer", "string"]}, {"type": ["string", "number"]}, True, False),
    ({"enum": ["a", 1]}, {"type": ["string", "integer"]}, True, False),
    ({"enum": [1, 2]}, INT, True, False),
    ({"const": "a"}, STR, True, False),
    ({"enum": [1]}, {"const": 1.0}, True, True),
    ({"enum": [True]}, {"enum": [1]}, False, False),
    ({"type": "null"}, {"type": ["null", "string"]}, True, False),
    # objects
    ({**closed(a=STR), "required": ["a"]}, closed(a=STR), True, False),
    (closed(a=STR, b=STR), closed(a=STR, b=INT), False, False),
    (closed(a=INT), closed(a=NUM), True, False),
    (closed(a=obj(b=INT)), closed(a=obj(b=NUM)), True, False),
    ({"additionalProperties": INT, **obj()}, {"additionalProperties": NUM, **obj()}, True, False),
    ({**obj(a=INT), "additionalProperties": INT}, {"additionalProperties": INT, **obj()}, True, True),
    ({**obj(a=STR), "additionalProperties": INT}, {"additionalProperties": INT, **obj()}, False, False),
    ({"patternProperties": {"^n_": INT}, **obj()}, {"patternProperties": {"^n_": NUM}, **obj()}, True, False),
    ({**obj(), "propertyNames": {"maxLength": 1}}, {**obj(), "propertyNames": {"maxLength": 3}}, True, False),
    (obj(), {**obj(), "propertyNames": {"maxLength": 1}}, False, True),
    (obj(), {**obj(), "propertyNames": STR}, True, True),
    ({**obj(), "propertyNames": {"enum": ["a"]}}, {**obj(), "propertyNames": {"enum": ["a", "b"]}}, True, False),
    ({**obj(), "dependentRequired": {"a": ["b"]}}, obj(), True, False),
    (
        {**obj(), "dependentSchemas": {"a": {"required": ["b"], **obj(b=NUM)}}},
        {**obj(), "dependentSchemas": {"a": {"required": ["b"], **obj(b=INT)}}},
        False,
        True,
    ),
    # arrays
    (arr(items=False), arr(items=STR), True, False),
    (arr(prefixItems=[INT]), arr(prefixItems=[NUM]), True, False),
    (arr(prefixItems=[INT], items=STR), arr(prefixItems=[INT], items=False), False, True),
    (arr(prefixItems=[INT], items=NUM), arr(prefixItems=[INT, NUM], items=NUM), True, True),
    (arr(contains=STR), arr(), True, False),
    (arr(contains=INT), arr(contains=NUM), True, False),
    (arr(contains=INT, minContains=1), arr(contains=INT), True, True),
    (arr(contains=INT, minContains=1), arr(contains=INT, minContains=2), False, True),
    (arr(contains=INT), arr(contains=INT, minContains=2), False, True),
    (arr(contains=INT, minContains=0), arr(), True, True),
    (arr(contains=INT, minContains=0), arr(contains=INT), False, True),
    (arr(contains=INT, maxContains=1), arr(contains=INT, maxContains=2), True, False),
    (arr(contains=INT, maxContains=2), arr(contains=INT), True, False),
    (arr(contains=NUM, maxContains=1), arr(contains=INT, maxContains=1), False, False),
    (arr(contains=INT, minContains=0, maxContains=1), arr(contains=NUM, minContains=0, maxContains=1), False, True),
    # conditions
    ({"if": STR, "then": {"minLength": 1}}, {"if": STR, "then": {"minLength": 2}}, False, True),
    (True, {"if": STR, "then": {"minLength": 1}}, False, True),
    ({"if": STR, "else": NUM}, {"if": STR, "else": INT}, False, True),
    ({"if": STR, "then": {"maxLength": 1}}, {"if": INT, "then": {"maximum": 1}}, False, False),
    ({**STR, "minLength": 1}, {"if": INT, "then": STR, "else": STR}, True, False),
    ({**STR, "if": {"minLength": 1}}, STR, True, True),
    # unevaluated: closed by it, open in part, beside what always holds and what may
    (new(**obj(a=STR), unevaluatedProperties=False), new(**obj(a=STR)), True, False),
    (new(**obj(a=STR), unevaluatedProperties=False), new(**closed(a=STR)), True, True),
    (
        new(**obj(a=STR), unevaluatedProperties=False),
        new(**obj(a=STR, b=NUM), unevaluatedProperties=False),
        True,
        False,
    ),
    (new(**obj(a=STR), unevaluatedProperties=STR), new(**obj(a=STR, b=STR), unevaluatedProperties=STR), True, True),
    (new(**obj(a=STR), unevaluatedProperties=STR), new(**obj(a=STR, b=NUM), unevaluatedProperties=STR), False, False),
    (new(**obj(a=STR), unevaluatedProperties=INT), new(**obj(a=STR), unevaluatedProperties=NUM), True, False),
    (new(**obj(a=STR), unevaluatedProperties=True), new(**obj(a=STR)), True, True),
    (new(**closed(a=STR), unevaluatedProperties=INT), new(**closed(a=STR)), True, True),
    (
        new(allOf=[obj(a=STR)], unevaluatedProperties=False, **obj(b=INT)),
        new(**closed(a=STR, b=INT)),
        True,
        True,
    ),
    (
        new(allOf=[obj(a=STR)], unevaluatedProperties=False),
        new(allOf=[obj(a=STR, c=STR)], unevaluatedProperties=False),
        True,
        False,
    ),
    (
        new(**{"$defs": {"base": obj(a=STR)}, "$ref": "#/$defs/base"}, unevaluatedProperties=False),
        new(**{"$defs": {"base": obj(a=STR, c=INT)}, "$ref": "#/$defs/base"}, unevaluatedProperties=False),
        True,
        False,
    ),
    (new(**{"$defs": {"base": obj(a=STR)}, "$ref": "#/$defs/base"}, required=["a"]), obj(a=STR), True, False),
    (new(**{"$defs": {"n": {"$dynamicAnchor": "n", **INT}}, "$dynamicRef": "#n"}), new(**NUM), True, False),
    (
        new(anyOf=[obj(a=STR), obj(b=STR)], unevaluatedProperties=False),
        new(anyOf=[obj(a=STR), obj(b=STR)], unevaluatedProperties=False),
        True,
        True,
    ),
    (closed(a=STR, b=INT), new(anyOf=[obj(a=STR), obj(b=STR)], unevaluatedProperties=False), False, False),
    (new(allOf=[closed(a=STR)], unevaluatedProperties=False), new(**closed(a=STR)), True, True),
    (new(**arr(), unevaluatedItems=False), new(**arr()), True, False),
    (new(**arr(), unevaluatedItems=INT), new(**arr(INT)), True, True),
    (
        new(**arr(prefixItems=[STR]), unevaluatedItems=STR),
        new(**arr(prefixItems=[STR, STR]), unevaluatedItems=STR),
        True,
        True,
    ),
    (
        new(**arr(prefixItems=[STR]), unevaluatedItems=STR),
        new(**arr(prefixItems=[STR, NUM]), unevaluatedItems=STR),
        False,
        False,
    ),
    (
        new(**arr(prefixItems=[STR, NUM]), unevaluatedItems=False),
        new(**arr(prefixItems=[STR]), unevaluatedItems=False),
        False,
        True,
    ),
    (new(**arr(INT), unevaluatedItems=False), new(**arr(INT)), True, True),
    (
        new(**arr(allOf=[{"prefixItems": [STR]}]), unevaluatedItems=False),
        new(**arr(prefixItems=[STR]), items=False),
        True,
        True,
    ),
    (new(**arr(contains=INT), unevaluatedItems=STR), new(**arr(contains=NUM), unevaluatedItems=STR), True, False),
    (new(**arr(contains=INT), unevaluatedItems=False), new(**arr(INT)), True, False),
]


RULES: Final = "docs.confluent.io, Schema Registry, JSON Schema compatibility rules"
# A value of a property that is not there is the property's default, and what is not named is not asked for.
PUBLISHED: list[tuple[str, Any, Any, bool, bool]] = [
    (RULES, closed(a=STR), {**closed(a=STR, b={**STR, "default": ""}), "required": ["b"]}, True, False),
    (RULES, obj(a={**STR, "default": ""}), {**obj(a={**STR, "default": ""}), "required": ["a"]}, True, True),
    (RULES, {**obj(a=STR), "required": ["a"]}, {**obj(a=STR), "required": ["b"]}, True, False),
]
ALL = [*CHANGES, *(each[1:] for each in PUBLISHED)]


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{json.dumps(case[0])} to {json.dumps(case[1])}"[:100])
def test_each_change_is_judged_in_both_directions(case: tuple[Any, Any, bool, bool]) -> None:
    old, new = (json_schema.parse(json.dumps(each)) for each in case[:2])
    found, reverse = differences(new, old), differences(old, new)
    assert (not found, not reverse) == case[2:], [*found, *reverse]


def test_the_verdicts_are_those_of_a_validator() -> None:
    wrong = []
    for old, new, backward, forward in CHANGES:
        before, after = validators_of(old, new)
        passed = [(before.is_valid(value), after.is_valid(value)) for value in VALUES]
        seen = all(new for old, new in passed if old), all(old for old, new in passed if new)
        if seen != (backward, forward):
            wrong.append(f"{old} to {new}: {seen}")
    assert wrong == []


def validators_of(*schemas: Any) -> list[Any]:
    """Where no draft is said, the newest that reads all words of a schema."""
    found = []
    for each in schemas:
        said = each.get("$schema", "") if isinstance(each, dict) else ""
        old = isinstance(each, dict) and (
            isinstance(each.get("items"), list) or {"dependencies", "definitions"} & each.keys()
        )
        draft = "http://json-schema.org/draft-07/schema#" if old else "https://json-schema.org/draft/2020-12/schema"
        found.append(validators.validator_for({"$schema": said or draft})(each))
    return found


def test_the_table_has_enough_changes() -> None:
    assert len(ALL) >= 150


def test_a_long_list_of_values_of_two_types_is_compared() -> None:
    old = json_schema.parse(json.dumps({"type": ["string", "null"], "enum": [None, *map(str, range(150_000))]}))
    new = json_schema.parse(json.dumps({"type": ["string", "null"], "enum": [None, *map(str, range(150_001))]}))
    assert differences(new, old) == []


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


@pytest.mark.parametrize("pattern", ["(", ")", "[a", "*a", "[z-a]", "a\\"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(SchemaError, match="#/pattern"):
        json_schema.parse(json.dumps({"pattern": pattern}))


@pytest.mark.parametrize("pattern", ["(?<=a)b", "(?!a)b", r"(a)\1", "a{1,2000}", r"\cA", r"\p{Letter}"])
def test_patterns_of_other_engines_are_let_pass(pattern: str) -> None:
    assert json_schema.parse(json.dumps({"pattern": pattern})).root == {"pattern": pattern}


def test_multiples_are_those_of_the_numbers_as_they_are_written() -> None:
    half, huge, tenth, tenths = (
        json_schema.parse(json.dumps({"type": "number", "multipleOf": each})) for each in (0.5, 10**400, 0.1, 0.3)
    )
    assert differences(half, huge) == []  # too large for a float
    assert differences(tenth, tenths) == []
    assert [each.kind for each in differences(huge, half)] == ["MULTIPLE_OF_CHANGED"]


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ({"anyOf": [{"enum": [{"a": n}]} for n in range(1000)]}, {"enum": [{"a": n} for n in range(20_000)]}),
        (
            {"type": "object", "properties": {f"p{n}": STR for n in range(20_000)}},
            {"type": "object", "patternProperties": {f"^x{n}": {} for n in range(2000)}, "additionalProperties": False},
        ),
    ],
    ids=["values of alternatives", "patterns and names"],
)
def test_what_is_long_counts_more(new: Any, old: Any) -> None:
    with pytest.raises(SchemaError, match="too much to compare"):
        differences(json_schema.parse(json.dumps(new)), json_schema.parse(json.dumps(old)))


def test_only_so_many_patterns_are_looked_at() -> None:
    before = process_time()
    json_schema.parse(json.dumps({"patternProperties": {rf"\pL{{900}}{n}": True for n in range(20_000)}}))
    assert process_time() - before < 10  # hours if all were


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"]
)
def test_long_lists_that_cannot_be_sorted_are_read_in_time(draft: str) -> None:
    values = [{"a": number} for number in range(30_000)]
    before = process_time()
    schema = {"$schema": draft, "properties": {"e": {"enum": values}}}
    assert json_schema.parse(json.dumps(schema)).root == schema
    for word in ("type", "required"):
        with pytest.raises(SchemaError, match="no list of names"):
            json_schema.parse(json.dumps({"$schema": draft, "items": {word: values}}))
    with pytest.raises(SchemaError, match="no list of names"):
        json_schema.parse(json.dumps({"$schema": draft, "dependencies": {"a": values}}))
    assert process_time() - before < 10  # quarters of an hour if each were compared with each
