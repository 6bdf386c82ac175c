"""Metrics as Prometheus reads them: its text format, written in parts so that a long page holds nobody up."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Final

from kavka.telemetry.metrics import Collected, Counter, Family, Gauge, Histogram, Metrics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PART_SAMPLES: Final = 500
"""A part of a page has about so many samples, which take a millisecond."""

_VALUE_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


def render(metrics: Metrics) -> bytes:
    """All metrics in Prometheus' text format."""
    return b"".join(parts(metrics))


def parts(metrics: Metrics) -> Iterator[bytes]:
    """The same, part by part; some are empty, while something is looked at that will be shown."""
    for _ in metrics.look():
        yield b""
    labelled: dict[tuple[str, ...], LabelTexts] = {}
    for family in metrics:
        lines = _family(family, labelled)
        while some := list(islice(lines, PART_SAMPLES)):
            yield ("\n".join(some) + "\n").encode()


class LabelTexts(dict[tuple[str, ...], str]):
    """The labels of samples as a page has them, by values: those of a topic are the same for each of its numbers."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, values: tuple[str, ...]) -> str:
        """Made when it is first asked for."""
        found = self[values] = _labels(self._names, values)
        return found


def _family(
    family: Family[Counter] | Family[Histogram] | Gauge | Collected, labelled: dict[tuple[str, ...], LabelTexts]
) -> Iterator[str]:
    if isinstance(family, Collected):
        name = yield from _head(family.name, family.help, grows=family.grows)
        for labels, value in family.samples:
            named = sorted(labels)
            yield f"{name}{_labels(named, map(labels.__getitem__, named))} {float(value)!r}"
    elif isinstance(family, Gauge):
        name = yield from _head(family.name, family.help, grows=family.grows)
        texts = labelled.setdefault(family.labels, LabelTexts(family.labels))
        for values, value in family.read():
            yield f"{name}{texts[values]} {float(value)!r}"
    else:
        name = family.name
        if family.made is Histogram:
            yield from _describe(name, family.help, "histogram")
        else:
            name = yield from _head(name, family.help, grows=True)
        for values, child in family.children.items():
            if isinstance(child, Histogram):
                if child.total or not family.labels:
                    yield from _histogram(family, values, child)
            else:
                yield f"{name}{_labels(family.labels, values)} {float(child.value)!r}"


def _head(name: str, help: str, *, grows: bool) -> Generator[str, None, str]:
    """What a family begins with; the name of its samples is returned."""
    shown = f"{name}_total" if grows else name
    yield from _describe(shown, help, "counter" if grows else "gauge")
    return shown


def _describe(name: str, help: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help.translate(_HELP_ESCAPES)}"
    yield f"# TYPE {name} {kind}"


def _labels(names: Iterable[str], values: Iterable[str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_VALUE_ESCAPES)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _histogram(
    family: Family[Counter] | Family[Histogram], values: tuple[str, ...], histogram: Histogram
) -> Iterator[str]:
    """Cumulative counts up to powers of two."""
    names, seen = (*family.labels, "le"), 0
    highest = max((bits for bits, count in enumerate(histogram.counts) if count), default=0)
    shown_bits = family.bits or range(highest + 1)
    for bits, count in enumerate(histogram.counts):
        seen += count
        if bits in shown_bits:
            bound = f"{((1 << bits) - 1) * family.scale:.7g}"
            yield f"{family.name}_bucket{_labels(names, (*values, bound))} {float(seen)!r}"
    yield f"{family.name}_bucket{_labels(names, (*values, '+Inf'))} {float(seen)!r}"
    shown = _labels(family.labels, values)
    yield f"{family.name}_count{shown} {float(seen)!r}"
    yield f"{family.name}_sum{shown} {float(histogram.total * family.scale)!r}"
