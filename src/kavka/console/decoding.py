"""Bytes of records as people can look at them: JSON, text or hexadecimal, cut to a size, and harmless.

What is not meant to be seen is made visible: control characters as pictures, and those that turn the direction of
writing by their numbers. Escaping for HTML is the templates' business.
"""

from __future__ import annotations

import codecs
import json
from typing import Final, NamedTuple

PREVIEW_BYTES: Final = 8 * 1024
HEX_BYTES: Final = 1024
SNIPPET_CHARACTERS: Final = 180
MAGIC: Final = 0
"""The first byte of what serializers with a schema registry write; the schema's id follows in four."""
_TURNING: Final = (*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF, 0x61C)
_VISIBLE: Final = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"},
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **{code: f"\\u{code:04x}" for code in _TURNING},
}
_ONE_LINE: Final = {**_VISIBLE, ord("\n"): "\u2424", ord("\r"): "\u240d", ord("\t"): " "}


class Decoded(NamedTuple):
    """A key or value as it is shown."""

    kind: str
    """null, empty, json, text or hex."""
    text: str
    snippet: str
    """The beginning, on one line."""
    size: int
    cut: bool
    schema_id: int | str | None = None
    format: str = ""
    """Of the schema, if it was read by one."""
    problem: str = ""
    """Why it could not be read by the schema that it names."""


def visible(text: str) -> str:
    """A text in which everything can be seen."""
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """A text as a single short line."""
    line = text.translate(_ONE_LINE)
    return line if len(line) <= SNIPPET_CHARACTERS else line[: SNIPPET_CHARACTERS - 1] + "…"


def decode(data: bytes | None, most: int = PREVIEW_BYTES) -> Decoded:
    """What is shown of a key or a value."""
    if data is None:
        return Decoded("null", "", "null", 0, False)
    if not data:
        return Decoded("empty", "", "empty", 0, False)
    size, schema_id = len(data), None
    if data[0] == MAGIC and size > 5:
        schema_id, data = int.from_bytes(data[1:5], "big"), data[5:]
    text = _text(data[:most], whole=len(data) <= most)
    if text is None:
        shown = data[: min(most, HEX_BYTES)]
        return Decoded("hex", hex_dump(shown), _hex_line(shown), size, len(shown) < len(data), schema_id)
    cut = len(data) > most
    lines = None if cut else pretty(text)
    snippet = one_line(text.strip() if lines is not None else text)
    return Decoded(
        "text" if lines is None else "json",
        visible(text if lines is None else lines),
        snippet,
        size,
        cut,
        schema_id,
    )


def _text(data: bytes, *, whole: bool) -> str | None:
    """The text that bytes are in UTF-8, if they are; at the end of a piece a character may be missing."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError:
        return None
    odd = sum(character < " " and character not in "\t\n\r" for character in text)
    return None if odd * 10 > len(text) else text


def pretty(text: str) -> str | None:
    """A JSON object or array with its lines, or as it is if they would be far longer; None if the text is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        pieces, left = [], 4 * len(text) + 256
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(text)):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:  # deep nesting: the lines would be mostly spaces
                return text
    except (ValueError, RecursionError):
        return None
    return "".join(pieces)


def _hex_line(data: bytes) -> str:
    return one_line(data[:64].hex(" ")) + (" …" if len(data) > 64 else "")


def hex_dump(data: bytes) -> str:
    """Bytes with their offsets, in hexadecimal and as characters."""
    lines = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {characters}")
    return "\n".join(lines)
