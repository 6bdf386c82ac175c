"""What is remembered of pairs that were compared: nothing that was found on terms that did not hold."""

from __future__ import annotations

import pytest

from kavka.coordinator.registry.comparing import MAX_DIFFERENCES, Compared, Effort
from kavka.coordinator.registry.schema import Difference, SchemaError

OUTER, INNER, WRITER = [1], [2], [3]
WRONG = Difference("TYPE_MISMATCH", "/", "wrong")


def test_a_pair_is_compared_once() -> None:
    compared, times = Compared(Effort()), []

    def compare() -> list[Difference]:
        times.append(1)
        return [WRONG]

    assert compared.once(OUTER, WRITER, compare) == compared.once(OUTER, WRITER, compare) == [WRONG]
    assert len(times) == 1


def test_a_pair_within_itself_differs_in_nothing_else() -> None:
    compared = Compared(Effort())
    assert compared.once(OUTER, WRITER, lambda: compared.once(OUTER, WRITER, lambda: [WRONG])) == []


def test_what_was_alike_only_if_another_pair_was_is_compared_again() -> None:
    compared = Compared(Effort())

    def inner() -> list[Difference]:  # alike if the outer pair is
        return compared.once(OUTER, WRITER, lambda: [WRONG])

    def outer() -> list[Difference]:
        assert compared.once(INNER, WRITER, inner) == []
        return [WRONG]

    assert compared.once(OUTER, WRITER, outer) == [WRONG]
    assert compared.once(INNER, WRITER, inner) == [WRONG]


def test_there_is_an_end_to_it() -> None:
    compared = Compared(Effort(2))
    compared.once(OUTER, WRITER, list)
    compared.once(INNER, WRITER, list)
    with pytest.raises(SchemaError, match="too much to compare"):
        compared.once(WRITER, WRITER, list)


def test_only_so_many_differences_are_told() -> None:
    assert len(Compared(Effort()).once(OUTER, WRITER, lambda: [WRONG] * 1000)) == MAX_DIFFERENCES
