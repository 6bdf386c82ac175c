"""Which partitions a broker has to do with, so that deciding about one broker never looks at all partitions.

Derived from the image and nothing else: built when first asked for, then kept up by what each replay changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import PartitionImage, TopicImage, TopicsImage
from kavka.metadata.image.topics import NO_LEADER
from kavka.model.types import Uuid

Key = tuple[Uuid, int]
"""A partition, by its topic's id."""
_Keys = dict[Key, None]
"""A set that keeps the order: a set of bytes would come in another order in every process."""


class IndexedPartition(NamedTuple):
    """A partition of an image, with its topic."""

    topic: TopicImage
    partition_id: int
    partition: PartitionImage


class PartitionIndex:
    """The partitions of one image by what is asked of them."""

    def __init__(self) -> None:
        self._of: TopicsImage | None = None
        self._clear()

    def _clear(self) -> None:
        self._on: dict[int, _Keys] = {}
        self._led: Counter[int] = Counter()
        self._leaderless: _Keys = {}
        self._unpreferred: _Keys = {}
        self._moving: _Keys = {}

    # -- asking ---------------------------------------------------------------------------------

    def at(self, topics: TopicsImage) -> PartitionIndex:
        """This index, made to say what these topics say."""
        if self._of is not topics:
            self._clear()
            for topic in topics.by_id.values():
                self._add_all(topic)
            self._of = topics
        return self

    def on(self, broker_id: int) -> Iterator[IndexedPartition]:
        """The partitions with a replica on a broker."""
        return self._found(self._on.get(broker_id, {}))

    def leaderless(self) -> Iterator[IndexedPartition]:
        """The partitions without a leader."""
        return self._found(self._leaderless)

    def unpreferred(self) -> Iterator[IndexedPartition]:
        """The partitions whose leader is not the preferred one."""
        return self._found(self._unpreferred)

    def moving(self) -> Iterator[IndexedPartition]:
        """The partitions that are being reassigned."""
        return self._found(self._moving)

    def led_by(self, broker_id: int) -> int:
        """How many partitions a broker leads."""
        return self._led[broker_id]

    def _found(self, keys: _Keys) -> Iterator[IndexedPartition]:
        if keys:
            assert self._of is not None
            by_id = self._of.by_id
            for id_, index in keys:
                topic = by_id[id_]
                yield IndexedPartition(topic, index, topic.partitions[index])

    # -- following ------------------------------------------------------------------------------

    def follow(self, before: TopicsImage, after: TopicsImage, delta: MetadataDelta) -> None:
        """Go on to the topics after a change; passed over until the index was asked for once."""
        if self._of is None or self._of is not before or before is after:
            return
        for topic in delta.deleted_topics.values():
            for index, partition in topic.partitions.items():
                self._remove((topic.id, index), partition)
        for topic in delta.created_topics.values():
            self._add_all(topic)
        for id_, changed in delta.changed_partitions.items():
            old, new = before.by_id[id_].partitions, after.by_id[id_].partitions
            for index in sorted(changed):
                was = old.get(index)
                if was is not None:
                    self._remove((id_, index), was, new[index])
                self._add((id_, index), new[index], was)
        self._of = after

    def _add_all(self, topic: TopicImage) -> None:
        for index, partition in topic.partitions.items():
            self._add((topic.id, index), partition)

    def _add(self, key: Key, partition: PartitionImage, was: PartitionImage | None = None) -> None:
        if was is None or was.replicas != partition.replicas:
            for replica in partition.replicas:
                self._on.setdefault(replica, {})[key] = None
        if partition.leader == NO_LEADER:
            self._leaderless[key] = None
        else:
            self._led[partition.leader] += 1
        if partition.leader != partition.replicas[0]:
            self._unpreferred[key] = None
        if partition.adding or partition.removing:
            self._moving[key] = None

    def _remove(self, key: Key, partition: PartitionImage, then: PartitionImage | None = None) -> None:
        if then is None or then.replicas != partition.replicas:
            for replica in partition.replicas:
                del self._on[replica][key]
        if partition.leader == NO_LEADER:
            del self._leaderless[key]
        else:
            self._led[partition.leader] -= 1
        self._unpreferred.pop(key, None)
        self._moving.pop(key, None)
