"""What `kavka top` and the console make of two looks at a cluster: rates, lag, and who is busiest.

Nobody is asked anything here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from kavka.client.admin_groups import GroupListing
from kavka.client.view import ClusterView
from kavka.model.types import TopicPartition

UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
CLIENT_BYTES: Final = re.compile(r'kavka_connected_(received|sent)_bytes\{client_id="(.*)",host="(.*)"\}')


@dataclass(frozen=True)
class Look:
    """The numbers of one moment."""

    at: float
    ends: Mapping[TopicPartition, int]
    """Where each partition ends."""
    sizes: Mapping[TopicPartition, int]
    """What its leader's log takes of the disk."""
    leaders: Mapping[TopicPartition, int]
    committed: Mapping[str, Mapping[TopicPartition, int]]
    """By group."""
    clients: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """By client id and host: bytes received from it and sent to it."""
    view: ClusterView = field(default_factory=ClusterView)
    groups: Sequence[GroupListing] = ()
    share_lags: Mapping[str, int] = field(default_factory=dict)
    """By share group: how many records are left."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    """What could not be had, and why."""


class PartitionRate(NamedTuple):
    """What came into a partition."""

    partition: str
    leader: int
    messages_per_second: float
    bytes_per_second: float
    end: int


class GroupRate(NamedTuple):
    """How far a group is behind, and how fast it reads."""

    group: str
    lag: int
    messages_per_second: float


class ClientRate(NamedTuple):
    """What a client sends and gets."""

    client_id: str
    host: str
    in_bytes_per_second: float
    out_bytes_per_second: float


class Rates(NamedTuple):
    """What is shown, the busiest first."""

    messages_per_second: float
    bytes_per_second: float
    partitions: Sequence[PartitionRate]
    groups: Sequence[GroupRate]
    clients: Sequence[ClientRate]


def rates(before: Look, after: Look, most: int) -> Rates:
    """The rates between two looks, `most` of each kind."""
    seconds = max(after.at - before.at, 1e-9)

    def grown(then: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int], tp: TopicPartition) -> float:
        return max(now.get(tp, 0) - then.get(tp, now.get(tp, 0)), 0) / seconds

    ends, sizes = partial(grown, before.ends, after.ends), partial(grown, before.sizes, after.sizes)
    partitions = [
        PartitionRate(str(tp), after.leaders.get(tp, -1), ends(tp), sizes(tp), end) for tp, end in after.ends.items()
    ]
    partitions.sort(key=lambda row: (-row.bytes_per_second, -row.messages_per_second, row.partition))
    groups = [_group(group, before, after, seconds) for group in after.committed]
    groups.sort(key=lambda row: (-row.lag, row.group))
    clients = [
        ClientRate(client_id, host, *_moved(before.clients.get((client_id, host)), moved, seconds))
        for (client_id, host), moved in after.clients.items()
    ]
    clients.sort(key=lambda row: (-row.in_bytes_per_second - row.out_bytes_per_second, row.client_id))
    return Rates(
        sum(row.messages_per_second for row in partitions),
        sum(row.bytes_per_second for row in partitions),
        partitions[:most],
        groups[:most],
        clients[:most],
    )


def by_topic(before: Look, after: Look) -> dict[str, tuple[float, float]]:
    """Of each topic the records and the bytes that came in a second."""
    seconds = max(after.at - before.at, 1e-9)
    records: Counter[str] = Counter()
    added: Counter[str] = Counter()
    for tp, end in after.ends.items():
        records[tp.topic] += max(end - before.ends.get(tp, end), 0)
    for tp, now in after.sizes.items():
        added[tp.topic] += max(now - before.sizes.get(tp, now), 0)
    return {topic: (records[topic] / seconds, added[topic] / seconds) for topic in records}


def lag_of(look: Look, group: str) -> int | None:
    """How many records a group has not read yet, in what it has read of; None if that is not known."""
    if group in look.share_lags:
        return look.share_lags[group]
    if group not in look.committed:
        return None
    return sum(max(look.ends[tp] - offset, 0) for tp, offset in look.committed[group].items() if tp in look.ends)


def _group(group: str, before: Look, after: Look, seconds: float) -> GroupRate:
    now, then = after.committed[group], before.committed.get(group, {})
    lag = lag_of(after, group) or 0
    read = sum(max(offset - then.get(tp, offset), 0) for tp, offset in now.items())
    return GroupRate(group, lag, read / seconds)


def _moved(before: tuple[int, int] | None, after: tuple[int, int], seconds: float) -> tuple[float, float]:
    """What went in and out; a client that has reconnected begins anew."""
    if before is None or before[0] > after[0] or before[1] > after[1]:
        before = after
    return (after[0] - before[0]) / seconds, (after[1] - before[1]) / seconds


def clients_of(pages: Iterable[Mapping[str, float]]) -> dict[tuple[str, str], tuple[int, int]]:
    """The clients on nodes' pages of metrics."""
    received: Counter[tuple[str, str]] = Counter()
    sent: Counter[tuple[str, str]] = Counter()
    for page in pages:
        for name, value in page.items():
            if match := CLIENT_BYTES.fullmatch(name):
                counter = received if match[1] == "received" else sent
                counter[match[2], match[3]] += int(value)
    return {who: (received[who], sent[who]) for who in received | sent}


def size(number: float) -> str:
    """Bytes as people read them."""
    unit = 0
    while number >= 1024 and unit < len(UNITS) - 1:
        number /= 1024
        unit += 1
    return f"{number:.0f} {UNITS[unit]}" if unit == 0 else f"{number:.1f} {UNITS[unit]}"
