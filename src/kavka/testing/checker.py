"""A checker of histories: what clients did and saw, and whether transactions kept their promise.

Clients note what they do in a `History`; `check` looks at all of it afterwards:

```python
history = History()
history.send("t1-0", "orders-0", "a")  # transaction, partition, a value that nobody else sends
history.sent("a", offset=17)  # acknowledged
history.commit("t1-0")  # asked for
history.committed("t1-0")  # acknowledged; or aborted("t1-0"), or nothing if nobody knows
history.read("reader", "orders-0", 17, "a")
history.reached("reader", "orders-0", 18)  # the reader has seen all of the partition up to here

assert not check(history)  # a list of faults
```

A transaction that was committed must be visible as a whole, an aborted one not at all, and one whose end nobody has
heard of either way, but whole. Values sent with no transaction (None) stand for themselves. A value may name the
value it was made from (`source`): then no source may be visible twice. Readers are taken to read only what is
committed; note those that do not with `committed=False`, which are only held to order and consistency.

Histories of several processes are written line by line and read together: `History(path)` appends each event to a
file at once, so that a process that is killed leaves all that it did; `load(paths)` puts them in order of time.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple


class ViolationKind(Enum):
    """The kinds of violations."""

    LOST = "a value that was committed, or acknowledged outside a transaction, is not there"
    DUPLICATE = "a value, or what was made of one source, is there twice"
    ABORTED = "a value of an aborted transaction was read"
    EARLY = "a value was read before anybody asked for the commit of its transaction"
    TORN = "a part of a transaction is there, and a part is not"
    PHANTOM = "a value was read that nobody has sent"
    CHANGED = "an offset has two values, or a value was acknowledged at another offset than it has"
    REORDERED = "values of one transaction are in another order in a partition than they were sent in"


class Violation(NamedTuple):
    """A promise that was not kept."""

    kind: ViolationKind
    what: str


class Event(NamedTuple):
    """One thing that happened."""

    at: float
    name: str
    values: tuple[Any, ...]


class History:
    """What clients did and saw, in order."""

    def __init__(self, path: str | None = None) -> None:
        self.events: list[Event] = []
        self._file = None if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _note(self, name: str, *values: Any) -> None:
        event = Event(time.time(), name, values)
        self.events.append(event)
        if self._file is not None:
            os.write(self._file, (json.dumps(event) + "\n").encode())

    def send(self, transaction: str | None, partition: str, value: str, source: str | None = None) -> None:
        """A value is about to be sent."""
        self._note("send", transaction, partition, value, source)

    def sent(self, value: str, offset: int) -> None:
        """A value was acknowledged."""
        self._note("sent", value, offset)

    def commit(self, transaction: str) -> None:
        """A commit is about to be asked for."""
        self._note("commit", transaction)

    def committed(self, transaction: str) -> None:
        """A commit was acknowledged."""
        self._note("committed", transaction)

    def aborted(self, transaction: str) -> None:
        """An abort was acknowledged, or the transaction cannot have been committed."""
        self._note("aborted", transaction)

    def read(self, reader: str, partition: str, offset: int, value: str, *, committed: bool = True) -> None:
        """A reader was given a value; `committed` says whether it is to see committed values only."""
        self._note("read", reader, partition, offset, value, committed)

    def reached(self, reader: str, partition: str, offset: int) -> None:
        """A reader has been given all committed values of a partition from its start up to an offset, at the end."""
        self._note("reached", reader, partition, offset)


def load(paths: Iterable[str]) -> History:
    """The histories of several processes in one; a last line that was cut off is left out."""
    history = History()
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):
                    at, name, values = json.loads(line)
                    history.events.append(Event(at, name, tuple(values)))
    history.events.sort(key=lambda event: event.at)
    return history


class Sent(NamedTuple):
    """A value as it was sent."""

    number: int
    transaction: str | None
    partition: str
    source: str | None


class Read(NamedTuple):
    """A value that a reader was given: when, where, and whether only committed ones are."""

    number: int
    reader: str
    partition: str
    offset: int
    value: str
    committed: bool


class _Facts:
    """A history sorted by what it is about."""

    def __init__(self, history: History) -> None:
        self.sent: dict[str, Sent] = {}
        self.offsets: dict[str, int] = {}
        self.asked: dict[str, int] = {}
        self.ends: dict[str, str] = {}
        self.reads: list[Read] = []
        self.reached: dict[str, int] = {}
        """By partition: how far the readers that saw everything have come."""
        for number, (_, name, values) in enumerate(history.events):
            if name == "send":
                transaction, partition, value, source = values
                self.sent[value] = Sent(number, transaction, partition, source)
            elif name == "sent":
                value, offset = values
                self.offsets[value] = offset
            elif name == "commit":
                self.asked.setdefault(values[0], number)
            elif name in ("committed", "aborted"):
                self.ends[values[0]] = name
            elif name == "read":
                self.reads.append(Read(number, *values))
            elif name == "reached":
                _, partition, offset = values
                self.reached[partition] = max(offset, self.reached.get(partition, 0))

    @property
    def seen(self) -> set[str]:
        """The values that readers of committed values were given."""
        return {read.value for read in self.reads if read.committed}


def check(history: History) -> list[Violation]:
    """Everything that is wrong with a history; nothing if all promises were kept."""
    facts = _Facts(history)
    found = [*_places(facts), *_each_read(facts), *_whole(facts), *_once(facts), *_order(facts)]
    return list(dict.fromkeys(found))


def _places(facts: _Facts) -> Iterator[Violation]:
    """Every offset has one value, every value one offset."""
    at: dict[tuple[str, int], str] = {}
    places: dict[str, tuple[str, int]] = {}
    for _, _, partition, offset, value, _ in facts.reads:
        place = (partition, offset)
        if at.setdefault(place, value) != value:
            yield Violation(ViolationKind.CHANGED, f"{partition} at {offset} is {at[place]!r} and {value!r}")
        if places.setdefault(value, place) != place:
            yield Violation(ViolationKind.DUPLICATE, f"{value!r} is at {places[value]} and at {place}")
    for value, acknowledged in facts.offsets.items():
        if value in places and acknowledged >= 0 and places[value][1] != acknowledged:
            yield Violation(
                ViolationKind.CHANGED, f"{value!r} was acknowledged at {acknowledged} and is at {places[value]}"
            )


def _each_read(facts: _Facts) -> Iterator[Violation]:
    """Nothing is read that must not be."""
    for number, reader, partition, offset, value, committed in facts.reads:
        where = f"{reader} read {value!r} at {partition} {offset}"
        sent = facts.sent.get(value)
        if sent is None or sent.partition != partition:
            yield Violation(ViolationKind.PHANTOM, where)
        elif committed and sent.transaction is not None:
            if facts.ends.get(sent.transaction) == "aborted":
                yield Violation(ViolationKind.ABORTED, f"{where}, of {sent.transaction}")
            asked = facts.asked.get(sent.transaction)
            if asked is None or asked > number:
                yield Violation(ViolationKind.EARLY, f"{where}, of {sent.transaction}")


def _whole(facts: _Facts) -> Iterator[Violation]:
    """What was promised is there, and no transaction only in part."""
    seen = facts.seen
    transactions: dict[str | None, list[str]] = defaultdict(list)
    for value, sent in facts.sent.items():
        if sent.partition in facts.reached:
            transactions[sent.transaction].append(value)
    for value in transactions.pop(None, []):
        if value in facts.offsets and value not in seen:
            yield Violation(ViolationKind.LOST, f"{value!r} was acknowledged at {facts.offsets[value]}")
    for transaction, values in transactions.items():
        assert transaction is not None
        missing = [value for value in values if value not in seen]
        if facts.ends.get(transaction) == "committed":
            for value in missing:
                yield Violation(ViolationKind.LOST, f"{value!r} of {transaction}, which was committed")
        elif missing and len(missing) < len(values):
            yield Violation(
                ViolationKind.TORN,
                f"{transaction}: {len(missing)} of {len(values)} values are not there: {missing[0]!r}",
            )


def _once(facts: _Facts) -> Iterator[Violation]:
    """No source has been made something of twice."""
    made: dict[str, str] = {}
    for value in sorted(facts.seen):
        sent = facts.sent.get(value)
        if sent is not None and sent.source is not None and made.setdefault(sent.source, value) != value:
            yield Violation(ViolationKind.DUPLICATE, f"{sent.source!r} was made {made[sent.source]!r} and {value!r}")


def _order(facts: _Facts) -> Iterator[Violation]:
    """The values of a transaction lie in a partition as they were sent."""
    places: dict[tuple[str | None, str], dict[int, str]] = defaultdict(dict)
    for _, _, partition, offset, value, _ in facts.reads:
        sent = facts.sent.get(value)
        if sent is not None and sent.transaction is not None:
            places[sent.transaction, partition][offset] = value
    for (transaction, partition), values in places.items():
        numbers = [facts.sent[values[offset]].number for offset in sorted(values)]
        if numbers != sorted(numbers):
            yield Violation(ViolationKind.REORDERED, f"{transaction} in {partition}")
