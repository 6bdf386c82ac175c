"""Where reading begins, and how records are written."""

from __future__ import annotations

import json

import pytest
import typer

from kavka.cli.consume import as_json, parse_place
from kavka.client import At, ConsumerRecord, Place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start", "start"),
        ("end", "end"),
        ("0", 0),
        ("42", 42),
        ("@1700000000000", At(1_700_000_000_000)),
        ("2023-11-14T22:13:20", At(1_700_000_000_000)),
        ("2023-11-14T23:13:20+01:00", At(1_700_000_000_000)),
        ("2023-11-14", At(1_699_920_000_000)),
    ],
)
def test_a_place_is_a_word_an_offset_or_a_time(text: str, place: Place) -> None:
    assert parse_place(text) == place


@pytest.mark.parametrize("text", ["", "-1", "begin", "@soon", "25:00"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not start, end"):
        parse_place(text)


def test_json_has_everything_and_says_what_is_not_text() -> None:
    record = ConsumerRecord("t", 1, 2, 3, "clé".encode(), b"\xff\x00", (("h", None), ("i", b"\xfe")))
    assert json.loads(as_json(record)) == {
        "topic": "t",
        "partition": 1,
        "offset": 2,
        "timestamp": 3,
        "key": "clé",
        "value_base64": "/wA=",
        "headers": [{"name": "h", "value": None}, {"name": "i", "value_base64": "/g=="}],
    }


def test_a_tombstone_has_a_null_value() -> None:
    assert json.loads(as_json(ConsumerRecord("t", 0, 0, 0, None, None)))["value"] is None
