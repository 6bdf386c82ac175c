"""Protobuf: files are read, written as one text, and compared by a table of changes in both directions.

Where the verdicts come from: GUIDE is "Updating A Message Type" of the language guide (protobuf.dev),
with what it says of kinds that are written alike, of `optional` and `repeated`, and of moving fields into a oneof;
RULES are those that Confluent publishes for its registry beyond it: messages, required fields and members of a oneof
that are gone, other packages (docs.confluent.io, and R. Yokota, Understanding Protobuf Compatibility, yokota.blog,
2021-08-26).
"""

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

GUIDE, RULES = "guide", "rules"


def proto2(body: str) -> str:
    return file(f"message M {{ {body} }}", PROTO2)


# source, old, new, whether the new one reads what the old one wrote, and the reverse
CHANGES: list[tuple[str, str, str, bool, bool]] = [
    *(
        (GUIDE, message(f"{old} a = 1;"), message(f"{new} a = 1;"), alike, alike)
        for old, new in itertools.combinations(SCALARS, 2)
        for alike in [any({old, new} <= kinds for kinds in ALIKE)]
    ),
    # fields
    (GUIDE, message("string a = 1;"), message("string b = 1;"), True, True),
    (GUIDE, message("string a = 1;"), message("string a = 1; int32 b = 2;"), True, True),
    (GUIDE, message("string a = 1;"), message("string a = 2;"), True, True),
    (GUIDE, message("string a = 1; int32 b = 2;"), message("int32 b = 2; string a = 1;"), True, True),
    (GUIDE, message("string a = 1; int32 b = 2;"), message("int32 a = 1; string b = 2;"), False, False),
    (GUIDE, message("string a = 1;"), message('reserved 1; reserved "a";'), True, True),
    (GUIDE, message("string a = 1;"), message("optional string a = 1;"), True, True),
    (GUIDE, message("string a = 1;"), message("string a = 1 [deprecated = true];"), True, True),
    (GUIDE, message("string a = 1;"), message('string a = 1 [json_name = "b"];'), True, True),
    # optional and repeated
    (GUIDE, message("string a = 1;"), message("repeated string a = 1;"), True, True),
    (GUIDE, message("bytes a = 1;"), message("repeated bytes a = 1;"), True, True),
    (GUIDE, message("M a = 1;"), message("repeated M a = 1;"), True, True),
    (GUIDE, message("int32 a = 1;"), message("repeated int32 a = 1;"), False, False),
    (GUIDE, message("bool a = 1;"), message("repeated bool a = 1;"), False, False),
    (GUIDE, message("double a = 1;"), message("repeated double a = 1;"), False, False),
    (GUIDE, message("enum E { X = 0; } E a = 1;"), message("enum E { X = 0; } repeated E a = 1;"), False, False),
    (GUIDE, message("repeated int32 a = 1;"), message("repeated int64 a = 1;"), True, True),
    (GUIDE, message("repeated int32 a = 1;"), message("repeated string a = 1;"), False, False),
    # enums
    (GUIDE, message("int32 a = 1;"), file("enum E { X = 0; } message M { E a = 1; }"), True, True),
    (GUIDE, message("uint64 a = 1;"), file("enum E { X = 0; } message M { E a = 1; }"), True, True),
    (GUIDE, message("sint32 a = 1;"), file("enum E { X = 0; } message M { E a = 1; }"), False, False),
    (GUIDE, message("fixed32 a = 1;"), file("enum E { X = 0; } message M { E a = 1; }"), False, False),
    (GUIDE, message("string a = 1;"), file("enum E { X = 0; } message M { E a = 1; }"), False, False),
    (GUIDE, file("enum E { X = 0; }"), file("enum E { X = 0; Y = 1; }"), True, True),
    (GUIDE, file("enum E { X = 0; }"), file("enum E { Z = 0; }"), True, True),
    (RULES, file("enum E { X = 0; } message M {}"), file("message M {}"), True, True),
    # messages
    (GUIDE, message("int32 a = 1;"), message("M a = 1;"), False, False),
    (RULES, message("string a = 1;"), message("M a = 1;"), False, False),
    (RULES, message(""), file("message M {} message N {}"), True, False),
    (RULES, message(""), file("message N {} message M {}"), True, False),
    (RULES, message("message N {}"), message(""), False, True),
    (RULES, message("message N {} "), file("message M {} message N {}"), False, False),
    (RULES, file("message M { N n = 1; } message N {}"), file("message M { O n = 1; } message O {}"), False, False),
    (
        RULES,
        message("message N { int32 a = 1; } N n = 1;"),
        message("message N { string a = 1; } N n = 1;"),
        False,
        False,
    ),
    (GUIDE, message("message N { int32 a = 1; } N n = 1;"), message("message N { int64 a = 1; } N n = 1;"), True, True),
    (RULES, message("message N {} N n = 1;"), message("message N {} .M.N n = 1;"), True, True),
    (
        RULES,
        message("message N { M m = 1; } N n = 1;"),
        message("message N { M m = 1; M o = 2; } N n = 1;"),
        True,
        True,
    ),
    # oneof
    (RULES, message("oneof o { string a = 1; }"), message("oneof o { string a = 1; string b = 2; }"), True, False),
    (RULES, message("oneof o { string a = 1; string b = 2; }"), message("string a = 1;"), False, True),
    (GUIDE, message("string a = 1;"), message("oneof o { string a = 1; }"), True, True),
    (GUIDE, message("string a = 1; string b = 2;"), message("oneof o { string a = 1; string b = 2; }"), False, True),
    (GUIDE, message("oneof o { string a = 1; }"), message("oneof p { string a = 1; }"), True, True),
    (GUIDE, message("oneof o { string a = 1; }"), message("oneof o { int32 a = 1; }"), False, False),
    (GUIDE, message("oneof o { int32 a = 1; }"), message("oneof o { int64 a = 1; }"), True, True),
    (
        GUIDE,
        message("oneof o { string a = 1; string b = 2; } string c = 3;"),
        message("oneof o { string a = 1; string b = 2; string c = 3; }"),
        False,
        True,
    ),
    (
        GUIDE,
        message("oneof o { string a = 1; } oneof p { string b = 2; }"),
        message("oneof o { string a = 1; string b = 2; }"),
        False,
        True,
    ),
    (
        RULES,
        message("oneof o { string a = 1; string b = 2; }"),
        message("oneof p { string a = 1; string b = 2; }"),
        True,
        True,
    ),
    # maps
    (GUIDE, message("map<string, int32> m = 1;"), message("map<string, int64> m = 1;"), True, True),
    (GUIDE, message("map<string, int32> m = 1;"), message("map<string, string> m = 1;"), False, False),
    (GUIDE, message("map<string, int32> m = 1;"), message("map<int32, int32> m = 1;"), False, False),
    (GUIDE, message("map<int32, int32> m = 1;"), message("map<int64, int32> m = 1;"), True, True),
    (GUIDE, message("map<string, int32> m = 1;"), message("map<string, M> m = 1;"), False, False),
    (GUIDE, message("map<string, int32> m = 1;"), message("string m = 1;"), False, False),
    (GUIDE, message("map<string, int32> m = 1;"), message("repeated int32 m = 1;"), False, False),
    # packages and proto2
    (
        RULES,
        file("message M {}", 'syntax = "proto3"; package a;'),
        file("message M {}", 'syntax = "proto3"; package b;'),
        False,
        False,
    ),
    (RULES, message(""), file("message M {}", 'syntax = "proto3"; package b;'), False, False),
    (GUIDE, message("int32 a = 1;"), proto2("optional int32 a = 1;"), True, True),
    (RULES, proto2("optional int32 a = 1;"), proto2("required int32 a = 1;"), False, False),
    (RULES, proto2(""), proto2("required int32 a = 1;"), False, False),
    (GUIDE, proto2(""), proto2("optional int32 a = 1;"), True, True),
    (GUIDE, proto2("required int32 a = 1;"), proto2("required int32 b = 1;"), True, True),
    (GUIDE, proto2("optional int32 a = 1 [default = 1];"), proto2("optional int32 a = 1 [default = 2];"), True, True),
]


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: " to ".join(case[1:3])[:90])
def test_each_change_is_judged_in_both_directions(case: tuple[str, str, str, bool, bool]) -> None:
    old, new = parse(case[1]), parse(case[2])
    found, reverse = differences(new, old), differences(old, new)
    assert (not found, not reverse) == case[3:], [*found, *reverse]


