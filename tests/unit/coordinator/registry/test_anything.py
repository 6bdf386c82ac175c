"""Whatever is asked of the registry is answered, or refused with one of its errors; and its log says the same again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from coordinator.registry.played import PlayedRegistry, loaded, record
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scale import rounds

from kavka.coordinator.registry.calls import _ROUTES, RegistryError, body_of
from kavka.coordinator.registry.judging import FORMATS, LEVELS, Earlier, Text, Verdict, Work, formatted, judge

EXAMPLES = rounds(2000, 100)
pytestmark = pytest.mark.timeout(3600 if rounds(1, 0) else 300)
RELAXED = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

ODD = st.sampled_from(
    (
        " |latest|-1|0|1|:|:.:|:.c:|:.c:s|s|{|}|/|%|é|true|null|BACKWARD|IMPORT|AVRO|JSON|PROTOBUF|\0|a/b|..|１|"
        + "9" * 400
    ).split("|")
)
WORDS = ODD | st.text(max_size=8) | st.just("\ud800")
NUMBERS = st.integers() | st.integers(-3, 3) | st.floats() | st.sampled_from([10**400, 2**31, -(2**31), 2**63])
LEAVES = st.none() | st.booleans() | NUMBERS | WORDS
KEYS = st.sampled_from(
    [
        "schema",
        "schemaType",
        "references",
        "metadata",
        "ruleSet",
        "version",
        "id",
        "name",
        "subject",
        "properties",
        "compatibility",
        "normalize",
        "alias",
        "compatibilityGroup",
        "mode",
        "defaultMetadata",
        "overrideRuleSet",
    ]
)


def nested(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | WORDS, inner, max_size=5),
        max_leaves=12,
    )


AVRO_WORDS = st.sampled_from(
    [
        "type",
        "name",
        "namespace",
        "fields",
        "items",
        "values",
        "symbols",
        "size",
        "default",
        "aliases",
        "order",
        "record",
        "enum",
        "array",
        "map",
        "fixed",
        "int",
        "long",
        "string",
        "bytes",
        "null",
        "double",
        "error",
        "logicalType",
        "decimal",
        "precision",
        "scale",
        "doc",
    ]
)
JSON_WORDS = st.sampled_from(
    [
        "$schema",
        "$id",
        "$ref",
        "#",
        "#/properties/a",
        "#/definitions/b",
        "$defs",
        "definitions",
        "properties",
        "items",
        "type",
        "object",
        "array",
        "string",
        "integer",
        "number",
        "null",
        "enum",
        "const",
        "required",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "additionalProperties",
        "patternProperties",
        "dependencies",
        "minLength",
        "maximum",
        "pattern",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
        "a",
        "b",
        "if",
        "then",
        "multipleOf",
        "uniqueItems",
        "prefixItems",
        "$anchor",
        "(a+)+$",
        "a{99999999999}",
        "(",
    ]
)
PROTOBUF_WORDS = st.sampled_from(
    [
        "syntax",
        "=",
        '"proto3"',
        '"proto2"',
        ";",
        "package",
        "a.b",
        "message",
        "M",
        "{",
        "}",
        "enum",
        "E",
        "oneof",
        "map",
        "<",
        ">",
        ",",
        "string",
        "int32",
        "repeated",
        "optional",
        "required",
        "reserved",
        "1",
        "2",
        "to",
        "max",
        "import",
        '"x.proto"',
        "option",
        "(",
        ")",
        "[",
        "]",
        "service",
        "rpc",
        "returns",
        "extend",
        "group",
        "-1",
        "0x7fffffff",
        "//",
        "/*",
        "*/",
        "'",
        '"',
        "\\",
        "99999999999999999999",
        "true",
        "inf",
        "nan",
        ".",
        "public",
        "stream",
    ]
)


def schema_text(words: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    values = st.recursive(
        LEAVES | words,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | WORDS, inner, max_size=6),
        max_leaves=20,
    )
    return values.map(json.dumps)


AVRO_TEXTS = schema_text(AVRO_WORDS) | st.sampled_from([json.dumps(record(x="int")), json.dumps(record(y="string"))])
JSON_TEXTS = schema_text(JSON_WORDS) | st.sampled_from(['{"type":"object","properties":{"a":{"$ref":"#"}}}', "true"])
PROTOBUF_TEXTS = st.lists(PROTOBUF_WORDS | WORDS, max_size=40).map(" ".join) | st.sampled_from(
    ['syntax = "proto3"; message M { M m = 1; map<string, M> x = 2; }', 'syntax = "proto2"; message M { }']
)
TEXTS = {"AVRO": AVRO_TEXTS, "JSON": JSON_TEXTS, "PROTOBUF": PROTOBUF_TEXTS}
SCHEMAS = st.sampled_from(list(TEXTS)).flatmap(
    lambda kind: st.fixed_dictionaries(
        {"schema": TEXTS[kind], "schemaType": st.just(kind)},
        optional={
            "references": nested(KEYS)
            | st.lists(
                st.fixed_dictionaries({"name": WORDS, "subject": WORDS, "version": NUMBERS | st.just(1)}), max_size=3
            ),
            "metadata": nested(KEYS) | st.just({"properties": {"g": "1"}}),
            "id": NUMBERS,
            "version": NUMBERS,
        },
    )
)
ROUTES = [(method, path) for method, routes in _ROUTES.items() for path in routes]


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, Any, dict[str, Any]]:
    """A method, a path, a body and a query."""
    method, path = draw(st.sampled_from(ROUTES))
    for name in ("subject", "version", "id", "guid"):
        step = draw(st.sampled_from(["s", "t", "1", "latest"]) | WORDS)
        path = path.replace(f"{{{name}}}", quote(step, safe="", errors="surrogatepass"))
    if draw(st.booleans()):
        path = f"contexts/{quote(draw(WORDS), safe='', errors='surrogatepass')}/{path}"
    method = draw(st.just(method) | st.sampled_from(["GET", "HEAD", "PATCH", ""]))
    body = draw(st.none() | SCHEMAS | nested(KEYS) | st.dictionaries(KEYS, LEAVES | nested(KEYS), max_size=4))
    names = ["deleted", "permanent", "normalize", "force", "limit", "offset", "subject", "format", "verbose", "key"]
    query = draw(st.dictionaries(st.sampled_from([*names, "subjectPrefix", "value", "fetchMaxId"]), WORDS, max_size=2))
    return method, f"/{path}", body, query


@RELAXED
@given(asked=st.lists(requests(), max_size=8))
def test_every_request_is_answered_or_refused_and_the_log_says_the_same_again(
    asked: list[tuple[str, str, Any, dict[str, Any]]],
) -> None:
    registry = PlayedRegistry()
    refused: list[RegistryError] = []
    for method, path, body, query in asked:
        try:
            read = None if body is None else body_of(json.dumps(body).encode())
            answer = registry.ask(method, path, read, **query)
            json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
        except RegistryError as error:
            refused.append(error)
    assert [error for error in refused if not 400 <= error.status < 500] == []
    json.dumps([error.message for error in refused], ensure_ascii=False).encode()
    assert vars(loaded(registry.log).state) == vars(registry.machine.state)


@RELAXED
@given(data=st.binary(max_size=60) | nested(KEYS).map(json.dumps).map(str.encode))
def test_every_body_is_read_or_refused(data: bytes) -> None:
    try:
        read = body_of(data)
    except RegistryError as error:
        read = error.status
    json.dumps(read, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("kind", list(FORMATS))
@RELAXED
@given(data=st.data(), level=st.sampled_from(LEVELS), normalize=st.booleans())
def test_every_text_is_judged(kind: str, data: st.DataObject, level: str, normalize: bool) -> None:
    texts = [data.draw(TEXTS[kind]) for _ in range(3)]
    new, old, referred = (Text(kind, each) for each in texts)
    verdict = judge(Work(new._replace(references={"x.proto": referred.text}), normalize, level, [Earlier(1, old)]))
    assert verdict.invalid or verdict.schema
    if verdict.schema:
        again = judge(Work(Text(kind, verdict.schema, {"x.proto": referred.text}), normalize, level))
        assert (again.schema, again.invalid) == (verdict.schema, ""), "what is kept is a schema, and is kept as it is"
        verdict.schema.encode()
        for wanted in ("serialized", "resolved", "?"):
            assert formatted(Text(kind, verdict.schema, {"x.proto": referred.text}), wanted)


def doubling_avro(leaf: str) -> str:
    """A record that has two of another one, which has two of another one..."""
    made = record("R0", x=leaf)
    for number in range(1, 60):
        made = record(f"R{number}", a=made, b=f"R{number - 1}")
    return json.dumps(made)


def doubling_json(leaf: str) -> str:
    made: dict[str, Any] = {"d0": {"type": leaf}}
    for number in range(1, 60):
        other = {"$ref": f"#/definitions/d{number - 1}"}
        made[f"d{number}"] = {"type": "object", "properties": {"a": other, "b": other}}
    return json.dumps({"definitions": made, "$ref": "#/definitions/d59"})


def doubling_protobuf(leaf: str) -> str:
    more = "".join(f"message M{n} {{ M{n - 1} a = 1; M{n - 1} b = 2; }}" for n in range(1, 60))
    return f'syntax = "proto3"; message M0 {{ {leaf} x = 1; }} {more}'


def nested_one_of(leaf: str) -> str:
    made: dict[str, Any] = {"type": leaf}
    for _ in range(40):
        made = {"oneOf": [made, {"type": "boolean"}]}
    return json.dumps(made)


@pytest.mark.parametrize(
    ("kind", "text", "leaves"),
    [
        ("AVRO", doubling_avro, ("int", "string")),
        ("JSON", doubling_json, ("integer", "string")),
        ("JSON", nested_one_of, ("integer", "string")),
        ("PROTOBUF", doubling_protobuf, ("int32", "string")),
    ],
)
def test_types_that_have_each_other_many_times_over_are_compared_in_time(
    kind: str, text: Callable[[str], str], leaves: tuple[str, str]
) -> None:
    new, other = (Text(kind, text(leaf)) for leaf in leaves)
    assert judge(Work(new, False, "FULL_TRANSITIVE", [Earlier(1, new)])) == Verdict(judge(Work(new)).schema)
    verdict = judge(Work(new, False, "FULL_TRANSITIVE", [Earlier(1, other)]))
    assert 0 < len(verdict.messages) < 1000


def test_a_pattern_that_other_engines_never_end_with_ends() -> None:
    old = {"type": "object", "properties": {"a" * 60 + "!": {"type": "string"}}, "additionalProperties": False}
    new = {"type": "object", "patternProperties": {"(a+)+$": {"type": "string"}}, "additionalProperties": False}
    work = Work(Text("JSON", json.dumps(new)), False, "BACKWARD", [Earlier(1, Text("JSON", json.dumps(old)))])
    assert "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL" in judge(work).messages[0]


def test_a_pattern_is_read_in_the_time_of_its_length() -> None:
    """An engine that counts letters of either case as equal, or lists what a range has, takes minutes for these."""
    ranges = "".join(f"{chr(0x100 + n)}-\U0010ffff" for n in range(4000))
    for pattern in (f"(?i)[{ranges}]", f"[{ranges}](?=x)"):
        assert judge(Work(Text("JSON", json.dumps({"pattern": pattern})))).invalid == ""


def test_schemas_that_refer_to_two_others_that_refer_to_two_others() -> None:
    registry = PlayedRegistry()
    registry.register("s0", record("S0"))
    for number in range(1, 60):
        references = [{"name": f"S{number - 1}", "subject": f"s{number - 1}", "version": 1}] * 2
        made = record(f"S{number}", a=f"S{number - 1}")
        assert registry.register(f"s{number}", made, references=references) == number + 1
    assert registry("GET", "/subjects/s59/versions") == [1]


def test_references_are_only_so_deep() -> None:
    registry = PlayedRegistry()
    registry.register("s0", record("S0"))
    answers = [
        registry.register(
            f"s{n}", record(f"S{n}", a=f"S{n - 1}"), references=[{"name": "x", "subject": f"s{n - 1}", "version": 1}]
        )
        for n in range(1, 110)
    ]
    assert 42201 in answers
    assert registry.register("other", record("Other")) < 42201


@pytest.mark.parametrize(
    "reference",
    [
        {"name": "x", "subject": "s", "version": 1e300},
        {"name": "x", "subject": "s", "version": None},
        {"name": ["x"], "subject": "s", "version": 1},
        {"name": "x"},
        "x",
        7,
    ],
)
def test_a_reference_that_is_none_is_refused(reference: Any) -> None:
    assert PlayedRegistry().register("s", record("S"), references=[reference]) == 42201


def test_metadata_that_has_no_properties_is_in_no_group() -> None:
    registry = PlayedRegistry()
    registry("PUT", "/config/s", {"compatibilityGroup": "g"})
    assert registry.register("s", record("S"), metadata={"properties": ["g"]}) == 1
    assert registry.register("s", record("S", x=("int", 0)), metadata={"properties": {"g": "1"}}) == 2
    assert registry("GET", "/subjects/s/metadata", key="g", value="1")["id"] == 2


@pytest.mark.parametrize(
    "data", [b"[NaN]", b"[Infinity]", b"[1e999]", b'["\\ud800"]', b"\xff", b"[" * 200_000, b"7" * 200_000]
)
def test_what_other_readers_could_not_read_is_not_taken(data: bytes) -> None:
    with pytest.raises(RegistryError):
        body_of(data)


def test_a_large_body_says_the_same_as_a_small_one() -> None:
    said: dict[str, Any] = {"a": [1, -2.5, True, None, 'é\n"', {"b": {}}] * 20_000}
    assert body_of(json.dumps(said).encode()) == said
