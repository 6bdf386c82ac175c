"""Schemas that differ in their writing alone, and references that lead back to where they came from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from coordinator.registry.played import Log, PlayedRegistry, record

from kavka.coordinator.registry.records import RegistryCodec, RegistryRecord, SchemaKey, SchemaVersion
from kavka.coordinator.registry.schema import Reference

STRING = {"type": "string"}
PROTO = 'syntax = "proto3";\n{}message M {{\n  {}\n}}\n'
ALIKE: list[tuple[str, Any, Any]] = [
    ("JSON", {"type": "object", "properties": {"a": STRING}}, {"properties": {"a": STRING}, "type": "object"}),
    ("JSON", {"properties": {"b": STRING, "a": STRING}}, {"properties": {"a": STRING, "b": STRING}}),
    ("AVRO", {**record(), "z": 1, "a": 2}, {"a": 2, "z": 1, **record()}),
    ("AVRO", {"type": "array", "items": {"type": "int", "z": 1, "a": 2}},
     {"type": "array", "items": {"a": 2, "type": "int", "z": 1}}),
    ("AVRO", {**record("n.R", a=["null", "n.R"])}, {**record("R", a=["null", "R"]), "namespace": "n"}),
    ("PROTOBUF", PROTO.format("", "int32 a = 1;\n  int32 b = 2;"), PROTO.format("", "int32 b = 2;\n  int32 a = 1;")),
    ("PROTOBUF", PROTO.format("", "M m = 1;"), PROTO.format("", ".M m = 1;")),
    (
        "PROTOBUF",
        PROTO.format('option java_package = "p";\noption cc_enable_arenas = true;\n', ""),
        PROTO.format('option cc_enable_arenas = true;\noption java_package = "p";\n', ""),
    ),
    (
        "PROTOBUF",
        PROTO.format('import "google/protobuf/timestamp.proto";\nimport "google/protobuf/duration.proto";\n', ""),
        PROTO.format('import "google/protobuf/duration.proto";\nimport "google/protobuf/timestamp.proto";\n', ""),
    ),
]  # fmt: skip
OTHER: list[tuple[str, Any, Any]] = [
    ("JSON", {"prefixItems": [STRING, True]}, {"prefixItems": [True, STRING]}),
    ("AVRO", record(a=("int", 0), b=("int", 0)), record(b=("int", 0), a=("int", 0))),
    ("AVRO", ["null", "int"], ["int", "null"]),
    ("PROTOBUF", PROTO.format("", "int32 a = 1;"), PROTO.format("", "int32 b = 1;")),
]


@pytest.mark.parametrize(("schema_type", "one", "other"), ALIKE, ids=lambda case: json.dumps(case)[:60])
def test_what_is_alike_is_one_version(schema_type: str, one: Any, other: Any) -> None:
    registry = PlayedRegistry()
    registry("PUT", "/config", {"normalize": True, "compatibility": "NONE"})
    first = registry.register("s", one, schema_type)
    assert registry.register("s", other, schema_type) == first
    assert registry.register("t", other, schema_type) == first
    text = other if isinstance(other, str) else json.dumps(other)
    assert registry("POST", "/subjects/s", {"schema": text, "schemaType": schema_type})["version"] == 1
    assert registry("GET", "/subjects/s/versions") == [1]


@pytest.mark.parametrize(("schema_type", "one", "other"), OTHER, ids=lambda case: json.dumps(case)[:60])
def test_what_is_not_alike_is_another_version(schema_type: str, one: Any, other: Any) -> None:
    registry = PlayedRegistry()
    registry("PUT", "/config", {"normalize": True, "compatibility": "NONE"})
    assert registry.register("s", one, schema_type) != registry.register("s", other, schema_type)
    assert registry("GET", "/subjects/s/versions") == [1, 2]


@pytest.mark.parametrize(
    ("config", "query", "versions"),
    [
        ({}, {}, [1, 2]),
        ({}, {"normalize": "false"}, [1, 2]),
        ({}, {"normalize": "true"}, [1]),
        ({"normalize": True}, {}, [1]),
        ({"normalize": True}, {"normalize": "false"}, [1]),  # as confluent-kafka always says
        ({"normalize": False}, {"normalize": "true"}, [1]),
    ],
)
def test_a_request_or_the_settings_ask_for_it(config: Any, query: Any, versions: list[int]) -> None:
    registry = PlayedRegistry()
    registry("PUT", "/config", {"compatibility": "NONE", **config})
    registry("PUT", "/config/s", {"compatibility": "NONE"})  # says nothing of it
    _, one, other = ALIKE[0]
    for each in (one, other):
        registry("POST", "/subjects/s/versions", {"schema": json.dumps(each), "schemaType": "JSON"}, **query)
    assert registry("GET", "/subjects/s/versions") == versions


def test_what_is_imported_stays_as_it_was() -> None:
    registry = PlayedRegistry()
    registry("PUT", "/config/s", {"normalize": True})
    registry("PUT", "/mode/s", {"mode": "IMPORT"})
    text = '{"type":"object","properties":{"b":true,"a":true}}'
    registry.register("s", text, "JSON", id=7, version=3)
    assert registry("GET", "/subjects/s/versions/3")["schema"] == text


def test_references_are_put_in_order() -> None:
    registry = PlayedRegistry()
    for name in ("A", "B"):
        registry.register(name, record(name))
    both = [{"name": "B", "subject": "B", "version": 1}, {"name": "A", "subject": "A", "version": 1}]
    schema = json.dumps(record("R", a="A", b="B"))
    for references in (both, both[::-1], [*both, both[0]]):
        registry("POST", "/subjects/s/versions", {"schema": schema, "references": references}, normalize="true")
    assert registry("GET", "/subjects/s/versions") == [1]
    assert registry("GET", "/subjects/s/versions/1")["references"] == both[::-1]


def test_a_reference_to_the_latest_stays_with_the_version_that_it_was() -> None:
    registry = PlayedRegistry()
    registry.register("a", record("A"))
    latest = {"name": "A", "subject": "a", "version": -1}
    registry.register("b", record("B", a=("A", {})), references=[latest])
    assert registry("GET", "/subjects/b/versions/1")["references"] == [{**latest, "version": 1}]
    registry.register("a", record("A", more=("int", 0)))
    assert registry("GET", "/subjects/b/versions/1")["references"] == [{**latest, "version": 1}]
    assert registry("GET", "/subjects/a/versions/1/referencedby") == [registry("GET", "/subjects/b/versions/1")["id"]]


def test_subjects_may_refer_to_each_other_s_latest() -> None:
    registry = PlayedRegistry()
    registry("PUT", "/config", {"compatibility": "NONE"})
    to = {name: [{"name": f"{name}.json", "subject": name, "version": -1}] for name in ("a", "b")}
    registry.register("a", {"type": "object"}, "JSON")
    registry.register("b", {"$ref": "a.json"}, "JSON", references=to["a"])
    registry.register("a", {"$ref": "b.json"}, "JSON", references=to["b"])
    registry.register("b", {"$ref": "a.json", "title": "again"}, "JSON", references=to["a"])
    registry("PUT", "/config", {"compatibility": "FULL_TRANSITIVE"})
    for subject in ("a", "b"):
        latest = registry("GET", f"/subjects/{subject}/versions/latest")
        body = {"schema": latest["schema"], "schemaType": "JSON", "references": latest["references"]}
        assert registry("POST", f"/subjects/{subject}", body)["version"] == 2


def test_what_is_not_there_yet_is_no_reference() -> None:
    registry = PlayedRegistry()
    registry("PUT", "/mode", {"mode": "IMPORT"})
    to_b, to_a = ([{"name": f"{each}.json", "subject": each, "version": 1}] for each in ("b", "a"))
    assert registry.register("a", {"$ref": "b.json"}, "JSON", id=1, version=1, references=to_b) == 42201
    assert registry.register("b", {"$ref": "a.json"}, "JSON", id=2, version=1, references=to_a) == 42201


def test_a_circle_of_references_from_elsewhere_can_be_left() -> None:
    log: Log = []
    for number, (subject, other) in enumerate((("a", "b"), ("b", "a")), 1):
        reference = Reference(f"{other}.json", other, 1)
        text = json.dumps({"type": "object", "properties": {other: {"$ref": f"{other}.json"}}})
        made = SchemaVersion(subject, 1, number, text, "JSON", (reference,))
        log.append(RegistryCodec().encode(RegistryRecord(SchemaKey(subject, 1), made)))
    registry = PlayedRegistry(log)
    to_b = [{"name": "b.json", "subject": "b", "version": 1}]
    again = {"type": "object", "properties": {"b": {"$ref": "b.json"}}, "title": "again"}
    assert registry.register("a", again, "JSON", references=to_b) == 3
    narrower = {"type": "object", "properties": {"b": {"type": "integer"}}}
    assert registry.register("a", narrower, "JSON") == 409
    assert registry("GET", "/subjects/a/versions") == [1, 2]
