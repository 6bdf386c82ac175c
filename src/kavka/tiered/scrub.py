"""Comparing a store with a catalogue: what the catalogue promises and is not there, what is there and nobody names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import NamedTuple

from kavka.catalog.partition import PartitionSegments
from kavka.catalog.segment import RemoteSegment, SegmentState, TopicIdPartition
from kavka.model.types import Uuid
from kavka.tiered.objects.layout import MANIFEST
from kavka.tiered.objects.segments import BadManifest, SegmentStore, Stored


class Damaged(NamedTuple):
    """A finished segment that cannot be read as it was stored."""

    name: TopicIdPartition
    segment: RemoteSegment
    faults: list[str]


class Unnamed(NamedTuple):
    """What is in a store and no event names."""

    segments: list[FinishedSegment]
    """Segments that are whole: the catalogue has lost them, or their topic was deleted."""
    unreadable: list[BadManifest]
    """Manifests that are damaged, or of a newer version: their segments may be whole."""
    rest: list[Stored]
    """Objects that are no whole segment: left by an upload that arrived after it was given up."""


class FinishedSegment(NamedTuple):
    """A segment that can be read, and the partition whose it is."""

    name: TopicIdPartition
    segment: RemoteSegment


def finished(partitions: Iterable[PartitionSegments]) -> list[FinishedSegment]:
    """Every segment that can be read, by topic, partition and offset."""
    found = [
        FinishedSegment(held.name, segment)
        for held in partitions
        for segment in held.segments()
        if segment.state is SegmentState.COPY_SEGMENT_FINISHED
    ]
    return sorted(found, key=lambda row: (row.name.topic, row.name.partition, row.segment.start_offset))


async def damaged(
    store: SegmentStore,
    segments: Iterable[tuple[TopicIdPartition, RemoteSegment]],
    *,
    deep: bool = False,
    done: Callable[[int], None] = lambda count: None,
) -> AsyncIterator[Damaged]:
    """The segments that are not as they should be; with `deep` every byte is read."""
    for name, segment in segments:
        faults = await store.faults(name, segment, deep=deep)
        if faults:
            yield Damaged(name, segment, faults)
        done(1)


async def unnamed(store: SegmentStore, orphans: Iterable[Stored]) -> Unnamed:
    """Orphans, those that are whole segments told from the rest: a manifest is stored last and deleted first."""
    left = list(orphans)
    found = [await store.recover(orphan) for orphan in left if orphan.object == MANIFEST]
    segments = [FinishedSegment(*each) for each in found if not isinstance(each, BadManifest)]
    unreadable = [each for each in found if isinstance(each, BadManifest) and each.unreadable]
    kept = {each.segment.id for each in segments} | {each.ref.id for each in unreadable}
    segments.sort(key=lambda row: (row.name.topic, row.name.partition, row.segment.start_offset))
    return Unnamed(segments, unreadable, [orphan for orphan in left if orphan.ref.id not in kept])


async def orphans(store: SegmentStore, partitions: Iterable[PartitionSegments]) -> AsyncIterator[Stored]:
    """Objects of segments that no event names.

    One that is being copied or deleted is named, so it is none.
    """
    known: Collection[Uuid] = {segment.id for held in partitions for segment in held.segments()}
    async for stored in store.stored():
        if stored.ref.id not in known:
            yield stored
