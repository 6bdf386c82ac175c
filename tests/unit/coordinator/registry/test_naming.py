"""What subjects may be named after."""

from __future__ import annotations

import pytest

from kavka.coordinator.registry.judging import Text
from kavka.coordinator.registry.naming import names_of

PROTO = """syntax = "proto3";
package shop;
message Order { message Line { int32 n = 1; } Line line = 1; }
message Other {}
"""


@pytest.mark.parametrize(
    ("kind", "text", "names"),
    [
        ("AVRO", '{"type": "record", "name": "Order", "namespace": "shop", "fields": []}', ("shop.Order",)),
        ("AVRO", '{"type": "record", "name": "a.Order", "namespace": "shop", "fields": []}', ("a.Order",)),
        ("AVRO", '{"type": "enum", "name": "Kind", "symbols": []}', ("Kind",)),
        ("AVRO", '"string"', ()),
        ("AVRO", '["null", "int"]', ()),
        ("JSON", '{"title": "Order", "type": "object"}', ("Order",)),
        ("JSON", "true", ()),
        ("JSON", '{"title": 7}', ()),
        ("PROTOBUF", PROTO, ("shop.Order", "shop.Order.Line", "shop.Other")),
        ("PROTOBUF", 'syntax = "proto3"; message Bare {}', ("Bare",)),
        ("PROTOBUF", "no file", ()),
        ("AVRO", "no JSON", ()),
    ],
)
def test_a_schema_has_the_names_of_its_records(kind: str, text: str, names: tuple[str, ...]) -> None:
    assert names_of(Text(kind, text)) == names
