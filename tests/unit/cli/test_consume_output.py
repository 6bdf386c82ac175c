"""Where reading begins, and how records are written."""

from __future__ import annotations

import json

import pytest
import typer

from kavka.cli.places import parse_place
from kavka.cli.records import as_format, as_json, chosen
from kavka.client import At, ConsumerRecord, Last, Place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start", "start"),
        ("end", "end"),
        ("earliest", "start"),
        ("latest", "end"),
        ("-5", Last(5)),
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


@pytest.mark.parametrize("text", ["", "-", "-5w", "begin", "@soon", "25:00"])
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


def test_a_time_can_be_so_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)
    back = {"-1ms": 1, "-30s": 30_000, "-5m": 300_000, "-2h": 7_200_000, "-1d": 86_400_000}
    assert {text: parse_place(text) for text in back} == {text: At(1_700_000_000_000 - ms) for text, ms in back.items()}


RECORD = ConsumerRecord("t", 1, 2, 3, b"k", b"v\xff", (("h", None), ("i", b"j")))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%t-%p@%o %T", b"t-1@2 3"),
        (r"%k\t%v\n", b"k\tv\xff\n"),
        ("%K %V %h 100%%", b"1 2 h=,i=j 100%"),
        (r"\\%k", b"\\k"),
    ],
)
def test_a_format_shows_what_it_names(text: str, shown: bytes) -> None:
    assert as_format(text)(RECORD) == shown


@pytest.mark.parametrize("text", ["%x", "100%", "\\q"])
def test_a_format_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="it may have %t"):
        as_format(text)


@pytest.mark.parametrize(
    ("key", "value", "headers", "wanted"),
    [
        ("k", None, [], True),
        ("^x", None, [], False),
        (None, "v", [], True),
        ("k", "w", [], False),
        (None, None, ["h"], True),
        (None, None, ["i=j", "h"], True),
        (None, None, ["i=k"], False),
        (None, None, ["x"], False),
    ],
)
def test_records_are_chosen_by_key_value_and_headers(
    key: str | None, value: str | None, headers: list[str], wanted: bool
) -> None:
    choose = chosen(key, value, headers)
    assert choose is not None
    assert choose(RECORD) is wanted


def test_without_a_filter_all_are_wanted_and_null_matches_none() -> None:
    assert chosen(None, None, []) is None
    choose = chosen("", None, [])
    assert choose is not None
    assert not choose(ConsumerRecord("t", 0, 0, 0, None, None))
