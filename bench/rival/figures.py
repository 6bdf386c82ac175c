"""What is measured, and what the pairs of a run say: medians, ratios, verdicts. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.report import Target, at_least, at_most

Better = Literal["less", "more"]
Verdict = Literal["better", "worse", "even", "failed"]
KAFKA, KAVKA = "kafka", "kavka"
RIVALS = (KAFKA, KAVKA)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value of one rival."""

    case: str
    value: float
    unit: str
    better: Better
    aim: Target | None = None
    """What Kavka's figure divided by Kafka's is meant to be."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A figure, or why there is none, with where it stands in the run."""

    pair: int
    rival: str
    question: str
    figure: Figure | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table: a case over all pairs."""

    question: str
    case: str
    unit: str
    better: Better
    aim: Target | None
    kafka: tuple[float, ...]
    kavka: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """Kavka's figure divided by Kafka's, pair by pair."""
        return tuple(ours / theirs for ours, theirs in zip(self.kavka, self.kafka, strict=True))

    @property
    def ratio(self) -> float:
        """The median of the pairs."""
        return statistics.median(self.ratios)

    @property
    def advantage(self) -> float:
        """How many times better Kavka is: the ratio, turned round where less is better."""
        return self.ratio if self.better == "more" else 1 / self.ratio

    @property
    def advantages(self) -> tuple[float, float]:
        """The worst and the best pair for Kavka."""
        turned = sorted(ratio if self.better == "more" else 1 / ratio for ratio in self.ratios)
        return turned[0], turned[-1]

    @property
    def verdict(self) -> Verdict:
        """Whether Kavka is better: only if every pair says the same is it more than chance."""
        worst, best = self.advantages
        if worst > 1:
            return "better"
        return "worse" if best < 1 else "even"

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None without one."""
        return None if self.aim is None else self.aim.met(self.ratio)


def more(case: str, value: float, unit: str, aim: float | None = None) -> Figure:
    """A figure that should be high."""
    return Figure(case, value, unit, "more", None if aim is None else at_least(aim))


def less(case: str, value: float, unit: str, aim: float | None = None) -> Figure:
    """A figure that should be low."""
    return Figure(case, value, unit, "less", None if aim is None else at_most(aim))


def lines(samples: Iterable[Sample]) -> list[Line]:
    """The rows, in the order in which they were first measured; pairs that lack one side are left out."""
    figures: dict[tuple[str, str], dict[tuple[int, str], Figure]] = {}
    for sample in samples:
        if sample.figure is not None:
            cases = figures.setdefault((sample.question, sample.figure.case), {})
            cases[sample.pair, sample.rival] = sample.figure
    found = []
    for (question, case), values in figures.items():
        numbers = sorted({pair for pair, _ in values})
        whole = [number for number in numbers if all((number, rival) in values for rival in RIVALS)]
        usable = [number for number in whole if all(_counts(values[number, rival].value) for rival in RIVALS)]
        if usable:
            figure = values[usable[0], KAVKA]
            kafka, kavka = (tuple(values[number, rival].value for number in usable) for rival in RIVALS)
            found.append(Line(question, case, figure.unit, figure.better, figure.aim, kafka, kavka))
    return found


def failures(samples: Iterable[Sample]) -> list[Sample]:
    """What could not be measured."""
    return [sample for sample in samples if sample.figure is None]


def tally(rows: Sequence[Line]) -> str:
    """The run in one sentence."""
    verdicts = [row.verdict for row in rows]
    aims = [row.met for row in rows if row.met is not None]
    return (
        f"of {len(rows)} rows Kavka is better in {verdicts.count('better')}, worse in {verdicts.count('worse')}, "
        f"undecided in {verdicts.count('even')}; {sum(aims)} of {len(aims)} aims met"
    )


def _counts(value: float) -> bool:
    return math.isfinite(value) and value > 0
