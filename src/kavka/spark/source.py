"""Reading topics in Spark: batch and stream readers for the Python Data Source API.

The driver plans ranges of offsets; a task reads one. A reader is pickled and sent to tasks: it holds options only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kavka.client.ranges import Chunk
from kavka.client.view import ClusterView
from kavka.model.types import TopicPartition
from kavka.spark import reading
from kavka.spark.brokers import OffsetBounds, PlanningClient
from kavka.spark.columns import TYPES, record_batches
from kavka.spark.dead_letters import DeadLetter
from kavka.spark.offsets import (
    BEGIN,
    INITIAL,
    DataLossError,
    Range,
    SegmentFile,
    admit,
    continued,
    from_json,
    losses,
    packed,
    plan,
    to_json,
)
from kavka.spark.options import ERROR, HEADERS, SourceOptions
from kavka.spark.values import Bad, Decoder, decoder
from kavka.spark.workers import settle

Json = dict[str, Any]


@dataclass
class TaskRanges(InputPartition):
    """One task's share: ranges, the ids that topics had when they were planned, and the leaders of that time."""

    ranges: tuple[Range, ...]
    ids: Mapping[str, str]
    leaders: ClusterView


class UndecodableValueError(ValueError):
    """A value that cannot be read as the query says, and nowhere to put it."""


class TooManyBadRecordsError(ValueError):
    """More values of a range cannot be read than the query allows."""


