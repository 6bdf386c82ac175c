"""The records of a coordinator's log: a typed key with a typed value, or with none where something is forgotten.

Which records there are is for each topic to say, by its codec: the same type of key means something else in another
topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from kavka.model.errors import KafkaError
from kavka.protocol.compiler import Read, decoder, encode
from kavka.protocol.primitives import Buffer
from kavka.protocol.schema import declared

_PREFIX: Final = Struct(">h")
_KEY_VERSION: Final = 0

RecordClasses = tuple[type[Any], type[Any]]
"""The classes of the keys and of the values of one type of records."""


class Record(NamedTuple):
    """One record; no value means that what the key names is forgotten (a tombstone)."""

    key: Any
    value: Any = None
    version: int = 0
    """The version that the value is written at."""


class Unknown(NamedTuple):
    """Bytes that are no record this version knows; whoever loads a log passes over them."""

    reason: str


class RecordCodec:
    """How the records of one topic lie in its log: the key after its type, the value after its version."""

    def __init__(self, records: Iterable[RecordClasses]) -> None:
        """Raises ValueError when two records have one type."""
        self._classes: dict[int, RecordClasses] = {}
        self._prefixes: dict[type[Any], bytes] = {}
        self._readers: dict[tuple[int, int], tuple[Read, Read]] = {}
        for classes in records:
            kind = declared(classes[0]).key
            if kind in self._classes:
                raise ValueError(f"{classes[0].__name__} and {self._classes[kind][0].__name__} are both of type {kind}")
            self._classes[kind] = classes
            self._prefixes[classes[0]] = _PREFIX.pack(kind)

    @property
    def classes(self) -> Mapping[int, RecordClasses]:
        """The classes of keys and values by the type that a key starts with."""
        return self._classes

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Key and value as the log holds them; raises KeyError for a record of another topic."""
        key = self._prefixes[type(record.key)] + encode(record.key, _KEY_VERSION)
        if record.value is None:
            return key, None
        return key, _PREFIX.pack(record.version) + encode(record.value, record.version)

    def decode(self, key: Buffer | None, value: Buffer | None) -> Record | Unknown:
        """The record in a key and a value; never raises."""
        if key is None or len(key) < _PREFIX.size:
            return Unknown("a record without a key")
        (kind,) = _PREFIX.unpack_from(key)
        if kind not in self._classes:
            return Unknown(f"a record of unknown type {kind}")
        if value is not None and len(value) < _PREFIX.size:
            return Unknown(f"a record of type {kind} whose value has no version")
        version = 0 if value is None else _PREFIX.unpack_from(value)[0]
        try:
            read_key, read_value = self._reading(kind, version)
            found = read_key(key, _PREFIX.size)[0]
            if value is None:
                return Record(found)
            return self.checked(Record(found, read_value(value, _PREFIX.size)[0], version))
        except KafkaError as error:
            return Unknown(f"a record of type {kind} that cannot be read: {error}")

    def checked(self, record: Record) -> Record | Unknown:
        """A record whose value a machine can take in; for topics whose schemas allow more than that."""
        return record

    def _reading(self, kind: int, version: int) -> tuple[Read, Read]:
        found = self._readers.get((kind, version))
        if found is None:
            key, value = self._classes[kind]
            found = self._readers[kind, version] = decoder(key, _KEY_VERSION), decoder(value, version)
        return found
