"""Where the objects of a segment are: Kafka's LocalTieredStorage for directories, a layout of our own for clouds.

In a directory a JVM broker finds one file per part, exactly as its own LocalTieredStorage leaves them; manifests are in
a tree of their own beside, because it takes every file among its own for one of its parts. In a cloud, where each
request costs, all indexes are one object.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from kavka.catalog.segment import RemoteSegment, TopicIdPartition
from kavka.model.types import Uuid
from kavka.tiered.objects.manifest import Part

MANIFEST: Final = "manifest"
INDEXES: Final = "indexes"


class SegmentRef(NamedTuple):
    """What names a segment in a store."""

    name: TopicIdPartition
    id: Uuid
    start_offset: int

    @classmethod
    def of(cls, name: TopicIdPartition, segment: RemoteSegment) -> SegmentRef:
        """The reference to a segment of the catalogue."""
        return cls(name, segment.id, segment.start_offset)


class Layout(Protocol):
    """How segments are laid out."""

    is_kafkas: bool

    def objects(self) -> Sequence[tuple[str, Sequence[Part]]]:
        """The objects of a segment and the parts that each has, in the order in which they are written."""

    def key(self, ref: SegmentRef, object: str) -> str:
        """The key of an object, or of the manifest."""

    def parse(self, key: str) -> tuple[SegmentRef, str] | None:
        """Whose object a key is; None if it is none of this layout."""


class KafkaLayout:
    """One file per part, where LocalTieredStorage has them."""

    is_kafkas = True
    _tree: Final = "kafka-tiered-storage"
    _manifests: Final = "kavka-manifests"
    _pattern: Final = re.compile(
        r"(kafka-tiered-storage|kavka-manifests)/([a-zA-Z0-9._-]+)-(\d+)-([a-zA-Z0-9_-]{22})/"
        r"(\d{20})-([a-zA-Z0-9_-]{22})\.([a-z_]+)"
    )

    def objects(self) -> Sequence[tuple[str, Sequence[Part]]]:
        """A file for each part."""
        return [(part.value, (part,)) for part in Part]

    def key(self, ref: SegmentRef, object: str) -> str:
        """<tree>/<topic>-<partition>-<topic id>/<start offset>-<segment id>.<suffix>"""
        tree = self._manifests if object == MANIFEST else self._tree
        name = ref.name
        return f"{tree}/{name.topic}-{name.partition}-{name.topic_id}/{ref.start_offset:020d}-{ref.id}.{object}"

    def parse(self, key: str) -> tuple[SegmentRef, str] | None:
        """Whose file it is."""
        match = self._pattern.fullmatch(key)
        if match is None or (match[1] == self._manifests) != (match[7] == MANIFEST):
            return None
        name = TopicIdPartition(Uuid.parse(match[4]), int(match[3]), match[2])
        return SegmentRef(name, Uuid.parse(match[6]), int(match[5])), match[7]


class ObjectLayout:
    """Three objects per segment: the log, all indexes, the manifest."""

    is_kafkas = False
    _pattern: Final = re.compile(
        r"([a-zA-Z0-9._-]+)-([a-zA-Z0-9_-]{22})/(\d+)/(\d{20})-([a-zA-Z0-9_-]{22})\.(log|indexes|manifest)"
    )

    def objects(self) -> Sequence[tuple[str, Sequence[Part]]]:
        """The log, and the rest."""
        return [(Part.LOG.value, (Part.LOG,)), (INDEXES, [part for part in Part if part is not Part.LOG])]

    def key(self, ref: SegmentRef, object: str) -> str:
        """<topic>-<topic id>/<partition>/<start offset>-<segment id>.<object>"""
        name = ref.name
        return f"{name.topic}-{name.topic_id}/{name.partition}/{ref.start_offset:020d}-{ref.id}.{object}"

    def parse(self, key: str) -> tuple[SegmentRef, str] | None:
        """Whose object it is."""
        match = self._pattern.fullmatch(key)
        if match is None:
            return None
        name = TopicIdPartition(Uuid.parse(match[2]), int(match[3]), match[1])
        return SegmentRef(name, Uuid.parse(match[5]), int(match[4])), match[6]


def keys_of(layouts: Sequence[Layout], ref: SegmentRef) -> list[str]:
    """All keys that a segment may have, manifests first: that is the order of deletion."""
    objects = [layout.key(ref, object) for layout in layouts for object, _ in layout.objects()]
    return [*(layout.key(ref, MANIFEST) for layout in layouts), *objects]
