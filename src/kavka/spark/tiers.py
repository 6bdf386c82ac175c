"""What of a topic is read straight from its remote storage: below the cut from objects, above it from the leaders.

The driver pins it once, by the topic's id: how far the log is tiered, its leader epochs, the segments that have its
offsets, and which of their transactions were aborted. Executors open the objects themselves, with credentials of their
own environment: none are in options or plans.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kavka.catalog.lineage import shared_end
from kavka.catalog.machine import Catalogue
from kavka.catalog.partition import PartitionSegments
from kavka.catalog.partitioner import metadata_partition
from kavka.catalog.segment import Epochs, RemoteSegment, TopicIdPartition, pack, unpack
from kavka.client import Consumer, Pool
from kavka.client.fetched import AbortedTransaction
from kavka.client.offsets import list_offsets
from kavka.model.errors import UnknownTopicOrPartition
from kavka.model.types import TopicPartition, Uuid
from kavka.spark.offsets import SegmentFile
from kavka.tiered.direct import DirectReader
from kavka.tiered.objects.base import ObjectNotFound
from kavka.tiered.objects.opening import open_segments
from kavka.tiered.objects.sealing import KeyRing, Sealing

SCHEME: Final = "tier"
METADATA: Final = "__remote_log_metadata"
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
_THREADS: Final = 4

_CREDENTIAL: Final = re.compile(r"secret|password|token(?!_file)|(access|account|master|sas|customer|encryption)_key")
"""What obstore's names for credentials have in them, and those of regions, endpoints, KMS keys and files have not."""
_LOGIN: Final = re.compile(r"://[^/@]*:[^/@]*@")
"""What a URL with a password in it has, as one of a proxy may."""

Aborted = tuple[int, int, int]
"""A producer's id, its transaction's first offset, and that of the marker."""
Span = tuple[int, int]


def has_login(text: str) -> bool:
    """Whether a text is a URL with a password in it."""
    return _LOGIN.search(text) is not None


def credential_in(options: str) -> str | None:
    """The first name among options of a store (`name=value,...`) that is said to have a credential."""
    pairs = (part.partition("=") for part in options.split(","))
    told = ((name.strip(), _CREDENTIAL.search(name.lower().replace("-", "_")), value) for name, _, value in pairs)
    return next((name for name, secret, value in told if secret or has_login(value)), None)


@dataclass(frozen=True, slots=True)
class RemoteStorage:
    """Where remote segments are, as the nodes' settings say it."""

    url: str
    options: Mapping[str, str]
    keys_file: str | None

    @contextmanager
    def opened(self) -> Iterator[DirectReader]:
        """A reader of it, for as long as the block runs."""
        keys = KeyRing.parse(Path(self.keys_file).read_text(encoding="utf-8")) if self.keys_file else None
        with ThreadPoolExecutor(_THREADS) as threads:
            yield DirectReader(open_segments(self.url, threads, options=dict(self.options), sealing=Sealing(keys=keys)))


@dataclass(frozen=True, slots=True)
class Located:
    """A segment as a task is told of it."""

    topic_id: Uuid
    segment: RemoteSegment
    aborted: tuple[Aborted, ...] | None
    """None: nobody asked which transactions were aborted."""

    def encode(self) -> str:
        """A range's location."""
        document = {
            "topic": str(self.topic_id),
            "id": str(self.segment.id),
            "segment": base64.b64encode(pack(self.segment)).decode(),
            "aborted": self.aborted,
        }
        return f"{SCHEME}:{json.dumps(document)}"

    @classmethod
    def decode(cls, location: str) -> Located:
        """What a range's location says."""
        said = json.loads(location.removeprefix(f"{SCHEME}:"))
        segment = unpack(Uuid.parse(said["id"]), base64.b64decode(said["segment"]))
        aborted = None if said["aborted"] is None else tuple((p, first, last) for p, first, last in said["aborted"])
        return cls(Uuid.parse(said["topic"]), segment, aborted)

    def aborted_in(self, first: int, last: int) -> list[AbortedTransaction] | None:
        """The aborted transactions that have anything to do with these offsets, as a fetch would tell of them."""
        if self.aborted is None:
            return None
        return [AbortedTransaction(p, begin) for p, begin, end in self.aborted if end >= first and begin <= last]


