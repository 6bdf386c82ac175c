"""What the pairs of a comparison say."""

from __future__ import annotations

import pytest
from bench.rival.figures import KAFKA, KAVKA, Figure, Line, Sample, failures, less, lines, more, tally


def line(better: str, kafka: tuple[float, ...], kavka: tuple[float, ...], aim: float | None = None) -> Line:
    figure = more("case", 1, "x", aim) if better == "more" else less("case", 1, "x", aim)
    return Line("question", "case", "x", figure.better, figure.aim, kafka, kavka)


def sample(pair: int, rival: str, figure: Figure | None, question: str = "q") -> Sample:
    return Sample(pair, rival, question, figure, "" if figure else "it broke")


def test_the_ratio_is_the_median_of_the_pairs_not_the_quotient_of_medians() -> None:
    row = line("more", kafka=(10, 20, 40), kavka=(30, 20, 20))
    assert row.ratios == (3, 1, 0.5)
    assert row.ratio == 1


def test_an_advantage_is_the_ratio_turned_round_where_less_is_better() -> None:
    assert line("more", (10,), (20,)).advantage == 2
    assert line("less", (10,), (20,)).advantage == 0.5
    assert line("less", (10, 10), (5, 20)).advantages == (0.5, 2)


@pytest.mark.parametrize(
    ("better", "kavka", "verdict"),
    [
        ("more", (11, 12, 30), "better"),
        ("more", (9, 8, 1), "worse"),
        ("more", (9, 12, 30), "even"),
        ("less", (9, 8, 1), "better"),
        ("less", (11, 12, 30), "worse"),
        ("less", (10, 8, 1), "even"),
    ],
)
def test_a_verdict_needs_every_pair_on_the_same_side(better: str, kavka: tuple[float, ...], verdict: str) -> None:
    assert line(better, (10, 10, 10), kavka).verdict == verdict


def test_an_aim_is_about_the_median_ratio() -> None:
    assert line("less", (100, 100), (10, 12), aim=0.2).met is True
    assert line("more", (100, 100), (140, 150), aim=1.5).met is False
    assert line("more", (100,), (140,)).met is None


def test_rows_come_in_the_order_of_measurement_with_all_their_pairs() -> None:
    samples = [
        sample(number, rival, figure)
        for number in (1, 2)
        for rival, factor in ((KAFKA, 1), (KAVKA, 2))
        for figure in (more("rate", 10 * factor * number, "x"), less("cost", 3 * factor, "y"))
    ]
    rate, cost = lines(samples)
    assert (rate.case, rate.kafka, rate.kavka) == ("rate", (10, 20), (20, 40))
    assert (cost.case, cost.ratio, cost.verdict) == ("cost", 2, "worse")


def test_a_pair_that_lacks_a_side_is_left_out_but_its_failure_is_kept() -> None:
    samples = [
        sample(1, KAFKA, more("rate", 10, "x")),
        sample(1, KAVKA, more("rate", 20, "x")),
        sample(2, KAFKA, more("rate", 10, "x")),
        sample(2, KAVKA, None),
    ]
    (row,) = lines(samples)
    assert row.ratios == (2,)
    assert [(one.pair, one.rival, one.failure) for one in failures(samples)] == [(2, KAVKA, "it broke")]


def test_a_case_that_only_one_rival_has_makes_no_row() -> None:
    assert lines([sample(1, KAFKA, more("rate", 10, "x"))]) == []


def test_a_cost_below_what_can_be_measured_makes_no_ratio() -> None:
    assert lines([sample(1, KAFKA, less("cpu", 0.0, "s")), sample(1, KAVKA, less("cpu", 0.1, "s"))]) == []


def test_the_tally_counts_lost_rows_too() -> None:
    rows = [line("more", (1,), (2,), aim=1.5), line("more", (2,), (1,), aim=1.0), line("more", (1, 1), (2, 0.5))]
    said = tally(rows)
    assert "better in 1, worse in 1, undecided in 1" in said
    assert "1 of 2 aims met" in said