def test_the_table_has_enough_changes() -> None:
    assert len(CHANGES) >= 150


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


OPTIONS = """
syntax = "proto2";
package shop;
import "confluent/meta.proto";
import "google/protobuf/descriptor.proto";
import "google/type/dayofweek.proto";
option (confluent.file_meta).doc = "a file";
extend google.protobuf.MessageOptions { optional Order about = 50001; }
message Order {
  option (confluent.message_meta).doc = "a message";
  option (about).(Order.more).id = 7;
  option deprecated = true;
  optional int64 id = 1 [(confluent.field_meta) = {params: [{key: "a", value: "b"}]}, deprecated = true];
  extensions 100 to 200;
  extend Order { optional Order more = 150; }
  oneof paid {
    option (confluent.oneof_meta).doc = "a oneof";
    google.type.DayOfWeek on = 2;
    google.protobuf.FieldDescriptorProto.Type as = 3;
    google.protobuf.DescriptorProto by = 4;
  }
  enum Kind {
    option allow_alias = true;
    SMALL = 0 [deprecated = true];
    TINY = 0 [(confluent.enum_value_meta).doc = "x"];
  }
}
"""


def test_options_of_all_kinds_are_kept() -> None:
    schema = parse(OPTIONS)
    for line in (
        'option (confluent.file_meta).doc = "a file";',
        '  option (confluent.message_meta).doc = "a message";',
        "  option (about).(Order.more).id = 7;",
        '(confluent.field_meta) = {params: [{key: "a", value: "b"}]}, deprecated = true];',
        "  extensions 100 to 200;",
        "  extend Order { optional Order more = 150; }",
        '    option (confluent.oneof_meta).doc = "a oneof";',
        "    SMALL = 0 [deprecated = true];",
        '    TINY = 0 [(confluent.enum_value_meta).doc = "x"];',
    ):
        assert f"{line}\n" in schema.canonical
    assert parse(schema.canonical).canonical == schema.canonical
    assert parse(schema.normalized).normalized == schema.normalized
    assert "DayOfWeek on = 2" in parse(schema.serialized).canonical
    assert differences(schema, parse(OPTIONS.replace('"a message"', '"another"'))) == []


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
