"""Filters of records, as people write them."""

from __future__ import annotations

import asyncio

import pytest

from kavka.client import ConsumerRecord
from kavka.console.reading import FilterError, newest, shown, wanted_by

RECORD = ConsumerRecord(
    "t", 0, 5, 1_700_000_000_000, b"k1", b'{"who": {"name": "Anna"}, "n": [1, 22], "ok": true}', (("trace", b"abc"),)
)


@pytest.mark.parametrize(
    ("text", "key", "fits"),
    [
        ("anna", "", True),
        ("ABC", "", True),
        ("nobody", "", False),
        ("", "k1", True),
        ("", "k2", False),
        ("anna", "k2", False),
        (r"/A\w+a/", "", True),
        ("/^nope$/", "", False),
        (".who.name=Anna", "", True),
        (".who.name=anna", "", False),
        (".n.1=22", "", True),
        (".n.9=22", "", False),
        (".ok=true", "", True),
        (".missing=1", "", False),
    ],
)
def test_a_filter_is_text_a_pattern_or_a_field(text: str, key: str, fits: bool) -> None:
    wanted = wanted_by(text, key)
    assert wanted is not None
    assert wanted(RECORD) is fits


def test_no_filter_is_none() -> None:
    assert wanted_by("  ") is None


@pytest.mark.parametrize("text", ["/(/", ".=1", "x" * 2000])
def test_what_makes_no_sense_is_refused_in_words(text: str) -> None:
    with pytest.raises(FilterError, match=r"regular expression|written as|at most"):
        wanted_by(text)


def test_a_pattern_that_would_take_for_ever_elsewhere_does_not() -> None:
    wanted = wanted_by("/(a+)+$/")
    assert wanted is not None
    assert not wanted(RECORD._replace(key=None, value=b"a" * 5000 + b"b", headers=()))


@pytest.mark.parametrize("value", [None, b"", b"\xff\xfe", b"{broken", b"[" * 10_000])
def test_values_that_are_no_json_have_no_fields(value: bytes | None) -> None:
    wanted = wanted_by(".a=1")
    assert wanted is not None
    assert not wanted(RECORD._replace(value=value))


def test_a_record_with_many_headers_shows_some() -> None:
    headers = tuple((f"h{number}", b"x" * 5000) for number in range(1000))
    found = asyncio.run(shown(RECORD._replace(headers=headers)))
    assert len(found.headers) == 50
    assert all(len(content.text) <= 512 for _, content in found.headers)


def test_of_records_of_one_moment_the_last_are_the_newest() -> None:
    records = [asyncio.run(shown(RECORD._replace(offset=offset))) for offset in range(10)]
    assert [record.offset for record in newest(records, 3)] == [9, 8, 7]
