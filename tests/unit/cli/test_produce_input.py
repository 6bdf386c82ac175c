"""Records from lines, and records made up."""

from __future__ import annotations

import json

import pytest

from kavka.cli.lines import Record, from_json, generate, keyed
from kavka.cli.output import CommandError
from kavka.cli.records import as_json
from kavka.client import ConsumerRecord


def test_a_line_is_a_record_without_its_line_end() -> None:
    assert [keyed(None)(line, 1)[:2] for line in (b"a", b"b\r", b"")] == [(None, b"a"), (None, b"b"), (None, b"")]


def test_the_key_ends_at_the_first_separator() -> None:
    assert keyed("=>")(b"k=>v=>w", 1) == Record(b"k", b"v=>w")
    assert keyed("=>")(b"=>", 1) == Record(b"", b"")


def test_a_key_may_be_for_all_lines() -> None:
    assert keyed(None, "k")(b"v", 1) == Record(b"k", b"v")


def test_a_text_may_stand_for_null() -> None:
    parse = keyed(":", null="NULL")
    assert [parse(line, 1)[:2] for line in (b"a:NULL", b"NULL:b", b"a:")] == [(b"a", None), (None, b"b"), (b"a", b"")]
    assert keyed(None, "k", "")(b"", 1) == Record(b"k", None)


def test_a_line_without_the_separator_is_named() -> None:
    with pytest.raises(CommandError, match="line 2 has no key separator ':'"):
        keyed(":")(b"c", 2)


@pytest.mark.parametrize(
    "record",
    [
        ConsumerRecord("t", 1, 2, 3, b"k", b"v"),
        ConsumerRecord("t", 1, 2, 3, None, None, (("h", None), ("i", b"\xff"), ("i", b""))),
        ConsumerRecord("t", 1, 2, 3, b"\xff", "ž\n".encode()),
        ConsumerRecord("t", 1, 2, 3, b"", b""),
    ],
)
def test_what_is_consumed_as_json_can_be_produced(record: ConsumerRecord) -> None:
    assert from_json(as_json(record), 1) == Record(record.key, record.value, record.headers, record.timestamp)


def test_a_value_may_be_any_json() -> None:
    assert json.loads(from_json(b'{"value": {"a": [1]}}', 1).value or b"") == {"a": [1]}
    assert from_json(b"{}", 1) == Record(None, None)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "line 7 is no JSON"),
        (b"[]", "line 7 is no JSON object"),
        (b'{"valeu": 1}', "line 7 has 'valeu'; known are headers, key"),
        (b'{"value_base64": "?"}', "line 7: value_base64 is no base64"),
        (b'{"value_base64": 5}', "line 7: value_base64 is no base64"),
        (b'{"headers": {"a": "b"}}', "line 7: headers are a list"),
        (b'{"timestamp": "now"}', "line 7: timestamp is a number"),
    ],
)
def test_what_is_no_record_is_named(line: bytes, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        from_json(line, 7)


def test_generated_records_have_the_size_and_differ() -> None:
    values = [record.value for record in generate(100, 50)]
    assert {len(value or b"") for value in values} == {50}
    assert len(set(values)) == 100