def read(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """The rows of a range as Arrow record batches, in the columns that the query asked for."""
    if not isinstance(partition, TaskRanges):
        return  # Spark sends an empty partition where there is nothing to read
    made = decoder(options) if "value" in options.columns else None
    with reading.Leaders(options, partition.leaders) as leaders:
        for part in partition.ranges:
            found = leaders.chunks(part, partition.ids.get(part.topic_partition.topic))
            yield from _record_batches(options, part, found, made)
    settle()


def _record_batches(options: SourceOptions, part: Range, found: Iterator[Chunk], made: Decoder | None) -> Iterator[Any]:
    columns = options.columns
    if made is None:
        yield from record_batches(part.topic_partition, found, part.start, part.end, columns)
        return
    # What is needed for a dead letter is read too, whether or not the query wants to see it.
    wanted = (name for name in columns if name != ERROR)
    needed = tuple(dict.fromkeys((*wanted, "key", "offset", "timestamp", *_with_letters(options))))
    aside = _Aside(options, part)
    for batch in record_batches(part.topic_partition, found, part.start, part.end, needed):
        yield _decoded(options, part.topic_partition, batch, made, aside)
    aside.finish()


class _Aside:
    """The bad records of a range: where there is a limit they are kept to its end, and sent if they are few enough."""

    def __init__(self, options: SourceOptions, part: Range) -> None:
        self._options = options
        self._part = part
        self._kept: list[DeadLetter] = []
        self._rows = 0
        self._bad = 0

    def add(self, rows: int, bad: int, letters: Sequence[DeadLetter]) -> None:
        """Take what a record batch has."""
        self._rows += rows
        self._bad += bad
        self._check(whole=False)
        if self._options.bad_limit.given:
            self._kept += letters
        elif letters:
            _set_aside(self._options, letters)

    def finish(self) -> None:
        """The range is read: send what was kept."""
        self._check(whole=True)
        if self._kept:
            _set_aside(self._options, self._kept)

    def _check(self, *, whole: bool) -> None:
        if self._options.bad_limit.exceeded(self._bad, self._rows, whole=whole):
            part = self._part
            raise TooManyBadRecordsError(
                f"{part.topic_partition}: {self._bad} of {self._rows} records from offset {part.start} on are not "
                f"{self._options.value_format}, which is more than maxBadRecords or maxBadShare allow; none of them "
                "was written to the dead letters, and the query stays where it is"
            )


def _decoded(options: SourceOptions, tp: TopicPartition, batch: Any, made: Decoder, aside: _Aside) -> Any:
    """A record batch with its values decoded; rows with bad values are set aside, or marked if the query asks why."""
    values, bad = made.decode(batch.column("value"))
    made_here = {"value": values}
    if ERROR in options.columns:
        reasons = dict(bad)
        made_here[ERROR] = pa.array([reasons.get(row) for row in range(len(values))], TYPES[ERROR])
    arrays = [made_here[name] if name in made_here else batch.column(name) for name in options.columns]
    decoded = pa.RecordBatch.from_arrays(arrays, names=list(options.columns))
    sent = bad if options.dead_letter_topic is not None or ERROR not in options.columns else []
    aside.add(len(values), len(bad), _letters(tp, batch, sent))
    if not bad or ERROR in options.columns:
        return decoded
    rejected = {row for row, _ in bad}
    return decoded.filter(pa.array([row not in rejected for row in range(decoded.num_rows)]))


def _with_letters(options: SourceOptions) -> tuple[str, ...]:
    return () if options.dead_letter_topic is None else (HEADERS,)


def _letters(tp: TopicPartition, batch: Any, bad: Bad) -> list[DeadLetter]:
    return [
        DeadLetter(
            tp,
            batch.column("offset")[row].as_py(),
            batch.column("timestamp")[row].cast(pa.int64()).as_py() // 1000,
            batch.column("key")[row].as_py(),
            batch.column("value")[row].as_py(),
            reason,
            _original(batch, row),
        )
        for row, reason in bad
    ]


def _original(batch: Any, row: int) -> list[tuple[str, bytes | None]]:
    found = batch.column(HEADERS)[row].as_py() if HEADERS in batch.schema.names else None
    return [(header["key"], header["value"]) for header in found or ()]


def _set_aside(options: SourceOptions, letters: Sequence[DeadLetter]) -> None:
    if options.dead_letter_topic is None:
        first = letters[0]
        raise UndecodableValueError(
            f"{first.topic_partition} at offset {first.offset}: the value is not {options.value_format}: "
            f'{first.reason}. To go on without such records, set option("deadLetterTopic", "TOPIC")'
        )
    reading.send_dead_letters(options, letters)


class BatchReader(DataSourceReader):
    """Reads what is there between two places."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One task for each range."""
        brokers = PlanningClient(self._options)
        try:
            bounds = brokers.bounds()
            start, end = brokers.starting(bounds), brokers.ending(bounds)
            segments = brokers.segments(start, end, bounds.ids)
            return planned(self._options, brokers, (start, end), bounds.ids, segments)
        finally:
            brokers.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one range."""
        return read(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what comes, micro-batch by micro-batch; new partitions are read from their first record."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._brokers = PlanningClient(options, streaming=True)
        self._target: OffsetBounds | None = None
        self._latest: Json | None = None
        self._last_batch = time.monotonic()

    def initialOffset(self) -> Json:  # noqa: N802  (Spark's name, as those below)
        """Where a new query begins."""
        bounds = self._brokers.bounds()
        return {**to_json(self._brokers.starting(bounds), bounds.ids), INITIAL: {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much a micro-batch may read."""
        limit = self._options.max_offsets
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember what is there now: the query ends when it has read that."""
        self._target = self._brokers.bounds(missing_ok=True)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """How far the next micro-batch goes."""
        bounds = self._brokers.bounds(missing_ok=True) if self._target is None else self._target
        self._latest = to_json(bounds.latest, bounds.ids)
        given, begin = self._begin(start, bounds)
        waiting = sum(max(0, bounds.latest[tp] - begin[tp]) for tp in begin)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if self._target is None and self._too_few(waiting):
            end = dict(begin)
        else:
            end = admit(begin, bounds.latest, most)
            if waiting:
                self._last_batch = time.monotonic()
        found = to_json(end, bounds.ids)
        # The first batch comes even if it is empty: from then on the checkpoint knows where the query began.
        moved = {tp: offset for tp, offset in begin.items() if INITIAL in start or given.get(tp) != offset}
        if moved:
            return {**found, BEGIN: to_json(moved, {})}
        return start if found == {name: value for name, value in start.items() if name != BEGIN} else found

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """The latest offsets, for the query's progress: what is between is its lag."""
        return self._latest

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """One task for each range of a micro-batch; the same for the same two places."""
        wanted, ids = from_json(end)
        given, ids_before = from_json(start)
        anew = {topic for topic, topic_id in ids_before.items() if ids.get(topic, topic_id) != topic_id}
        begin = {tp: given[tp] for tp in wanted if tp in given and tp.topic not in anew}
        begin.update(from_json(end.get(BEGIN, {}))[0])
        new = [tp for tp in wanted if tp not in begin]
        if new:
            begin.update(self._brokers.at(dict.fromkeys(new, -2)))
        segments = self._brokers.segments(begin, wanted, ids)
        return planned(self._options, self._brokers, (begin, wanted), ids, segments)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one range."""
        return read(self._options, partition)

    def stop(self) -> None:
        """Close the connections."""
        self._brokers.close()

    def _begin(self, start: Json, bounds: OffsetBounds) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Where the last batch ended, and where the next one begins: the same unless something is new or lost."""
        given, ids = from_json(start)
        wanted = set(bounds.latest)
        if self._target is not None and any(offset > bounds.latest.get(tp, offset) for tp, offset in given.items()):
            # Records came after the end of the query was fixed and before its beginning was; or they are really lost.
            bounds = self._brokers.bounds(missing_ok=True)
        lost = losses(given, ids, bounds.earliest, bounds.latest, bounds.ids)
        if lost and self._options.fail_on_data_loss:
            raise DataLossError(lost)
        for loss in lost:
            reading.logger.warning("going on without what was lost: %s", loss)
        begin = continued(given, ids, bounds.earliest, bounds.latest, bounds.ids)
        return given, {tp: offset for tp, offset in begin.items() if tp in wanted}

    def _too_few(self, waiting: int) -> bool:
        least = self._options.min_offsets
        late = (time.monotonic() - self._last_batch) * 1000 >= self._options.max_trigger_delay_ms
        return least is not None and waiting < least and not late


def planned(
    options: SourceOptions,
    brokers: PlanningClient,
    places: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]],
    ids: Mapping[str, str],
    segments: Sequence[SegmentFile] = (),
) -> list[InputPartition]:
    """The tasks that read what lies between two places."""
    least, most = options.min_partitions, options.max_records
    ranges = plan(*places, min_partitions=least, max_records=most, segments=segments)
    tasks: list[InputPartition] = []
    for share in packed(ranges, least):
        topics = {part.topic_partition.topic for part in share}
        leaders = brokers.leaders(part.topic_partition for part in share)
        tasks.append(TaskRanges(share, {topic: ids[topic] for topic in topics if topic in ids}, leaders))
    return tasks
