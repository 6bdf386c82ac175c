"""Protobuf: files are read, written as one text, and compared by a table of changes in both directions."""

from __future__ import annotations

import itertools

import pytest

from kavka.coordinator.registry.protobuf_compatibility import differences
from kavka.coordinator.registry.protobuf_schema import parse
from kavka.coordinator.registry.schema import SchemaError


def file(body: str, head: str = 'syntax = "proto3";') -> str:
    return f"{head}\n{body}"


def message(body: str) -> str:
    return file(f"message M {{ {body} }}")


ALIKE = [
    {"int32", "uint32", "int64", "uint64", "bool"},
    {"sint32", "sint64"},
    {"string", "bytes"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
    {"float"},
    {"double"},
]
SCALARS = sorted(set().union(*ALIKE))
PROTO2 = 'syntax = "proto2";'

# old, new, whether the new one reads what the old one wrote, and the reverse
CHANGES: list[tuple[str, str, bool, bool]] = [
    *(
        (message(f"{old} a = 1;"), message(f"{new} a = 1;"), alike, alike)
        for old, new in itertools.combinations(SCALARS, 2)
        for alike in [any({old, new} <= kinds for kinds in ALIKE)]
    ),
    (message("string a = 1;"), message("string b = 1;"), True, True),
    (message("string a = 1;"), message("string a = 1; int32 b = 2;"), True, True),
    (message("string a = 1;"), message("string a = 2;"), True, True),
    (message("string a = 1;"), message("repeated string a = 1;"), True, True),
    (message("int32 a = 1;"), message("repeated int32 a = 1;"), False, False),
    (message("int32 a = 1;"), message("M a = 1;"), False, False),
    (message("int32 a = 1;"), file("enum E { X = 0; } message M { E a = 1; }"), True, True),
    (message("string a = 1;"), file("enum E { X = 0; } message M { E a = 1; }"), False, False),
    (file("enum E { X = 0; }"), file("enum E { X = 0; Y = 1; }"), True, True),
    (message(""), file("message M {} message N {}"), True, False),
    (message(""), file("message N {} message M {}"), True, False),
    (file("message M { N n = 1; } message N {}"), file("message M { O n = 1; } message O {}"), False, False),
    (message("message N { int32 a = 1; } N n = 1;"), message("message N { string a = 1; } N n = 1;"), False, False),
    (message("message N { int32 a = 1; } N n = 1;"), message("message N { int64 a = 1; } N n = 1;"), True, True),
    (message("oneof o { string a = 1; }"), message("oneof o { string a = 1; string b = 2; }"), True, False),
    (message("string a = 1;"), message("oneof o { string a = 1; }"), True, True),
    (message("string a = 1; string b = 2;"), message("oneof o { string a = 1; string b = 2; }"), False, True),
    (message("oneof o { string a = 1; }"), message("oneof p { string a = 1; }"), True, True),
    (
        message("oneof o { string a = 1; string b = 2; } string c = 3;"),
        message("oneof o { string a = 1; string b = 2; string c = 3; }"),
        False,
        True,
    ),
    (message("map<string, int32> m = 1;"), message("map<string, int64> m = 1;"), True, True),
    (message("map<string, int32> m = 1;"), message("map<string, string> m = 1;"), False, False),
    (message("map<string, int32> m = 1;"), message("map<int32, int32> m = 1;"), False, False),
    (message("map<string, int32> m = 1;"), message("string m = 1;"), False, False),
    (
        file("message M {}", 'syntax = "proto3"; package a;'),
        file("message M {}", 'syntax = "proto3"; package b;'),
        False,
        False,
    ),
    (
        file("message M { optional int32 a = 1; }", PROTO2),
        file("message M { required int32 a = 1; }", PROTO2),
        False,
        False,
    ),
    (file("message M { }", PROTO2), file("message M { required int32 a = 1; }", PROTO2), False, False),
    (file("message M { }", PROTO2), file("message M { optional int32 a = 1; }", PROTO2), True, True),
]


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: " to ".join(case[:2])[:90])
def test_each_change_is_judged_in_both_directions(case: tuple[str, str, bool, bool]) -> None:
    old, new = parse(case[0]), parse(case[1])
    found, reverse = differences(new, old), differences(old, new)
    assert (not found, not reverse) == case[2:], [*found, *reverse]


def test_the_table_has_enough_verdicts() -> None:
    assert len(CHANGES) * 2 >= 150


EVERYTHING = """
syntax = "proto2";
package shop.v1; // what it is about
import public "other.proto";
import "google/protobuf/timestamp.proto";
option java_package = "org.shop";
/* a block
   comment */
message Order {
  reserved 100 to 199, 300;
  reserved "old";
  required int64 id = 1;
  optional string name = 2 [default = "x;y", deprecated = true];
  repeated .shop.v1.Order.Line lines = 3;
  map<string, Kind> kinds = 4;
  oneof paid {
    google.protobuf.Timestamp at = 5;
    bool never = 6;
  }
  optional other.Thing thing = 7;
  message Line { optional double price = 1; }
  enum Kind { SMALL = 0; LARGE = -1; }
}
service Shop { rpc Buy (Order) returns (Order) { option idempotent = true; } }
"""
OTHER = 'syntax = "proto3"; package other; message Thing { string a = 1; }'


def test_a_file_is_read_whole_and_written_as_one_text() -> None:
    schema = parse(EVERYTHING, {"other.proto": OTHER})
    again = parse(schema.canonical, {"other.proto": OTHER})
    assert again.canonical == schema.canonical
    assert "  repeated .shop.v1.Order.Line lines = 3;\n" in schema.canonical
    assert "  map<string, .shop.v1.Order.Kind> kinds = 4;\n" in schema.canonical
    assert '  optional string name = 2 [default = "x;y", deprecated = true];\n' in schema.canonical
    assert "service Shop { rpc Buy" in schema.canonical


@pytest.mark.parametrize(
    "text",
    [
        message("string a = 1; repeated int32 b = 2; optional bool c = 3;"),
        message("map<string, M> m = 1; oneof o { string a = 2; M b = 3; }"),
        file("enum E { X = 0; Y = 5; } message M { E e = 1; message N { M.N again = 1; } N n = 2; }"),
        file('message M { required int32 a = 1; optional string b = 2 [default = "x"]; }', PROTO2),
        file("message M { }", 'syntax = "proto3"; package a.b.c;'),
    ],
)
def test_a_descriptor_says_what_the_text_says(text: str) -> None:
    schema = parse(text)
    assert parse(schema.serialized).canonical == schema.canonical


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message", "line 1: expected the name"),
        ("message M {\n  string a;\n}", "line 2: expected '='"),
        ("message M {\n  string a = 09;\n}", "line 2: expected"),
        ("message M { string a = " + "1" * 5000 + "; }", "line 1: expected"),
        ("message M { string a = 1; int32 b = 1; }", "number 1"),
        ("message M { string a = 0; }", "number 0"),
        ("message M { string a = 19500; }", "19500"),
        ("message M { string a = 1; string a = 2; }", "name a"),
        ("message M { None a = 1; }", "not there"),
        ("message M {} message M {}", "twice"),
        ('import "none.proto";', "no such file"),
        ("enum E {}", "no values"),
        ('syntax = "proto9";', "proto9"),
        ("message M { string a = 1; ", "end"),
        ("@", "cannot read"),
        ("message M {" * 200 + "}" * 200, "expected|deep"),
    ],
)
def test_what_is_no_file_is_refused_with_the_place(text: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        parse(text)
