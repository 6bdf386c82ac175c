"""Avro: our verdicts beside those of Avro's own library, over every pair of many schemas."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from coordinator.registry.played import record

from kavka.coordinator.registry import avro
from kavka.coordinator.registry.avro_compatibility import differences
from kavka.coordinator.registry.schema import SchemaError

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 4}
SCHEMAS: list[Any] = [
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    {"type": "array", "items": "int"},
    {"type": "array", "items": "long"},
    {"type": "map", "values": "string"},
    {"type": "map", "values": "int"},
    ["null", "string"],
    ["null", "int", "string"],
    ["int"],
    ENUM,
    {**ENUM, "symbols": ["A", "B", "C"]},
    {**ENUM, "symbols": ["A"], "default": "A"},
    {**ENUM, "name": "E2"},
    FIXED,
    {**FIXED, "size": 8},
    {**FIXED, "name": "F2"},
    record(),
    record(a="int"),
    record(a="long"),
    record(a=("int", 1)),
    record(a="int", b="string"),
    record(a="int", b=("string", "")),
    record(a="int", b=(["null", "string"], None)),
    record("R2", a="int"),
    record(child=record("C", x="int")),
    record(child=record("C", x="int", y=("int", 0))),
    record(next=(["null", "R"], None)),
    record(items={"type": "array", "items": record("I", x="int")}),
]
PAIRS = list(itertools.product(range(len(SCHEMAS)), repeat=2))


def test_every_pair_is_judged_as_the_avro_library_judges_it() -> None:
    compatibility = pytest.importorskip("avro.compatibility", reason="needs pip install avro")
    schema = pytest.importorskip("avro.schema", reason="needs pip install avro")
    texts = [json.dumps(each) for each in SCHEMAS]
    ours, theirs = [avro.parse(text) for text in texts], [schema.parse(text) for text in texts]
    checker = compatibility.ReaderWriterCompatibilityChecker
    wrong = []
    for reader, writer in PAIRS:
        verdict = checker().get_compatibility(theirs[reader], theirs[writer]).compatibility
        expected = verdict is compatibility.SchemaCompatibilityType.compatible
        if (not differences(ours[reader], ours[writer])) != expected:
            wrong.append(f"{texts[reader]} reads {texts[writer]}: the library says {expected}")
    assert wrong == []
    assert len(PAIRS) >= 1000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"type":"record","fields":[]}', "without a name"),
        ('{"type":"record","name":"1x","fields":[]}', "illegal name"),
        ('{"type":"record","name":"R"}', "list of fields"),
        ('{"type":"record","name":"R","fields":[{"name":"a"}]}', "no type"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "twice"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}', "default"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"Missing"}]}', "no type Missing"),
        ('{"type":"enum","name":"E","symbols":["A","A"]}', "twice"),
        ('{"type":"enum","name":"E","symbols":["A"],"default":"B"}', "not among"),
        ('{"type":"fixed","name":"F","size":"4"}', "size"),
        ('{"type":"array"}', "without items"),
        ('["int","int"]', "twice"),
        ('["int",["null"]]', "within a union"),
        ("[" * 5000, "not JSON"),
        ('{"type":"array","items":' * 500 + '"int"' + "}" * 500, "deep"),
        ("7", "a type is"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        avro.parse(text)


def test_names_aliases_and_attributes_are_kept() -> None:
    text = (
        '{"type":"record","name":"R","namespace":"a.b","doc":"d","fields":['
        '{"name":"x","type":{"type":"long","logicalType":"timestamp-millis"},"aliases":["y"]},'
        '{"name":"e","type":{"type":"enum","name":"E","symbols":["A"]},"default":"A","order":"ignore"},'
        '{"name":"f","type":["null","E"],"default":null}],"aliases":["Old","c.Older"]}'
    )
    assert avro.parse(text).canonical == text
    assert avro.parse(avro.parse(text).canonical).canonical == text


def test_an_alias_of_the_reader_finds_the_writer_s_field() -> None:
    reader = {"type": "record", "name": "R", "fields": [{"name": "new", "type": "int", "aliases": ["old"]}]}
    assert not differences(avro.parse(json.dumps(reader)), avro.parse(json.dumps(record(old="int"))))


def test_long_enums_that_are_met_again_and_again_count_more() -> None:
    long = {"type": "enum", "name": "E", "symbols": [f"S{n}" for n in range(50_000)]}
    old = record(f0=long) | {"fields": [{"name": f"f{n}", "type": "E" if n else long} for n in range(500)]}
    new = record() | {
        "fields": [{"name": f"f{n}", "type": {**long, "name": f"E{n}", "symbols": ["S0"]}} for n in range(500)]
    }
    with pytest.raises(SchemaError, match="too much to compare"):
        differences(avro.parse(json.dumps(new)), avro.parse(json.dumps(old)))
