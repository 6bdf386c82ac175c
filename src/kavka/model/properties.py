"""Java's properties syntax, as `server.properties` is written in (java.util.Properties.load)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_BLANK: Final = " \t\f"
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a properties text; of a repeated key the last counts. Raises ValueError."""
    found = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            found[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined, without comments and empty lines, numbered from 1."""
    pending, first = "", 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANK)
        if not pending:  # also behind a continuation that brought nothing: so does Java
            if not line or line[0] in "#!":
                continue
            first = number
        if _continues(line):
            pending += line[:-1]
        else:
            yield first, pending + line
            pending = ""
    if pending:
        yield first, pending


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Key and value, still escaped: the key ends at the first bare blank, equals sign or colon."""
    end = 0
    while end < len(line) and line[end] not in " \t\f=:":
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            position += 4
            if len(digits) != 4 or not set(digits) <= set("0123456789abcdefABCDEF"):
                raise ValueError(f"\\u{digits} is not a character: four hexadecimal digits expected")
            out.append(chr(int(digits, 16)))
        else:
            out.append(_ESCAPED.get(escaped, escaped))
    return "".join(out)
