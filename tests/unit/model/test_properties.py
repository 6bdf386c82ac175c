from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.model.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb: 2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("  a  =  1  ", {"a": "1  "}),
        ("# comment\n! comment\n\n   \na=1", {"a": "1"}),
        ("a=1#2", {"a": "1#2"}),
        ("a=one,\\\n   two,\\\n\tthree", {"a": "one,two,three"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("# not continued \\\na=1", {"a": "1"}),
        ("a=\\\n# part of the value", {"a": "# part of the value"}),
        ("\\\na=1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=\nb=", {"a": "", "b": ""}),
        ("a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        ("a==b", {"a": "=b"}),
        ("a = : b", {"a": ": b"}),
        ("a=\\t\\n\\r\\f\\x", {"a": "\t\n\r\fx"}),
        ("a=\\u010d\\u0065", {"a": "če"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("listeners=PLAINTEXT://:9092,B://h:1", {"listeners": "PLAINTEXT://:9092,B://h:1"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_broken_escape_names_its_line() -> None:
    with pytest.raises(ValueError, match=r"line 3: \\u12 is not a character"):
        parse_properties("\na=1\nb=\\u12")


@given(st.text())
def test_any_text_without_escapes_is_read(text: str) -> None:
    found = parse_properties(text.replace("\\", "/"))
    assert all(not key[:1].isspace() or key[0] not in " \t\f" for key in found)


def _escape(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" if char in " \t\f\n\r\\=:#!" else char for char in text)


@given(st.dictionaries(st.text(st.characters(max_codepoint=0xFFFF)), st.text(st.characters(max_codepoint=0xFFFF))))
def test_what_is_escaped_comes_back(pairs: dict[str, str]) -> None:
    text = "".join(f"{_escape(key)}={_escape(value)}\n" for key, value in pairs.items())
    assert parse_properties(text) == pairs
