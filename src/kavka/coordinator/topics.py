"""The topics as consumer groups see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.image.topics import TopicImage
from kavka.model.types import Uuid

V = TypeVar("V")


class Topics:
    """A view of the metadata image: names, ids, partitions, and a number that differs when any of them does."""

    __slots__ = ("_hashes", "_image", "_new_at")

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._hashes: dict[str, int] = {}
        self._new_at = image.offset

    @property
    def image(self) -> MetadataImage:
        """The image behind the view."""
        return self._image

    @property
    def version(self) -> int:
        """The offset of the image."""
        return self._image.offset

    @property
    def new_at(self) -> int:
        """The version that last brought a new topic, as far as this view knows."""
        return self._new_at

    def move(self, image: MetadataImage, delta: MetadataDelta) -> set[str]:
        """Go on to a later image; the names of the topics that differ in it."""
        changed = {topic.name for topic in delta.created_topics.values()}
        changed |= {topic.name for topic in delta.deleted_topics.values()}
        changed |= {image.topics.by_id[id_].name for id_ in delta.changed_partitions if id_ in image.topics.by_id}
        self._image = image
        if delta.created_topics:
            self._new_at = image.offset
        for name in changed:
            self._hashes.pop(name, None)
        return changed

    def id_of(self, name: str) -> Uuid | None:
        """The id of a topic, if there is one of this name."""
        topic = self._image.topics.by_name.get(name)
        return None if topic is None else topic.id

    def name_of(self, topic_id: Uuid) -> str | None:
        """The name of a topic, if it is there."""
        topic = self._image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def ids_of(self, names: Iterable[str]) -> set[Uuid]:
        """The ids of those topics that are there."""
        by_name = self._image.topics.by_name
        return {topic.id for name in names if (topic := by_name.get(name)) is not None}

    def count_of(self, name: str) -> int | None:
        """How many partitions a topic has; None if it is not there."""
        topic = self._image.topics.by_name.get(name)
        return None if topic is None else len(topic.partitions)

    def partition_counts(self, topic_ids: Iterable[Uuid]) -> dict[Uuid, int]:
        """How many partitions topics have; all of them are there."""
        by_id = self._image.topics.by_id
        return {topic_id: len(by_id[topic_id].partitions) for topic_id in topic_ids}

    def named(self, assigned: Mapping[Uuid, V]) -> dict[str, V]:
        """What belongs to topics by id, by name; without those that are gone."""
        return {name: value for topic_id, value in assigned.items() if (name := self.name_of(topic_id)) is not None}

    def hash_of(self, names: Iterable[str]) -> int:
        """A number that stands for these topics as they are now: a signed one of 64 bits, 0 for no topic."""
        from hashlib import blake2b  # not at start-up: it brings OpenSSL along

        digest = blake2b(digest_size=8)
        empty = True
        for name in sorted(names):
            topic = self._image.topics.by_name.get(name)
            if topic is not None:
                empty = False
                digest.update(self._hash(topic).to_bytes(8, "big", signed=True))
        return 0 if empty else int.from_bytes(digest.digest(), "big", signed=True)

    def _hash(self, topic: TopicImage) -> int:
        found = self._hashes.get(topic.name)
        if found is None:
            from hashlib import blake2b

            digest = blake2b(topic.id, digest_size=8)
            digest.update(f"{topic.name}\0{len(topic.partitions)}".encode())
            for index in sorted(topic.partitions):
                digest.update(f"\0{index}\0{self._racks(topic, index)!r}".encode())
            found = self._hashes[topic.name] = int.from_bytes(digest.digest(), "big", signed=True)
        return found

    def _racks(self, topic: TopicImage, index: int) -> list[str]:
        brokers = self._image.cluster.brokers
        racks = (brokers[id_].rack for id_ in topic.partitions[index].replicas if id_ in brokers)
        return sorted(rack for rack in racks if rack is not None)
