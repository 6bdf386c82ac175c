"""The data directory of a standalone node made out of a store alone, for when nodes and catalogue are lost.

The topics get the ids that they had, so their remote segments are theirs; their logs begin, empty, where the store
ends, with the leader epochs and producers that it has; the catalogue is written anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kavka.catalog.lineage import Lineage
from kavka.catalog.machine import Catalogue, segment_event, update_event
from kavka.catalog.partition import PartitionSegments
from kavka.catalog.partitioner import metadata_partition
from kavka.catalog.records import encode_event
from kavka.catalog.segment import RemoteSegment, SegmentState, TopicIdPartition
from kavka.metadata.image import ResourceType
from kavka.metadata.names import REMOTE_LOG_METADATA
from kavka.metadata.records.settings import ConfigRecord
from kavka.metadata.records.topics import PartitionRecord, TopicRecord
from kavka.model.errors import KafkaStorageError
from kavka.model.types import TopicPartition, Uuid
from kavka.quorum.format import format_dirs, random_id
from kavka.records.builder import BatchBuilder
from kavka.replica.laying import lay_after, lay_with
from kavka.replica.tier import StateBefore
from kavka.storage import files
from kavka.storage.checkpoint import decode_epochs, write_offsets
from kavka.storage.dirs import write_clean_shutdown
from kavka.storage.disk import Disk, RealDisk
from kavka.tiered.objects.base import ObjectCorrupt, ObjectNotFound
from kavka.tiered.objects.manifest import Part
from kavka.tiered.objects.segments import BadManifest, SegmentStore

NODE_ID: Final = 1
METADATA_PARTITIONS: Final = 50
CONFIGS: Final = {"remote.storage.enable": "true", "retention.ms": "-1", "retention.bytes": "-1"}
"""What topics are configured with: how long they were to be kept is not known, so nothing of them may expire."""
EVENTS_AT_A_TIME: Final = 500
_STARTED, _FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED


class Found(NamedTuple):
    """What a store has of one partition, and where its log goes on."""

    name: TopicIdPartition
    segments: list[RemoteSegment]
    lineage: Lineage
    producers: bytes | None
    start_offset: int
    end_offset: int


async def rehydrate(
    store: SegmentStore, data_dir: Path, configs: Mapping[str, str], done: Callable[[int], None]
) -> dict[str, Any]:
    """Make the directory, which has to be empty; what was found, and what could not be used. Raises FormatError."""
    problems: list[str] = []
    by_partition = await _segments(store, problems, done)
    chosen = _newest_topics(by_partition, problems)
    found = [await _found(store, name, by_partition[name], problems) for name in chosen]
    _write(RealDisk(), str(data_dir), found, {**CONFIGS, **configs})
    rows = [
        {
            "topic": partition.name.topic,
            "partition": partition.name.partition,
            "start": partition.start_offset,
            "end": partition.end_offset,
            "segments": len(partition.segments),
            "bytes": sum(segment.size_bytes for segment in partition.segments),
        }
        for partition in found
    ]
    return {"partitions": rows, "problems": problems}


async def _segments(
    store: SegmentStore, problems: list[str], done: Callable[[int], None]
) -> dict[TopicIdPartition, list[RemoteSegment]]:
    found: dict[TopicIdPartition, list[RemoteSegment]] = {}
    async for recovered in store.recovered():
        if isinstance(recovered, BadManifest):
            problems.append(f"{recovered.ref.name} {recovered.ref.id} cannot be used: {recovered.reason}")
        else:
            name, segment = recovered
            found.setdefault(name, []).append(segment)
        done(1)
    return found


def _newest_topics(
    by_partition: Mapping[TopicIdPartition, Sequence[RemoteSegment]], problems: list[str]
) -> list[TopicIdPartition]:
    """The partitions of each topic's latest life: a topic that was deleted and made anew may have left segments."""
    last_copied: dict[str, tuple[int, Uuid]] = {}
    for name, segments in by_partition.items():
        newest = max(segment.event_timestamp_ms for segment in segments), name.topic_id
        last_copied[name.topic] = max(last_copied.get(name.topic, newest), newest)
    chosen = [name for name in by_partition if last_copied[name.topic][1] == name.topic_id]
    others = by_partition.keys() - set(chosen)
    problems += [f"{name} belongs to an earlier topic of that name: left alone" for name in others]
    return sorted(chosen, key=lambda name: (name.topic, name.partition))


async def _found(
    store: SegmentStore, name: TopicIdPartition, segments: list[RemoteSegment], problems: list[str]
) -> Found:
    """Where a partition's log goes on: after the segment of the newest epoch that ends last."""
    last = max(segments, key=lambda segment: (segment.epochs[-1][0], segment.end_offset))
    held, end = _held(name, segments), last.end_offset + 1
    try:
        lineage, producers = await _state_after(store, name, last)
    except (KafkaStorageError, ObjectCorrupt, ObjectNotFound) as error:
        problems.append(f"{name.topic}-{name.partition}: its producers are not known: {error}")
        lineage, producers = held.reaching_back((), 0, end), None
    start = max(lineage[0][1], held.valid(lineage, end)[0].start_offset)
    problems += [
        f"{name.topic}-{name.partition}: offsets {first} to {after - 1} are missing"
        for first, after in _holes(held, lineage, start, end)
    ]
    return Found(name, segments, lineage, producers, start, end)


