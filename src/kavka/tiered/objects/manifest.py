"""The manifest beside each remote segment: everything needed to read it and to put it back into a catalogue.

It is written last and deleted first, so where there is one the segment is whole. JSON, with a CRC-32C of its canonical
form; sizes and checksums of chunks are packed, four bytes each.
"""

from __future__ import annotations

import json
from array import array
from base64 import b64decode, b64encode
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from struct import error as StructError  # noqa: N812
from sys import byteorder
from typing import Any, Final, NamedTuple

from kavka.catalog.segment import RemoteSegment, SegmentState, TopicIdPartition, pack
from kavka.model.types import Uuid
from kavka.tiered.objects.base import ObjectCorrupt, StoreRefused
from kavka.tiered.objects.sealing import KeyRing, Sealer, checksum, place_of

VERSION: Final = 1
_CUSTOM: Final = Struct(">BqI")
_CUSTOM_VERSION: Final = 1


class Part(Enum):
    """The files of a segment, by the suffix that Kafka's LocalTieredStorage gives them; the order is on disk."""

    LOG = "log"
    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    PRODUCER_SNAPSHOT = "snapshot"
    LEADER_EPOCHS = "leader_epoch_checkpoint"

    @property
    def number(self) -> int:
        """Its number in nonces."""
        return _NUMBERS[self]


_NUMBERS: Final = {part: number for number, part in enumerate(Part)}


@dataclass(frozen=True, slots=True)
class PartEntry:
    """Where a part is and what its chunks are like."""

    key: str  # the object that it is in
    position: int  # where in there it begins
    size: int  # of the file that it was
    stored: array[int]  # the size of each chunk in the store
    checksums: array[int] | None  # of each chunk in the store; None for segments that another program wrote

    @property
    def stored_size(self) -> int:
        """Its bytes in the store."""
        return sum(self.stored)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is stored of a segment, and how."""

    name: TopicIdPartition
    segment: RemoteSegment
    chunk_bytes: int
    compressed: bool
    encryption: dict[str, str] | None
    parts: dict[Part, PartEntry]

    @property
    def stored_bytes(self) -> int:
        """Its bytes in the store, the manifest's own not counted."""
        return sum(part.stored_size for part in self.parts.values())

    def sealer(self, keys: KeyRing | None) -> Sealer:
        """What opens its chunks."""
        place = place_of(self.name, self.segment)
        if self.encryption is None:
            return Sealer(place, self.compressed, None)
        if keys is None:
            raise StoreRefused("the segment is encrypted, and there are no keys")
        return Sealer(place, self.compressed, keys.unwrap(self.encryption, place))

    def chunk_size(self, part: Part, number: int) -> int:
        """How many bytes of the file a chunk has."""
        return min(self.chunk_bytes, self.parts[part].size - number * self.chunk_bytes)


def encode_manifest(manifest: Manifest, sealer: Sealer) -> bytes:
    """The bytes of a manifest, signed if it is encrypted."""
    body = {
        "version": VERSION,
        "topic": manifest.name.topic,
        "topic_id": str(manifest.name.topic_id),
        "partition": manifest.name.partition,
        "segment": _segment_json(manifest.segment),
        "chunk_bytes": manifest.chunk_bytes,
        "compression": "zstd" if manifest.compressed else None,
        "encryption": manifest.encryption,
        "parts": {part.value: _part_json(entry) for part, entry in manifest.parts.items()},
    }
    canonical = _canonical(body)
    outer = {"manifest": body, "crc32c": checksum(canonical), "signature": sealer.sign(canonical)}
    return json.dumps(outer, indent=1).encode()


def decode_manifest(data: bytes, keys: KeyRing | None) -> Manifest:
    """The manifest in these bytes; ObjectCorrupt if they are not a whole and true one."""
    try:
        outer = json.loads(data)
        body = outer["manifest"]
        canonical = _canonical(body)
        if checksum(canonical) != outer["crc32c"]:
            raise ObjectCorrupt("a manifest whose checksum is wrong")
        if body["version"] != VERSION:
            raise ObjectCorrupt(f"a manifest of version {body['version']}; {VERSION} is known")
        name = TopicIdPartition(Uuid.parse(body["topic_id"]), body["partition"], body["topic"])
        parts = {Part(suffix): _part(entry) for suffix, entry in body["parts"].items()}
        compressed = body["compression"] is not None
        segment = _segment(body["segment"])
        manifest = Manifest(name, segment, body["chunk_bytes"], compressed, body["encryption"], parts)
        _check(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, StructError) as error:
        raise ObjectCorrupt(f"not a manifest: {error}") from None
    signed = manifest.encryption is not None and keys is not None
    if signed and manifest.sealer(keys).sign(canonical) != outer.get("signature"):
        raise ObjectCorrupt("a manifest whose signature is wrong")
    return manifest


