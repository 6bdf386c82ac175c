"""JSON as the registry reads and writes it: what any other reader could read, too, and so that nobody is held up.

Python's own reader and writer are single calls that let no other thread run: four megabytes of brackets take a third
of a second. What is large is therefore read and written in steps, which takes longer and keeps nobody waiting.
"""

from __future__ import annotations

import json
from json import scanner
from typing import Any, Final

AT_ONCE: Final = 64 * 1024
"""Characters; up to here reading takes some milliseconds at most."""


def read_json(text: str | bytes) -> Any:
    """What a text says; raises ValueError, also for what is no number or no Unicode elsewhere, or RecursionError."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text))
    decoder = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)
    if len(text) > AT_ONCE:
        decoder.scan_once = scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    found = decoder.decode(text)
    if "\\u" in text:
        write_json(found).encode()
    return found


def write_json(value: Any, *, sort_keys: bool = False) -> str:
    """A value as text, without spaces; raises RecursionError."""
    encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, sort_keys=sort_keys)
    return "".join(encoder.iterencode(value))


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text:.20} is too large for a number")
    return number
