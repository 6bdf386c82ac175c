"""What the driver asks of the brokers: the partitions of a query, and their earliest and latest offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kavka.client import EARLIEST, LATEST
from kavka.client.blocking import Client
from kavka.client.offsets import list_offsets
from kavka.client.view import ClusterView, TopicView
from kavka.model.errors import UnknownTopicOrPartition
from kavka.model.types import TopicPartition
from kavka.spark.advice import advised
from kavka.spark.offsets import BadOffsetsError, SegmentFile, check_within, resolve, settle
from kavka.spark.options import Place, SourceOptions
from kavka.spark.tiers import tiered_segments


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """The earliest and latest offsets of a query's partitions at one moment, and the ids of their topics."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    ids: Mapping[str, str]


class PlanningClient:
    """The client that plans a read; opened when first used, and never sent to an executor."""

    def __init__(self, options: SourceOptions, *, streaming: bool = False) -> None:
        self._options = options
        self._streaming = streaming  # what is on the leaders' disks is read there: a stream is at its tail mostly
        self._client: Client | None = None

    def __getstate__(self) -> tuple[SourceOptions, bool]:
        return self._options, self._streaming

    def __setstate__(self, state: tuple[SourceOptions, bool]) -> None:
        self._options, self._streaming = state
        self._client = None

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def partitions(self, *, missing_ok: bool = False) -> tuple[list[TopicPartition], dict[str, str]]:
        """The partitions that the query reads now and their topics' ids; a topic that is not there is an error."""
        wanted = self._topics()
        with advised():
            client = self._open()
            view = client.run(client.pool.refresh(wanted))
        found: list[TopicPartition] = []
        ids: dict[str, str] = {}
        for name in sorted(wanted):
            topic = view.topics.get(name)
            if topic is None or topic.error is not None:
                error = topic.error if topic is not None and topic.error is not None else UnknownTopicOrPartition
                if error is not UnknownTopicOrPartition:
                    raise error(f"topic {name!r}: {error()}")
                if not missing_ok:
                    raise UnknownTopicOrPartition(f"there is no topic {name!r}: create it, or correct the option")
                continue
            ids[name] = str(topic.id)
            found += [TopicPartition(name, index) for index in topic.partitions]
        if self._options.assign:
            unknown = sorted(set(self._options.assign) - set(found))
            if unknown and not missing_ok:
                raise UnknownTopicOrPartition(f"there is no {', '.join(map(str, unknown))}: correct option assign")
            found = [tp for tp in found if tp in self._options.assign]
        return found, ids

    def bounds(self, *, missing_ok: bool = False) -> OffsetBounds:
        """The earliest and latest offsets now."""
        partitions, ids = self.partitions(missing_ok=missing_ok)
        return OffsetBounds(
            self.at(dict.fromkeys(partitions, EARLIEST)), self.at(dict.fromkeys(partitions, LATEST)), ids
        )

    def at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offsets at or after these times; -1 where no record is that late."""
        if not times:
            return {}
        with advised():
            client = self._open()
            work = list_offsets(client.pool, times, read_committed=self._options.read_committed)
            return {tp: found.offset for tp, found in client.run(work).items()}

    def segments(
        self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], ids: Mapping[str, str]
    ) -> list[SegmentFile]:
        """The remote segments that are read instead of asking the leaders, where the query says where those are."""
        remote = self._options.remote
        spans = {tp: (start[tp], end[tp]) for tp in end if tp in start and start[tp] < end[tp] and tp.topic in ids}
        if remote is None or not spans:
            return []
        with advised(), remote.opened() as reader:
            client = self._open()
            committed, tail = self._options.read_committed, self._streaming
            work = tiered_segments(client.pool, reader, spans, ids, read_committed=committed, only_remote=tail)
            return client.run(work)

    def leaders(self, partitions: Iterable[TopicPartition]) -> ClusterView:
        """What tasks need to know of the cluster to read these partitions, as it was when they were planned."""
        partitions = list(partitions)
        client = self._open()
        view = client.pool.view
        if view.missing(partitions):
            with advised():
                view = client.run(client.pool.refresh({tp.topic for tp in partitions}))
        topics: dict[str, TopicView] = {}
        for topic, partition in partitions:
            known, found = view.topics.get(topic), view.partition(topic, partition)
            if known is not None and found is not None:
                before = topics.setdefault(topic, replace(known, partitions={}, available=()))
                topics[topic] = replace(before, partitions={**before.partitions, partition: found})
        leaders = {each.leader for topic in topics.values() for each in topic.partitions.values()}
        nodes = {id: node for id, node in view.nodes.items() if id in leaders}
        names = {topic.id: topic.name for topic in topics.values()}
        return ClusterView(view.cluster_id, nodes=nodes, topics=topics, names=names)

    def starting(self, bounds: OffsetBounds) -> dict[TopicPartition, int]:
        """The starting offsets of the query."""
        options = self._options
        if options.starting_time is not None:
            return self._by_time(options.starting_time, bounds, "startingTimestamp", options.starting_or_latest)
        return self._by_place(options.starting, bounds, "startingOffsets")

    def ending(self, bounds: OffsetBounds) -> dict[TopicPartition, int]:
        """The ending offsets of a batch read."""
        if self._options.ending_time is not None:
            return self._by_time(self._options.ending_time, bounds, "endingTimestamp", True)
        return self._by_place(self._options.ending, bounds, "endingOffsets")

    def _by_place(self, place: Place, bounds: OffsetBounds, what: str) -> dict[TopicPartition, int]:
        wanted = resolve(place, bounds.latest, what)
        settled = settle(wanted, bounds.earliest, bounds.latest)
        check_within(settled, bounds.earliest, bounds.latest, what)
        return settled

    def _by_time(self, time: Place, bounds: OffsetBounds, what: str, or_latest: bool) -> dict[TopicPartition, int]:
        wanted = resolve(time, bounds.latest, what)
        found = self.at(wanted)
        none = sorted(tp for tp, offset in found.items() if offset < 0)
        if none and not or_latest:
            raise BadOffsetsError(
                f"{what}: no record of {', '.join(map(str, none[:5]))} is that late; "
                'option("startingOffsetsByTimestampStrategy", "latest") begins at the end then'
            )
        return {tp: offset if offset >= 0 else bounds.latest[tp] for tp, offset in found.items()}

    def _topics(self) -> set[str]:
        options = self._options
        if options.pattern is None:
            return set(options.subscribe) | {tp.topic for tp in options.assign}
        pattern = re.compile(options.pattern)
        with advised():
            known = self._open().admin.list_topics()
        return {topic.name for topic in known if pattern.fullmatch(topic.name)}

    def _open(self) -> Client:
        if self._client is None:
            options = self._options
            self._client = Client(options.bootstrap, timeout_ms=options.timeout_ms, client_id=options.client_id)
        return self._client


def bounds_of(options: SourceOptions) -> OffsetBounds:
    """The earliest and latest offsets of what a batch read would read now, by a client of its own."""
    brokers = PlanningClient(options)
    try:
        return brokers.bounds()
    finally:
        brokers.close()
