"""Rows of a struct as framed values: the driver finds out about their schema, a task makes bytes of a column."""

from __future__ import annotations

import base64
import datetime as dt
import functools
import io
import json
import math
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from kavka.client.registry import IncompatibleSchema, RegisteredSchema, Schema
from kavka.client.registry.blocking import SchemaRegistry
from kavka.spark.connecting import OptionError
from kavka.spark.options import ValueFormat
from kavka.spark.protobuf_values import TIME, message_class
from kavka.spark.registry.access import connected
from kavka.spark.registry.fitting import avro_misfit, message_misfit
from kavka.spark.registry.json_schema import schema_of
from kavka.spark.registry.languages import first_message, message_names, readable, registered

Encode = Callable[[Any], bytes]
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def prepared(given: ValueFormat, kind: Any) -> ValueFormat:
    """The format with its schema, found or registered; raises OptionError where rows of a type cannot be written."""
    with connected(given.registry) as registry:
        found = _found(registry, given, kind)
        schema = "" if given.form == "json-schema" else readable(registry, given.form, found)
    made = replace(given, schema_id=found.id, schema=schema)
    _check(made, kind)
    return made


def _found(registry: SchemaRegistry, given: ValueFormat, kind: Any) -> RegisteredSchema:
    if given.register:
        if given.form == "protobuf":
            raise OptionError("no Protobuf schema is made of columns: register one, without value.schema.register")
        text = json.dumps(avro_of(kind, given.subject)) if given.form == "avro" else schema_of(kind)
        try:
            return registry.register(given.subject, Schema(text, "AVRO" if given.form == "avro" else "JSON"))
        except IncompatibleSchema as error:
            raise OptionError(f"the columns do not fit subject {given.subject!r}: {error}") from None
    return registered(registry, given.form, given.subject, given.version)


def _check(given: ValueFormat, kind: Any) -> None:
    if given.form == "json-schema":
        return
    if given.form == "avro":
        said = avro_misfit(json.loads(given.schema), kind)
    else:
        said = message_misfit(message_class(given.schema, _message(given)).DESCRIPTOR, kind)
    if said is not None:
        raise OptionError(
            f"the schema of {given.subject!r} {said}: leave out the column, add it or cast it; value.schema.register "
            "registers a schema of the columns"
        )


def _message(given: ValueFormat) -> str:
    return given.message or first_message(given.schema)


@functools.lru_cache(maxsize=8)
def encoder(given: ValueFormat) -> Callable[[Any], list[bytes | None]]:
    """What makes values of a column of structs; a row that is null is a tombstone."""
    head = b"\0" + given.schema_id.to_bytes(4, "big")
    encode = _ENCODERS[given.form](given)

    def one(row: Any) -> bytes:
        try:
            return head + encode(row)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, struct.error) as error:
            said = " ".join(str(error).split())[:300]
            raise ValueError(f"a row does not fit the schema of {given.subject!r}: {said}") from None

    def values(column: Any) -> list[bytes | None]:
        shape = _shaper(column.type)
        return [None if row is None else one(shape(row)) for row in column.to_pylist()]

    return values


def _shaper(kind: Any) -> Callable[[Any], Any]:
    """Makes dictionaries of maps, which Arrow hands out as pairs."""
    if pa.types.is_map(kind):
        inner = _shaper(kind.item_type)
        return lambda pairs: None if pairs is None else {key: inner(item) for key, item in pairs}
    if pa.types.is_list(kind):
        each = _shaper(kind.value_type)
        return lambda items: None if items is None else [each(item) for item in items]
    if pa.types.is_struct(kind):
        parts = [(field.name, _shaper(field.type)) for field in kind]
        return lambda row: None if row is None else {name: shape(row[name]) for name, shape in parts}
    return lambda item: item


