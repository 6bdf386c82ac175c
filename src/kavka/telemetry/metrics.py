"""Counts and times of a node: plain numbers that the hot path adds to, read only when somebody asks.

A counter is bumped as `counter.value += 1`; nothing is locked, because one thread owns the node. What other objects
know already (open connections, bytes of logs) is not counted twice: a gauge asks them when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

M = TypeVar("M")

Labelled = tuple[tuple[str, ...], float]
"""A sample: the values of its labels, and its number."""

BUCKETS: Final = 65
"""Bucket `i` of a histogram holds the whole numbers of `i` bits, so any 64-bit number has one."""


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Histogram:
    """How often whole numbers fell between powers of two, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.total = 0

    def observe(self, value: int) -> None:
        """Count a number that is not negative."""
        self.counts[value.bit_length()] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many numbers were counted."""
        return sum(self.counts)

    def quantile(self, share: float) -> int:
        """A bound that at least this share of the numbers does not exceed; 0 when there are none."""
        wanted, seen = share * self.count, 0
        for bits, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return (1 << bits) - 1
        return 0


class Family(Generic[M]):
    """The metrics of one name, one for each combination of label values; made when first asked for."""

    __slots__ = ("bits", "children", "help", "labels", "made", "name", "scale")

    def __init__(
        self, name: str, help: str, labels: tuple[str, ...], make: Callable[[], M], scale: float, bits: range | None
    ) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self.scale = scale
        self.bits = bits  # the buckets of a histogram that are shown; None for those in use
        self.children: dict[tuple[str, ...], M] = {}
        self.made = make

    def of(self, *values: str) -> M:
        """The metric with these label values; keep it where it is bumped often."""
        found = self.children.get(values)
        if found is None:
            if len(values) != len(self.labels):
                raise ValueError(f"{self.name} has the labels {self.labels}, not {values}")
            found = self.children[values] = self.made()
        return found

    def adopt(self, values: tuple[str, ...], metric: M) -> None:
        """Show a metric that somebody else keeps."""
        self.children[values] = metric


class Gauge:
    """A number that others hold; `read` asks them."""

    __slots__ = ("grows", "help", "labels", "name", "read")

    def __init__(
        self,
        name: str,
        help: str,
        labels: tuple[str, ...],
        read: Callable[[], Iterable[Labelled]],
        *,
        grows: bool = False,
    ) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self.read = read
        self.grows = grows  # whether it only ever grows, as a counter does


class Collected(NamedTuple):
    """Numbers of one name that others pushed, each with labels of its own."""

    name: str
    help: str
    grows: bool
    samples: Sequence[tuple[Mapping[str, str], float]]


Shown = Family[Counter] | Family[Histogram] | Gauge | Collected


class Metrics:
    """All metrics of a node, by name."""

    def __init__(self) -> None:
        self._families: dict[str, Family[Counter] | Family[Histogram] | Gauge] = {}
        self._collectors: list[Callable[[], Iterable[Collected]]] = []
        self._surveys: list[Callable[[], Iterable[None]]] = []

    def __iter__(self) -> Iterator[Shown]:
        yield from self._families.values()
        for collect in self._collectors:
            yield from collect()

    def collect(self, read: Callable[[], Iterable[Collected]]) -> None:
        """Show families that come and go, asked for when they are shown."""
        self._collectors.append(read)

    def survey(self, look: Callable[[], Iterable[None]]) -> None:
        """Have something looked at before the metrics are shown, in steps between which others have their turn."""
        self._surveys.append(look)

    def look(self) -> Iterator[None]:
        """Get ready to be shown, in steps."""
        for survey in self._surveys:
            yield from survey()

    def counters(self, name: str, help: str, *labels: str) -> Family[Counter]:
        """Counters that differ in their labels."""
        family = Family(name, help, labels, Counter, 1.0, None)
        self._add(family)
        return family

    def counter(self, name: str, help: str) -> Counter:
        """A counter without labels."""
        return self.counters(name, help).of()

    def histograms(
        self, name: str, help: str, *labels: str, scale: float = 1.0, bits: range | None = None
    ) -> Family[Histogram]:
        """Histograms that differ in their labels; shown numbers are the counted ones times `scale`."""
        family = Family(name, help, labels, Histogram, scale, bits)
        self._add(family)
        return family

    def histogram(self, name: str, help: str, scale: float = 1.0) -> Histogram:
        """A histogram without labels."""
        return self.histograms(name, help, scale=scale).of()

    def gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """A number that is asked for when it is shown."""
        self._add(Gauge(name, help, (), lambda: (((), read()),)))

    def gauges(self, name: str, help: str, labels: tuple[str, ...], read: Callable[[], Iterable[Labelled]]) -> None:
        """Numbers that differ in their labels, asked for when they are shown."""
        self._add(Gauge(name, help, labels, read))

    def count(self, name: str, help: str, read: Callable[[], float]) -> None:
        """A number that only grows, kept elsewhere and asked for when it is shown."""
        self._add(Gauge(name, help, (), lambda: (((), read()),), grows=True))

    def counts(self, name: str, help: str, labels: tuple[str, ...], read: Callable[[], Iterable[Labelled]]) -> None:
        """Growing numbers that differ in their labels, asked for when they are shown."""
        self._add(Gauge(name, help, labels, read, grows=True))

    def _add(self, family: Family[Counter] | Family[Histogram] | Gauge) -> None:
        if family.name in self._families:
            raise ValueError(f"there are two metrics named {family.name}")
        self._families[family.name] = family


class StallWatch:
    """Whether the event loop was held: told the time at every tick, it counts how late the tick came."""

    __slots__ = ("_due_us", "interval_us", "late", "stalls", "threshold_us", "worst_us")

    def __init__(
        self, late: Histogram, stalls: Counter, interval_us: int = 100_000, threshold_us: int = 20_000
    ) -> None:
        self.late = late
        self.stalls = stalls
        self.interval_us = interval_us
        self.threshold_us = threshold_us
        self.worst_us = 0
        self._due_us: int | None = None

    def tick(self, now_us: int) -> int:
        """Count one tick of a timer that is set anew for `interval_us` after each; answers how late it was."""
        late_us = 0 if self._due_us is None else max(now_us - self._due_us, 0)
        self._due_us = now_us + self.interval_us
        self.late.observe(late_us)
        if late_us > self.worst_us:
            self.worst_us = late_us
        if late_us >= self.threshold_us:
            self.stalls.value += 1
        return late_us
