"""Patterns of clients: RE2's, matched whole, weighed before they hold the loop."""

from __future__ import annotations

import pytest

from kavka.model.pattern import MAX_WEIGHT, Pattern, PatternError, weigh


@pytest.mark.parametrize(
    "text",
    [
        "(?i)" + r"\pL" * 9000,
        r"\pL" * 300,
        r"\PL" * 300,
        "a{1000}" * 500,
        "(?:" + "ab" * 4000 + "){1000}x",
        "a" * 20_000,
    ],
)
def test_what_takes_long_to_read_is_not_given_to_re2(text):
    assert weigh(text) > MAX_WEIGHT or len(text) < 9_000
    with pytest.raises(PatternError, match="it is too large"):
        Pattern(text)


@pytest.mark.parametrize("text", [r"\pL{500}", "(?:[^a][^a][^a]){900}", r"(?:[^\pL]\pL){30}"])
def test_what_is_short_and_large_when_compiled_is_refused(text):
    assert weigh(text) <= MAX_WEIGHT
    with pytest.raises(PatternError, match="it is too large"):
        Pattern(text)


@pytest.mark.parametrize(
    ("text", "matched", "other"),
    [
        ("|".join(f"orders-{number}" for number in range(600)), "orders-599", "orders-600"),
        (r"[\p{L}\p{N}._-]+", "órders.1", "orders 1"),
        (r"(?i)orders-\d{4}-(eu|us)", "Orders-2026-EU", "orders-26-eu"),
        ("[a-z]{1,20}[.][^x]{3}.*", "orders.eu-1", "orders.xy-1"),
        ("a{0}", "", "a"),
    ],
)
def test_what_people_write_is_taken(text, matched, other):
    pattern = Pattern(text)
    assert pattern.matches(matched)
    assert not pattern.matches(other)


@pytest.mark.parametrize("text", ["(", "[a", "a(?=b)", r"(a)\1", "*"])
def test_what_re2_cannot_read_is_refused_in_few_words(text):
    with pytest.raises(PatternError, match="RE2 cannot read it"):
        Pattern(text)


def test_what_would_take_long_to_match_is_known():
    heavy = Pattern("|".join(f"orders-{number}" for number in range(600)))
    assert not heavy.is_too_long("a" * 249)
    assert heavy.is_too_long("a" * 32_000)
    assert not Pattern("orders-.*").is_too_long("a" * 10_000)
