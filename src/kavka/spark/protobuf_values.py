"""Protobuf messages as rows, with the types that Spark's `from_protobuf` gives.

Of its options `upcast.unsigned.ints` and `emit.default.values` are on: no number becomes negative, and what a writer
left out because it is the default is there. A duration is a struct of seconds and nanos: tables have no intervals.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from kavka.spark.ddl import SchemaError

TIME: Final = "google.protobuf.Timestamp"
_MESSAGE: Final = 10
_STRING: Final = 9
_ENUM: Final = 8
_UNSIGNED_64: Final = 4
_BYTES: Final = 12
_SCALARS: Final[Mapping[int, Any]] = {
    1: pa.int32(),
    2: pa.int64(),
    3: pa.int64(),  # unsigned 32 bits fit
    _UNSIGNED_64: pa.decimal128(20, 0),
    5: pa.float64(),
    6: pa.float32(),
    7: pa.bool_(),
    _ENUM: pa.string(),  # its symbol's name
}
_YEARS: Final = range(-62_135_596_800, 253_402_300_800)
"""The seconds since 1970 of the years 1 to 9999."""


def message_class(descriptor_set: str, message: str) -> Any:
    """The class of a message, by a file descriptor set in base64."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    found = descriptor_pb2.FileDescriptorSet()
    try:
        found.ParseFromString(base64.b64decode(descriptor_set, validate=True))
        pool = descriptor_pool.DescriptorPool()
        for file in found.file:
            pool.Add(file)
        descriptor = pool.FindMessageTypeByName(message)
    except KeyError:
        raise SchemaError(f"the descriptor set has no message {message!r}") from None
    except Exception as error:
        raise SchemaError(f"value.schema is not a descriptor set: {error}") from None
    return message_factory.GetMessageClass(descriptor)


class ProtobufReader:
    """Reads values that are one message each."""

    def __init__(self, message: Any) -> None:
        from google.protobuf.unknown_fields import UnknownFieldSet

        self._message = message
        self._unknown = UnknownFieldSet
        self.kind: Any = _struct(message.DESCRIPTOR, ())

    def read(self, value: bytes) -> dict[str, Any]:
        """One message, as a row; raises what the library raises over bytes that are none."""
        message = self._message()
        if message.ParseFromString(value) != len(value):
            raise ValueError("bytes follow the message")
        if not message.IsInitialized():
            raise ValueError(f"required fields are missing: {', '.join(message.FindInitializationErrors())}")
        return self._row(message)

    def _row(self, message: Any) -> dict[str, Any]:
        self._check(message)
        row: dict[str, Any] = {}
        for field in message.DESCRIPTOR.fields:
            content = getattr(message, field.name)
            if _is_map(field):
                value = field.message_type.fields_by_name["value"]
                row[field.name] = [(key, self._item(value, item)) for key, item in content.items()]
            elif field.is_repeated:
                row[field.name] = [self._item(field, item) for item in content]
            elif field.has_presence and not message.HasField(field.name) and not field.has_default_value:
                row[field.name] = None
            else:
                row[field.name] = self._item(field, content)
        return row

    def _check(self, message: Any) -> None:
        """What was written as another type, the library takes for a field that it does not know."""
        unknown = self._unknown(message)
        for at in range(len(unknown)):
            field = message.DESCRIPTOR.fields_by_number.get(unknown[at].field_number)
            if field is not None:
                raise ValueError(
                    f"field {field.name} was written as another type, or with a symbol that its enum lacks"
                )

    def _item(self, field: Any, item: Any) -> Any:
        if field.cpp_type == _MESSAGE:
            return _moment(item) if field.message_type.full_name == TIME else self._row(item)
        if field.cpp_type == _ENUM:
            known = field.enum_type.values_by_number.get(item)
            # The name that Java's library, and so Spark, makes for a symbol that the schema does not have.
            return known.name if known is not None else f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_{item}"
        return Decimal(item) if field.cpp_type == _UNSIGNED_64 else item


def _moment(time: Any) -> int:
    """Microseconds since 1970."""
    if time.seconds not in _YEARS:
        raise ValueError(f"{time.seconds} seconds since 1970 are not in the years 1 to 9999")
    return int(time.seconds) * 1_000_000 + int(time.nanos) // 1000


def _struct(descriptor: Any, around: tuple[str, ...]) -> Any:
    """The columns of a message; none for fields that hold nothing, because files cannot have such columns."""
    if descriptor.full_name in around:
        raise SchemaError(f"message {descriptor.full_name} contains itself: no column can hold that")
    within = (*around, descriptor.full_name)
    pairs = ((field.name, _type(field, within)) for field in descriptor.fields)
    return pa.struct([pa.field(name, kind) for name, kind in pairs if kind is not None])


def _type(field: Any, around: tuple[str, ...]) -> Any | None:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        key, value = (_scalar(entry[part], around) for part in ("key", "value"))
        return None if value is None else pa.map_(key, value)
    kind = _scalar(field, around)
    return pa.list_(pa.field("element", kind)) if field.is_repeated and kind is not None else kind


def _scalar(field: Any, around: tuple[str, ...]) -> Any | None:
    if field.cpp_type == _MESSAGE:
        if field.message_type.full_name == TIME:
            return pa.timestamp("us", tz="UTC")
        kind = _struct(field.message_type, around)
        return kind if kind.num_fields else None
    if field.cpp_type == _STRING:
        return pa.binary() if field.type == _BYTES else pa.string()
    return _SCALARS[field.cpp_type]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)