def encode_custom(manifest: Manifest, data: bytes) -> bytes:
    """What the catalogue remembers of a stored segment: how large it is there, and the checksum of its manifest."""
    return _CUSTOM.pack(_CUSTOM_VERSION, manifest.stored_bytes + len(data), checksum(data))


class CustomMetadata(NamedTuple):
    """What the remote log metadata has of a stored segment."""

    stored_bytes: int
    manifest_checksum: int


def decode_custom(custom: bytes | None) -> CustomMetadata | None:
    """The custom metadata of a segment; None if another program wrote it."""
    if custom is None or len(custom) != _CUSTOM.size or custom[0] != _CUSTOM_VERSION:
        return None
    _, stored, crc = _CUSTOM.unpack(custom)
    return CustomMetadata(stored, crc)


def _check(manifest: Manifest) -> None:
    sealed, parts = manifest.encryption, manifest.parts.values()
    pack(manifest.segment)  # takes only numbers that fit
    place_of(manifest.name, manifest.segment)
    numbers = [manifest.chunk_bytes, *(number for part in parts for number in (part.size, part.position))]
    if manifest.chunk_bytes < 1 or any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("sizes that are none")
    if not all(isinstance(text, str) for text in (manifest.name.topic, *(part.key for part in parts))):
        raise ValueError("names that are none")
    if sealed is not None and not all(isinstance(sealed[key], str) for key in ("key", "data_key")):
        raise ValueError("an encryption of another kind")
    if manifest.parts[Part.LOG].size != manifest.segment.size_bytes:
        raise ValueError("a log of another size")
    if any(len(part.stored) != -(-part.size // manifest.chunk_bytes) for part in parts):
        raise ValueError("too few or too many chunks")


def _canonical(body: Any) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _segment_json(segment: RemoteSegment) -> dict[str, Any]:
    return {
        "id": str(segment.id),
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "max_timestamp_ms": segment.max_timestamp_ms,
        "event_timestamp_ms": segment.event_timestamp_ms,
        "size_bytes": segment.size_bytes,
        "broker_id": segment.broker_id,
        "leader_epochs": [list(epoch) for epoch in segment.epochs],
        "txn_index_empty": segment.txn_index_empty,
    }


def _segment(found: dict[str, Any]) -> RemoteSegment:
    segment = RemoteSegment(
        Uuid.parse(found["id"]),
        found["start_offset"],
        found["end_offset"],
        found["max_timestamp_ms"],
        found["event_timestamp_ms"],
        found["size_bytes"],
        found["broker_id"],
        tuple((epoch, start) for epoch, start in found["leader_epochs"]),
        SegmentState.COPY_SEGMENT_FINISHED,
        found["txn_index_empty"],
    )
    fault = segment.fault()
    if fault is not None:
        raise ValueError(f"the segment {fault}")
    return segment


def _part_json(entry: PartEntry) -> dict[str, Any]:
    return {
        "key": entry.key,
        "position": entry.position,
        "size": entry.size,
        "stored": _packed(entry.stored),
        "checksums": _packed(entry.checksums or array("I")),
    }


def _part(found: dict[str, Any]) -> PartEntry:
    stored, checksums = _unpacked(found["stored"]), _unpacked(found["checksums"])
    if len(stored) != len(checksums):
        raise ValueError("chunks without a checksum")
    return PartEntry(found["key"], found["position"], found["size"], stored, checksums)


def _packed(numbers: array[int]) -> str:
    return b64encode(_big_endian(numbers).tobytes()).decode()


def _unpacked(text: str) -> array[int]:
    return _big_endian(array("I", b64decode(text, validate=True)))


def _big_endian(numbers: array[int]) -> array[int]:
    if byteorder == "little":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
