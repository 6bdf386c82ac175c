"""What a running pipeline says of its flows, in a topic that consoles read: one record for each flow, by its name.

Whoever may write to the topic may write anything there: what cannot be read as a report is none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

STATUS_TOPIC: Final = "kavka-pipelines"
STATUS_CONFIGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(30 * 24 * 3_600_000),  # a flow that has not been heard of for so long is forgotten
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
DEAD_LETTER_REASON: Final = "kavka.error"
"""The header of a dead letter that says why it is one."""
MOST_BATCHES: Final = 30
MOST_POSITIONS: Final = 500
MOST_TEXT: Final = 1000
STATES: Final = ("running", "stopped", "failed")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One micro-batch."""

    number: int
    rows: int
    """Read from topics, bad ones included."""
    dead_letters: int
    seconds: float
    at_ms: int
    """When it began."""


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """How far a partition was read, and where it ended then."""

    topic: str
    partition: int
    read: int
    end: int


@dataclass(frozen=True, slots=True)
class TableReport:
    """A lake table, as its last commit left it."""

    format: str
    path: str
    rows: int
    files: int
    bytes: int
    version: int | None
    committed_ms: int | None


@dataclass(frozen=True, slots=True)
class FlowReport:
    """How a flow stands."""

    pipeline: str
    flow: str
    state: str
    at_ms: int
    every_ms: int
    """While it runs, the next report comes within this time."""
    host: str
    source: str
    """The topic, or the pattern of topics."""
    sink_topic: str | None = None
    dead_letter_topic: str | None = None
    error: str | None = None
    batches: tuple[BatchReport, ...] = ()
    """The last ones, the newest last."""
    positions: tuple[SourcePosition, ...] = ()
    more_positions: int = 0
    """Of how many partitions more nothing is said."""
    table: TableReport | None = None

    @property
    def key(self) -> bytes:
        """Under which it replaces the one before."""
        return f"{self.pipeline}/{self.flow}".encode()

    def encode(self) -> bytes:
        """The record's value."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> FlowReport:
        """What a record's value says; raises ValueError."""
        try:
            said: Any = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is no JSON: {error}") from None
        if not isinstance(said, dict):
            raise ValueError("it is no object")
        table = said.get("table")
        report = cls(
            pipeline=_text(said, "pipeline"),
            flow=_text(said, "flow"),
            state=_text(said, "state"),
            at_ms=_number(said, "at_ms"),
            every_ms=_number(said, "every_ms"),
            host=_text(said, "host"),
            source=_text(said, "source"),
            sink_topic=_perhaps(said, "sink_topic", str),
            dead_letter_topic=_perhaps(said, "dead_letter_topic", str),
            error=_perhaps(said, "error", str),
            batches=tuple(map(_batch, _list(said, "batches")[-MOST_BATCHES:])),
            positions=tuple(map(_position, _list(said, "positions")[:MOST_POSITIONS])),
            more_positions=_number(said, "more_positions"),
            table=None if table is None else _table(table),
        )
        if report.state not in STATES:
            raise ValueError(f"there is no state {report.state}")
        return report


def _batch(said: Any) -> BatchReport:
    seconds = _field(said, "seconds")
    if not isinstance(seconds, int | float) or not 0 <= seconds < 1e9:
        raise ValueError("seconds is no duration")
    return BatchReport(
        number=_number(said, "number"),
        rows=_number(said, "rows"),
        dead_letters=_number(said, "dead_letters"),
        seconds=float(seconds),
        at_ms=_number(said, "at_ms"),
    )


def _position(said: Any) -> SourcePosition:
    return SourcePosition(_text(said, "topic"), _number(said, "partition"), _number(said, "read"), _number(said, "end"))


def _table(said: Any) -> TableReport:
    return TableReport(
        format=_text(said, "format"),
        path=_text(said, "path"),
        rows=_number(said, "rows"),
        files=_number(said, "files"),
        bytes=_number(said, "bytes"),
        version=_perhaps(said, "version", int),
        committed_ms=_perhaps(said, "committed_ms", int),
    )


def _field(said: Any, name: str) -> Any:
    if not isinstance(said, dict) or name not in said:
        raise ValueError(f"it has no {name}")
    return said[name]


def _text(said: Any, name: str) -> str:
    found = _field(said, name)
    if not isinstance(found, str):
        raise ValueError(f"{name} is no text")
    return found[:MOST_TEXT]


def _number(said: Any, name: str) -> int:
    found = _field(said, name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 1 << 63:
        raise ValueError(f"{name} is no number from 0 on")
    return found


def _perhaps(said: Any, name: str, kind: type[T]) -> T | None:
    if _field(said, name) is None:
        return None
    return _text(said, name) if kind is str else _number(said, name)  # type: ignore[return-value]


def _list(said: Any, name: str) -> list[Any]:
    found = _field(said, name)
    if not isinstance(found, list):
        raise ValueError(f"{name} is no list")
    return found
