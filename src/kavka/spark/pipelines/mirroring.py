"""What a mirror takes over beside records: the codec of their batches, and how far groups have read.

Offsets differ on the two sides, where transactions left markers, or records had expired before they were copied. But
behind a group's place both have the same records, up to the last one that was copied: so places are counted from there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from kavka.client import Codec
from kavka.client.blocking import Client
from kavka.model.types import TopicPartition
from kavka.spark import reading
from kavka.spark.brokers import OffsetBounds, bounds_of
from kavka.spark.connecting import connection_options
from kavka.spark.offsets import Range, from_json, to_json
from kavka.spark.options import source_options
from kavka.spark.pipelines.jobs import CONTENT, checkpointed
from kavka.spark.pipelines.spec import SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CODECS: Final = get_args(Codec)
"""By the ids that batches carry."""
_LOOK_BACK: Final = 100
"""So many offsets from a partition's end its last batch of records is looked for; behind it there may be markers."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a group is in a partition of the source, and where in its copy; None: nobody can say."""

    group: str
    topic: str
    partition: int
    offset: int
    copy: str
    there: int | None


def codec_of(source: Mapping[str, str]) -> str:
    """How most of the partitions that are read have compressed their last batch."""
    options = source_options(source, streaming=False)
    bounds = bounds_of(options)
    found: Counter[str] = Counter()
    for tp, end in bounds.latest.items():
        if end == bounds.earliest[tp]:
            continue
        part = Range(tp, max(bounds.earliest[tp], end - _LOOK_BACK), end)
        batches = [batch for chunk in reading.chunks(part, options, None) for batch in chunk.batches]
        found.update(_CODECS[batch.codec] for batch in [each for each in batches if not each.is_control][-1:])
    return found.most_common(1)[0][0] if found else "none"


def translate(
    spark: SparkSession,
    source: Mapping[str, str],
    target: str,
    rename: Mapping[str, str],
    checkpoint: Path,
    groups: Sequence[str],
) -> list[Place]:
    """Commit for each group, in the copies, what it has committed in topics that were mirrored up to a checkpoint."""
    copied, _ = from_json(checkpointed(checkpoint) or {})
    with Client(source_options(source, streaming=False).bootstrap) as client:
        committed = {group: client.admin.group_offsets(group) for group in groups}
    lost = [group for group, offsets in committed.items() if not any(tp in copied for tp in offsets)]
    if lost:
        raise SpecError(f"group {lost[0]} has committed nothing in the topics that were copied")
    given = {"includeHeaders": "true", "kafka.isolation.level": "read_committed"}
    here = _Side(spark, {**given, **source})
    names = {topic: rename.get(topic, topic) for topic, _ in copied}
    there = _Side(spark, {**given, **connection_options(target), "subscribe": ",".join(sorted(set(names.values())))})
    at = {(group, tp): each.offset for group, offsets in committed.items() for tp, each in offsets.items()}
    at = {(group, tp): offset for (group, tp), offset in at.items() if tp in copied and tp in here.bounds.latest}
    behind = here.behind(at, copied)
    copies = {key: TopicPartition(names[key[1].topic], key[1].partition) for key in at}
    ends = {tp: there.bounds.latest[tp] for tp in copies.values() if tp in there.bounds.latest}
    counted = {key: behind[key][0] for key in at if copies[key] in ends}
    begin = there.from_the_end({(group, copies[group, tp]): count for (group, tp), count in counted.items()}, ends)
    same = there.behind(begin, ends)
    places = []
    for key, offset in sorted(at.items()):
        copy = (key[0], copies[key])
        sure = begin.get(copy) if copy in begin and same[copy] == behind[key] else None
        places.append(Place(key[0], *key[1], offset, copy[1].topic, sure))
    with Client(target) as client:
        for group in groups:
            found = {TopicPartition(p.copy, p.partition): p.there for p in places if p.group == group}
            known = {tp: offset for tp, offset in found.items() if offset is not None}
            if known:
                client.admin.alter_group_offsets(group, known)
    return places


_Key = tuple[str, TopicPartition]
_Content = tuple[int, Any]
_NOTHING: Final[_Content] = (0, None)


class _Side:
    """The topics of one side of a mirror, as they are when this is made."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._options = options
        self.bounds = bounds_of(source_options(options, streaming=False))

    def behind(self, places: Mapping[_Key, int], ends: Mapping[TopicPartition, int]) -> dict[_Key, _Content]:
        """The records from each place on to its partition's end: how many, and a number that all have a part in."""
        from pyspark.sql import functions as f

        found = dict.fromkeys(places, _NOTHING)
        if not places:
            return found
        starts: dict[TopicPartition, int] = {}
        for (_, tp), offset in places.items():
            starts[tp] = min(offset, starts.get(tp, offset))
        rows = self._records(starts, ends).join(f.broadcast(self._frame(places)), ["topic", "partition"])
        counted = rows.where("offset >= at").groupBy("group", "topic", "partition")
        for row in counted.agg(f.expr("count(*) AS n"), f.expr(f"{CONTENT} AS content")).collect():
            found[row["group"], TopicPartition(row["topic"], row["partition"])] = (row["n"], row["content"])
        return found

    def from_the_end(self, counts: Mapping[_Key, int], ends: Mapping[TopicPartition, int]) -> dict[_Key, int]:
        """The offsets of the records that have so many from them on to the end; none where there are not so many."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        found = {key: ends[key[1]] for key, count in counts.items() if count == 0}
        left = {key: count for key, count in counts.items() if count}
        if not left:
            return found
        window = Window.partitionBy("topic", "partition").orderBy(f.col("offset").desc())
        starts = {tp: self.bounds.earliest[tp] for _, tp in left}
        numbered = self._records(starts, ends, columns="topic,partition,offset")
        numbered = numbered.withColumn("at", f.row_number().over(window))
        for row in numbered.join(f.broadcast(self._frame(left)), ["topic", "partition", "at"]).collect():
            found[row["group"], TopicPartition(row["topic"], row["partition"])] = row["offset"]
        return found

    def _frame(self, numbers: Mapping[_Key, int]) -> DataFrame:
        rows = [(group, tp.topic, tp.partition, number) for (group, tp), number in numbers.items()]
        return self._spark.createDataFrame(rows, "group string, topic string, partition int, at bigint")

    def _records(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], **more: str
    ) -> DataFrame:
        """What is there between two places, as far as it is there."""
        first = {tp: _within(offset, self.bounds, tp) for tp, offset in starts.items()}
        last = {tp: max(first[tp], _within(ends[tp], self.bounds, tp)) for tp in starts}
        by_name = {name: each for name, each in self._options.items() if name != "subscribe"}
        given = {
            "assign": json.dumps(_partitions(starts)),
            "startingOffsets": json.dumps(to_json(first, {})),
            "endingOffsets": json.dumps(to_json(last, {})),
        }
        return self._spark.read.format("kavka").options(**{**by_name, **given, **more}).load()


def _within(offset: int, bounds: OffsetBounds, tp: TopicPartition) -> int:
    return min(max(offset, bounds.earliest[tp]), bounds.latest[tp])


def _partitions(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        found.setdefault(topic, []).append(partition)
    return found
