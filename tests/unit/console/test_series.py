"""The ring of numbers behind charts."""

from __future__ import annotations

from kavka.console.series import FEWEST_POINTS, Series


def test_what_is_missing_has_no_number() -> None:
    series = Series()
    series.add(1.0, {"a": 1})
    series.add(2.0, {"a": 2, "b": 5})
    series.add(3.0, {"b": 6})
    assert series.chart(["a", "b", "c"]) == [[1, 2, 3], [1, 2, None], [None, 5, 6], [None, None, None]]


def test_only_so_much_is_kept() -> None:
    series = Series(most_points=40)
    for at in range(100):
        series.add(at, {"a": at})
    times, numbers = series.chart(["a"])
    assert times == numbers == list(range(60, 100))


def test_many_series_are_shorter_and_what_is_gone_is_forgotten() -> None:
    series = Series(most_points=360, most_numbers=10_000)
    for at in range(200):
        series.add(at, {f"topic {number}": at for number in range(1000)} if at < 100 else {"left": at})
    assert FEWEST_POINTS <= len(series) <= 360
    assert series.chart(["topic 1"])[1] == [None] * len(series)