async def _state_after(
    store: SegmentStore, name: TopicIdPartition, segment: RemoteSegment
) -> tuple[Lineage, bytes | None]:
    """The leader epochs and the producers at the end of a segment."""
    manifest = await store.manifest(name, segment)
    epochs = decode_epochs(f"the leader epochs of {segment.id}", await store.read_part(manifest, Part.LEADER_EPOCHS))
    has_producers = Part.PRODUCER_SNAPSHOT in manifest.parts
    return epochs, await store.read_part(manifest, Part.PRODUCER_SNAPSHOT) if has_producers else None


def _holes(held: PartitionSegments, lineage: Lineage, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The offsets that no segment has: what is before them stays, and clients are told where they are."""
    begins = [segment.start_offset for segment in held.valid(lineage, end)]
    while (start := held.covered_up_to(start, lineage)) < end:
        after = min([begin for begin in begins if begin > start], default=end)
        yield start, after
        start = after


def _held(name: TopicIdPartition, segments: Iterable[RemoteSegment]) -> PartitionSegments:
    catalogue = Catalogue(1)
    for segment in segments:
        catalogue.replay(0, segment_event(name, segment._replace(state=_STARTED)))
        catalogue.replay(0, update_event(name, segment._replace(state=_FINISHED)))
    return catalogue.partitions[name.topic_id, name.partition]


def _write(disk: Disk, data_dir: str, found: list[Found], configs: Mapping[str, str]) -> None:
    now_ms = int(time.time() * 1000)
    metadata_id = random_id()
    format_dirs(
        disk,
        [data_dir],
        data_dir,
        cluster_id=str(random_id()),
        node_id=NODE_ID,
        now_ms=now_ms,
        records=_records(found, configs, metadata_id),
    )
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for partition in found:
        tp = TopicPartition(partition.name.topic, partition.name.partition)
        state = StateBefore(partition.end_offset, partition.lineage, partition.producers)
        lay_after(disk, data_dir, tp, partition.name.topic_id, state, partition.start_offset, now_ms)
        starts[tp], ends[tp] = partition.start_offset, partition.end_offset
    for index, events in _events(found).items():
        tp = TopicPartition(REMOTE_LOG_METADATA, index)
        ends[tp] = lay_with(disk, data_dir, tp, metadata_id, _batches(events, now_ms), now_ms)
    write_offsets(disk, f"{data_dir}/{files.LOG_STARTS}", starts)
    write_offsets(disk, f"{data_dir}/{files.HIGH_WATERMARKS}", ends)
    write_offsets(disk, f"{data_dir}/{files.RECOVERY_POINTS}", ends)
    disk.sync_filesystem(data_dir)
    write_clean_shutdown(disk, data_dir, -1)


def _records(found: list[Found], configs: Mapping[str, str], metadata_id: Uuid) -> list[Any]:
    """What the controller is to know of the topics; each partition has a new leader epoch, after all that were."""
    made: list[Any] = []
    partitions: dict[TopicIdPartition, int] = {partition.name: partition.lineage[-1][0] + 1 for partition in found}
    topics = {partition.name.topic_id: partition.name.topic for partition in found}
    for topic_id, topic in topics.items():
        count = 1 + max(name.partition for name in partitions if name.topic_id == topic_id)
        made.append(TopicRecord(name=topic, topic_id=topic_id))
        made += [
            _partition(topic_id, index, partitions.get(TopicIdPartition(topic_id, index, topic), 0))
            for index in range(count)
        ]
        made += [_config(topic, key, value) for key, value in configs.items()]
    made.append(TopicRecord(name=REMOTE_LOG_METADATA, topic_id=metadata_id))
    made += [_partition(metadata_id, index, 0) for index in range(METADATA_PARTITIONS)]
    topic_configs = {"cleanup.policy": "delete", "retention.ms": "-1", "remote.storage.enable": "false"}
    made += [_config(REMOTE_LOG_METADATA, key, value) for key, value in topic_configs.items()]
    return made


def _partition(topic_id: Uuid, index: int, leader_epoch: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=[NODE_ID],
        isr=[NODE_ID],
        removing_replicas=[],
        adding_replicas=[],
        leader=NODE_ID,
        leader_epoch=leader_epoch,
        partition_epoch=0,
    )


def _config(topic: str, key: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=int(ResourceType.TOPIC), resource_name=topic, name=key, value=value)


def _events(found: list[Found]) -> dict[int, list[bytes]]:
    """What the catalogue's topic is to have: of each segment that its copy began, and that it ended."""
    values: dict[int, list[bytes]] = {index: [] for index in range(METADATA_PARTITIONS)}
    for partition in found:
        metadata_index = metadata_partition(partition.name.topic_id, partition.name.partition, METADATA_PARTITIONS)
        for segment in partition.segments:
            values[metadata_index].append(encode_event(segment_event(partition.name, segment._replace(state=_STARTED))))
            values[metadata_index].append(encode_event(update_event(partition.name, segment._replace(state=_FINISHED))))
    return values


def _batches(events: list[bytes], now_ms: int) -> Iterator[bytes]:
    for first in range(0, len(events), EVENTS_AT_A_TIME):
        builder = BatchBuilder()
        for event in events[first : first + EVENTS_AT_A_TIME]:
            builder.append(None, event, now_ms)
        yield builder.build()