def _avro(given: ValueFormat) -> Encode:
    import fastavro

    schema = fastavro.parse_schema(json.loads(given.schema))

    def encode(row: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        return out.getvalue()

    return encode


def _json(given: ValueFormat) -> Encode:
    return lambda row: _text(row).encode()


def _text(item: Any) -> str:
    """An item as JSON: by the library, but for decimals, of which it has none with all their digits."""
    if isinstance(item, dict):
        return "{" + ",".join(f"{_text(str(key))}:{_text(each)}" for key, each in item.items()) + "}"
    if isinstance(item, list):
        return "[" + ",".join(map(_text, item)) + "]"
    if isinstance(item, Decimal):
        return f"{item:f}"
    if isinstance(item, float) and not math.isfinite(item):
        raise ValueError(f"JSON has no number {item}: write null, or a text")
    return json.dumps(item, default=_said, ensure_ascii=False)


def _said(item: Any) -> str:
    """What JSON has no word for; each is read again by the rules for its type."""
    if isinstance(item, dt.datetime):
        return item.isoformat().replace("+00:00", "Z")
    if isinstance(item, dt.date):
        return item.isoformat()
    if isinstance(item, bytes):
        return base64.b64encode(item).decode()
    raise TypeError(f"{type(item).__name__} cannot be written as JSON")


def _protobuf(given: ValueFormat) -> Encode:
    name = _message(given)
    made = message_class(given.schema, name)
    place = next(place for place, each in message_names(given.schema).items() if each == name)
    which = b"\0" if place == (0,) else b"".join(map(_zigzag, (len(place), *place)))

    def encode(row: Any) -> bytes:
        message = made()
        _fill(message, row)
        content: bytes = message.SerializeToString()
        return which + content

    return encode


def _zigzag(number: int) -> bytes:
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _fill(message: Any, row: Any) -> None:
    if message.DESCRIPTOR.full_name == TIME and isinstance(row, dt.datetime):
        _fill_time(message, row)
        return
    for field in message.DESCRIPTOR.fields:
        item = row.get(field.name)
        if item is None:
            continue
        target = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            content = field.message_type.fields_by_name["value"]
            for key, each in item.items():
                if content.message_type is not None:
                    _fill(target[key], each)
                else:
                    target[key] = _scalar(content, each)
        elif field.is_repeated:
            for each in item:
                if field.message_type is not None:
                    _fill(target.add(), each)
                else:
                    target.append(_scalar(field, each))
        elif field.message_type is not None:
            target.SetInParent()
            _fill(target, item)
        else:
            setattr(message, field.name, _scalar(field, item))


def _fill_time(message: Any, time: dt.datetime) -> None:
    if time.tzinfo is None:
        raise ValueError(f"{time} has no zone, and a Timestamp of Protobuf is a moment: cast the column to TIMESTAMP")
    seconds, micros = divmod((time - _EPOCH) // dt.timedelta(microseconds=1), 1_000_000)
    message.seconds, message.nanos = seconds, micros * 1000


def _scalar(field: Any, item: Any) -> Any:
    if field.enum_type is not None and isinstance(item, str):
        return field.enum_type.values_by_name[item].number
    if not isinstance(item, Decimal):
        return item
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return float(item)
    if item != item.to_integral_value():
        raise ValueError(f"field {field.name} is no number with digits after the point, {item} is")
    return int(item)


_ENCODERS: Final = {"avro": _avro, "json-schema": _json, "protobuf": _protobuf}


def avro_of(kind: Any, subject: str) -> Any:
    """An Avro schema for the rows of a struct; every field may be null, and is if a writer does not have it."""
    name = re.sub(r"\W", "_", subject.removesuffix("-value"), flags=re.ASCII)
    return _record(kind, f"_{name}" if name[:1].isdigit() else name or "value")


def _record(kind: Any, name: str) -> dict[str, Any]:
    fields = [
        {"name": field.name, "type": ["null", _avro_type(field.type, f"{name}_{field.name}")], "default": None}
        for field in kind
    ]
    return {"type": "record", "name": name, "fields": fields}


def _avro_type(kind: Any, name: str) -> Any:
    if pa.types.is_struct(kind):
        return _record(kind, name)
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type, name)]}
    if pa.types.is_map(kind):
        return {"type": "map", "values": ["null", _avro_type(kind.item_type, name)]}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if kind not in _AVRO:
        raise OptionError(f"there is no Avro type for columns of type {kind}: cast {name}")
    return _AVRO[kind]


_AVRO: Final[dict[Any, Any]] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
}
