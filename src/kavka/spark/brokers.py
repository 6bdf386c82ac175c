"""What the driver asks of the brokers: which partitions there are, and where they begin and end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kavka.client import EARLIEST, LATEST
from kavka.client.blocking import Client
from kavka.client.offsets import list_offsets
from kavka.model.errors import UnknownTopicOrPartition
from kavka.model.types import TopicPartition
from kavka.spark.advice import advised
from kavka.spark.offsets import BadOffsetsError, check_within, resolve, settle
from kavka.spark.options import Place, SourceOptions

CLIENT_ID: Final = "kavka-spark"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where the partitions of a query begin and end at one moment, and which topics they belong to."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    ids: Mapping[str, str]


class Brokers:
    """A connection for planning; opened when first used, and never sent to an executor."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: Client | None = None

    def __getstate__(self) -> SourceOptions:
        return self._options

    def __setstate__(self, options: SourceOptions) -> None:
        self._options, self._client = options, None

    def close(self) -> None:
        """Hang up."""
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

    def bounds(self, *, missing_ok: bool = False) -> Bounds:
        """Where everything begins and ends now."""
        partitions, ids = self.partitions(missing_ok=missing_ok)
        return Bounds(self.at(dict.fromkeys(partitions, EARLIEST)), self.at(dict.fromkeys(partitions, LATEST)), ids)

    def at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offsets at or after these times; -1 where no record is that late."""
        if not times:
            return {}
        with advised():
            client = self._open()
            work = list_offsets(client.pool, times, read_committed=self._options.read_committed)
            return {tp: found.offset for tp, found in client.run(work).items()}

    def starting(self, bounds: Bounds) -> dict[TopicPartition, int]:
        """Where the query begins."""
        options = self._options
        if options.starting_time is not None:
            return self._by_time(options.starting_time, bounds, "startingTimestamp", options.starting_or_latest)
        return self._by_place(options.starting, bounds, "startingOffsets")

    def ending(self, bounds: Bounds) -> dict[TopicPartition, int]:
        """Where a batch read ends."""
        if self._options.ending_time is not None:
            return self._by_time(self._options.ending_time, bounds, "endingTimestamp", True)
        return self._by_place(self._options.ending, bounds, "endingOffsets")

    def _by_place(self, place: Place, bounds: Bounds, what: str) -> dict[TopicPartition, int]:
        wanted = resolve(place, bounds.latest, what)
        settled = settle(wanted, bounds.earliest, bounds.latest)
        check_within(settled, bounds.earliest, bounds.latest, what)
        return settled

    def _by_time(self, time: Place, bounds: Bounds, what: str, or_latest: bool) -> dict[TopicPartition, int]:
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
            self._client = Client(self._options.bootstrap, timeout_ms=self._options.timeout_ms, client_id=CLIENT_ID)
        return self._client