async def tiered_segments(
    pool: Pool,
    reader: DirectReader,
    spans: Mapping[TopicPartition, Span],
    ids: Mapping[str, str],
    *,
    read_committed: bool,
    only_remote: bool,
) -> list[SegmentFile]:
    """The segments that hold offsets of these spans; if asked, only of those that are on no leader's disk any more."""
    latest = await list_offsets(pool, dict.fromkeys(spans, LATEST_TIERED))
    local = await list_offsets(pool, dict.fromkeys(spans, EARLIEST_LOCAL)) if only_remote else {}
    wanted = {
        tp: (start, min(end, latest[tp].offset + 1, local[tp].offset if only_remote else end))
        for tp, (start, end) in spans.items()
    }
    wanted = {tp: (start, end) for tp, (start, end) in wanted.items() if start < end}
    if not wanted:
        return []
    names = {tp: TopicIdPartition(Uuid.parse(ids[tp.topic]), tp.partition, tp.topic) for tp in wanted}
    catalogue = await _catalogue(pool, list(names.values()))
    found: list[SegmentFile] = []
    for tp, name in names.items():
        held = catalogue.partitions.get((name.topic_id, name.partition)) if catalogue is not None else None
        last = held.lookup(latest[tp].leader_epoch, latest[tp].offset) if held is not None else None
        if held is None or last is None:
            continue  # the leader knows
        try:
            found += await _of_partition(reader, tp, held, last, wanted[tp], read_committed=read_committed)
        except ObjectNotFound:
            continue  # it went away just now: the leader knows what is left
    return found


async def _of_partition(
    reader: DirectReader,
    tp: TopicPartition,
    held: PartitionSegments,
    last: RemoteSegment,
    span: Span,
    *,
    read_committed: bool,
) -> list[SegmentFile]:
    start, end = span
    lineage = await reader.leader_epochs(held.name, last)
    if not read_committed:
        return walk(tp, held, lineage, span, None)
    # The marker of a transaction that is open at the end of the tier may be in a segment that is not tiered.
    undecided = await reader.undecided_from(held.name, last)
    aborted = await _aborted(reader, held, lineage, start, last.end_offset)
    return walk(tp, held, lineage, (start, end if undecided is None else min(end, undecided)), aborted)


def walk(
    tp: TopicPartition, held: PartitionSegments, lineage: Epochs, span: Span, aborted: Sequence[Aborted] | None
) -> list[SegmentFile]:
    """The segments that have a span's offsets as this log's history wrote them, up to the first that none has."""
    at, end = span
    found = []
    while at < end and (segment := held.find(at, lineage)) is not None:
        after = min(end, shared_end(segment, at, lineage) + 1)
        if after <= at:
            break
        ours = None if aborted is None else tuple(each for each in aborted if each[2] >= at and each[1] < after)
        place = Located(held.name.topic_id, segment, ours).encode()
        found.append(SegmentFile(tp, at, after, place, segment.size_bytes))
        at = after
    return found


async def _aborted(
    reader: DirectReader, held: PartitionSegments, lineage: Epochs, start: int, last_tiered: int
) -> list[Aborted]:
    """The aborted transactions of a log from an offset on; a marker may be segments behind its transaction."""
    found: list[Aborted] = []
    segment = held.find(start, lineage)
    while segment is not None and segment.start_offset <= last_tiered:
        entries = await reader.aborted(held.name, segment)
        found += [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in entries]
        segment = held.following(segment, lineage)
    return sorted(found, key=lambda each: each[1])


async def _catalogue(pool: Pool, names: Sequence[TopicIdPartition]) -> Catalogue | None:
    """The catalogue of these partitions as it is now, read as any client reads a topic; None if nothing is tiered."""
    try:
        topic = await pool.topic(METADATA)
    except UnknownTopicOrPartition:
        return None
    count = len(topic.partitions)
    catalogue = Catalogue(count)
    parts = {metadata_partition(name.topic_id, name.partition, count) for name in names}
    async with Consumer(pool) as consumer:
        await consumer.assign(*(TopicPartition(METADATA, part) for part in sorted(parts)), start="start")
        async for record in consumer.until_end():
            catalogue.replay_value(record.partition, record.offset, record.value)
    return catalogue
