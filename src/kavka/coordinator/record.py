"""What `__consumer_offsets` remembers: a typed key with a typed value, or with none where something is forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple

from kavka.model.errors import KafkaError
from kavka.protocol.compiler import Read, decoder, encode
from kavka.protocol.primitives import Buffer
from kavka.protocol.schema import declared

RECORDS: Final[Mapping[int, tuple[str, str]]] = {
    0: ("offsets", "LegacyOffsetCommit"),
    1: ("offsets", "OffsetCommit"),
    2: ("classic", "GroupMetadata"),
    3: ("consumer", "ConsumerGroupMetadata"),
    4: ("consumer", "ConsumerGroupPartitionMetadata"),
    5: ("consumer", "ConsumerGroupMemberMetadata"),
    6: ("consumer", "ConsumerGroupTargetAssignmentMetadata"),
    7: ("consumer", "ConsumerGroupTargetAssignmentMember"),
    8: ("consumer", "ConsumerGroupCurrentMemberAssignment"),
    16: ("consumer", "ConsumerGroupRegularExpression"),
}
"""Package and name of each kind of record, by the type its key starts with; Key and Value follow the name."""

_PREFIX: Final = Struct(">h")
_KEY_VERSION: Final = 0


class Record(NamedTuple):
    """One record; no value means that what the key names is forgotten (a tombstone)."""

    key: Any
    value: Any = None
    version: int = 0
    """The version that the value is written at."""


class Unknown(NamedTuple):
    """Bytes that are no record this version knows; whoever loads a log passes over them."""

    reason: str


@cache
def record_classes(kind: int) -> tuple[type[Any], type[Any]]:
    """The classes of the keys and the values of a kind of records; raises KeyError."""
    package, name = RECORDS[kind]
    module = import_module(f"kavka.coordinator.{package}.records")
    return getattr(module, f"{name}Key"), getattr(module, f"{name}Value")


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Key and value as the log holds them: the key after its type, the value after its version."""
    key = _PREFIX.pack(declared(type(record.key)).key) + encode(record.key, _KEY_VERSION)
    if record.value is None:
        return key, None
    return key, _PREFIX.pack(record.version) + encode(record.value, record.version)


def decode_record(key: Buffer | None, value: Buffer | None) -> Record | Unknown:
    """The record in a key and a value; never raises."""
    if key is None or len(key) < _PREFIX.size:
        return Unknown("a record without a key")
    (kind,) = _PREFIX.unpack_from(key)
    if kind not in RECORDS:
        return Unknown(f"a record of unknown type {kind}")
    if value is not None and len(value) < _PREFIX.size:
        return Unknown(f"a record of type {kind} whose value has no version")
    version = 0 if value is None else _PREFIX.unpack_from(value)[0]
    try:
        read_key, read_value = _readers(kind, version)
        found = read_key(key, _PREFIX.size)[0]
        if value is None:
            return Record(found)
        return Record(found, read_value(value, _PREFIX.size)[0], version)
    except KafkaError as error:
        return Unknown(f"a record of type {kind} that cannot be read: {error}")


@cache
def _readers(kind: int, version: int) -> tuple[Read, Read]:
    key_class, value_class = record_classes(kind)
    return decoder(key_class, _KEY_VERSION), decoder(value_class, version)
