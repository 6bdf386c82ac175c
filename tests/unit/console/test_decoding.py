"""What is shown of the bytes of records."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.console.decoding import SNIPPET_CHARACTERS, decode, pretty, visible


@pytest.mark.parametrize(
    ("data", "kind", "snippet"),
    [
        (None, "null", "null"),
        (b"", "empty", "empty"),
        (b"hello", "text", "hello"),
        ('{"name": "Anežka"}'.encode(), "json", '{"name": "Anežka"}'),
        (b"[1, 2]", "json", "[1, 2]"),
        (b"42", "text", "42"),
        (b'{"cut": ', "text", '{"cut": '),
        (b"\xff\xfe\x00", "hex", "ff fe 00"),
        (b"\x01\x02\x03\x04 binary", "hex", "01 02 03 04 20 62 69 6e 61 72 79"),
        (b"two\nlines\tand a tab", "text", "two\u2424lines and a tab"),
    ],
)
def test_data_is_shown_as_what_it_is(data: bytes | None, kind: str, snippet: str) -> None:
    found = decode(data)
    assert (found.kind, found.snippet, found.cut) == (kind, snippet, False)


def test_json_gets_its_lines_and_what_a_registry_frames_its_schema_id() -> None:
    assert decode(b'{"a":1}').text == '{\n  "a": 1\n}'
    framed = decode(b"\x00\x00\x00\x00\x07" + b'{"a":1}')
    assert (framed.kind, framed.schema_id, framed.size) == ("json", 7, 12)
    assert decode(b"\x00\x00\x00\x00\x07\x02\x80\xff\xfe").schema_id == 7


def test_ten_megabytes_are_cut_and_so_is_what_is_shown_of_them() -> None:
    found = decode(b"x" * 10_000_000)
    assert found.cut
    assert found.size == 10_000_000
    assert len(found.text) <= 8192
    assert len(found.snippet) <= SNIPPET_CHARACTERS


def test_a_character_that_the_cut_divides_is_left_out() -> None:
    assert decode("é".encode() * 100, 33).text == "é" * 16


def test_what_cannot_be_seen_or_turns_the_writing_is_made_visible() -> None:
    assert visible("a\x00b\x1b[31m\u202eevil\u200b\x85") == "a\u2400b\u241b[31m\\u202eevil\\u200b\\x85"
    assert "\u202e" not in decode("abc\u202ecba".encode()).text


@pytest.mark.parametrize("text", ["[" * 5000, "[" * 4000 + "]" * 4000, '{"a":' * 1000 + "1" + "}" * 1000])
def test_json_that_is_deep_neither_fails_nor_grows(text: str) -> None:
    assert len(decode(text.encode()).text) <= 5 * len(text)


def test_a_number_with_many_digits_is_text() -> None:
    assert decode(b"[" + b"9" * 5000 + b"]").kind == "text"


@given(st.binary(max_size=300))
def test_any_bytes_are_shown_within_bounds(data: bytes) -> None:
    found = decode(data, 64)
    assert found.size == len(data)
    assert len(found.snippet) <= SNIPPET_CHARACTERS + 2
    assert not any(ord(character) < 32 and character not in "\t\n\r" for character in found.text)
    assert json.dumps(found.text)


def test_lines_that_would_be_mostly_spaces_are_not_made() -> None:
    bomb = "[" * 300 + "1," * 100_000 + "1" + "]" * 300
    tracemalloc.start()
    try:
        assert pretty(bomb) == bomb
        assert tracemalloc.get_traced_memory()[1] < 16 << 20  # with its lines it has 60 MB
    finally:
        tracemalloc.stop()
