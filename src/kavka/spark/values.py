"""Values to typed columns on the executor: JSON, Avro and Protobuf to an Arrow struct; what cannot be read is named.

A decoder answers with an array of the good rows and a list of the bad ones: (row, reason). A null value is a good row.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from kavka.spark.ddl import SchemaError, parse_schema
from kavka.spark.json_values import JsonDecoder
from kavka.spark.options import SourceOptions

Bad = list[tuple[int, str]]
Values = Sequence[bytes | None]

_FRAME: Final = 5  # a zero byte and the schema's id: how schema registries' clients write values


class Decoder(Protocol):
    """Makes one typed value of each record's value."""

    kind: Any

    def decode(self, values: Values) -> tuple[Any, Bad]:
        """An Arrow array with a row for each value, null where it is bad, and which are bad and why."""


def decoder(options: SourceOptions) -> Decoder | None:
    """The decoder that a query asks for; raises SchemaError where its schema cannot be used."""
    match options.value_format:
        case None:
            return None
        case "text":
            return TextDecoder()
        case "json":
            return JsonDecoder(parse_schema(_required(options.value_schema, "json", "value.schema")))
        case "avro":
            return AvroDecoder(_avro_schema(_required(options.value_schema, "avro", "value.schema")), _skip(options))
        case "protobuf":
            descriptor = _required(options.value_schema, "protobuf", "value.schema")
            return ProtobufDecoder(descriptor, _required(options.value_message, "protobuf", "value.message"))
    raise SchemaError(f"there is no value.format {options.value_format!r}")


def _required(text: str | None, form: str, option: str) -> str:
    if not text:
        raise SchemaError(f"value.format {form} needs option {option}")
    return text


def _skip(options: SourceOptions) -> int:
    return _FRAME if options.value_framing == "confluent" else 0


class _Rows:
    """Decodes value by value, then makes one array of all: of the whole first, one by one where that fails."""

    kind: Any

    def _one(self, value: bytes) -> Any:
        raise NotImplementedError

    def decode(self, values: Values) -> tuple[Any, Bad]:
        """An Arrow array with a row for each value, null where it is bad, and which are bad and why."""
        rows: list[Any] = []
        bad: Bad = []
        for index, value in enumerate(values):
            try:
                rows.append(None if value is None else self._one(value))
            except Exception as error:  # whatever a library raises over bytes that it did not expect
                rows.append(None)
                bad.append((index, f"{type(error).__name__}: {error}"[:300]))
        try:
            return pa.array(rows, self.kind), bad
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return self._one_by_one(rows, bad)

    def _one_by_one(self, rows: list[Any], bad: Bad) -> tuple[Any, Bad]:
        for index, row in enumerate(rows):
            try:
                pa.array([row], self.kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                rows[index] = None
                bad.append((index, f"does not fit the schema: {error}"[:300]))
        return pa.array(rows, self.kind), sorted(bad)


class TextDecoder(_Rows):
    """UTF-8."""

    kind = pa.string()

    def _one(self, value: bytes) -> str:
        return value.decode()


class AvroDecoder(_Rows):
    """Avro's binary form, written with one known schema."""

    def __init__(self, schema: dict[str, Any], skip: int) -> None:
        import fastavro

        try:
            self._schema = fastavro.parse_schema(schema)
        except Exception as error:
            raise SchemaError(f"value.schema is not an Avro schema: {error}") from None
        self._read = fastavro.schemaless_reader
        self._skip = skip
        self.kind = avro_type(self._schema)

    def _one(self, value: bytes) -> Any:
        if self._skip and (len(value) < self._skip or value[0] != 0):
            raise ValueError("the value has no schema id in front")
        stream = io.BytesIO(value)
        stream.seek(self._skip)
        row = self._read(stream, self._schema)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes follow the record")
        return row


def _avro_schema(text: str) -> dict[str, Any]:
    if not text.lstrip().startswith("{"):
        path = Path(text)
        if not path.is_file():
            raise SchemaError(f"value.schema is neither an Avro schema nor a file: {text!r}")
        text = path.read_text()
    try:
        schema = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"value.schema is not JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise SchemaError("value.schema must be an Avro record")
    return schema


_AVRO: Final[dict[str, Any]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "null": pa.null(),
}
_AVRO_LOGICAL: Final[dict[str, Any]] = {
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "date": pa.date32(),
    "uuid": pa.string(),
}


def avro_type(schema: Any) -> Any:
    """The Arrow type of an Avro schema; SchemaError for what columns cannot hold, such as unions of several types."""
    if isinstance(schema, list):
        real = [each for each in schema if each != "null"]
        if len(real) != 1:
            raise SchemaError(f"an Avro union of {len(real)} types has no column type")
        return avro_type(real[0])
    if isinstance(schema, str):
        if schema not in _AVRO:
            raise SchemaError(f"there is no Avro type {schema!r} that a column could have")
        return _AVRO[schema]
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    match schema["type"]:
        case "record":
            return pa.struct([pa.field(field["name"], avro_type(field["type"])) for field in schema["fields"]])
        case "array":
            return pa.list_(pa.field("element", avro_type(schema["items"])))
        case "map":
            return pa.map_(pa.string(), avro_type(schema["values"]))
        case "enum":
            return pa.string()
        case "fixed":
            return pa.binary()
        case inner:
            return avro_type(inner)


class ProtobufDecoder(_Rows):
    """Protobuf, by a file descriptor set (`protoc --descriptor_set_out --include_imports`) and a message's name."""

    def __init__(self, descriptor_set: str, message: str) -> None:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        found = descriptor_pb2.FileDescriptorSet()
        try:
            found.ParseFromString(_descriptor_bytes(descriptor_set))
            pool = descriptor_pool.DescriptorPool()
            for file in found.file:
                pool.Add(file)
            descriptor = pool.FindMessageTypeByName(message)
        except KeyError:
            raise SchemaError(f"the descriptor set has no message {message!r}") from None
        except Exception as error:
            raise SchemaError(f"value.schema is not a descriptor set: {error}") from None
        self._message = message_factory.GetMessageClass(descriptor)
        self.kind = _protobuf_struct(descriptor)

    def _one(self, value: bytes) -> Any:
        message = self._message()
        if message.ParseFromString(value) != len(value):
            raise ValueError("bytes follow the message")
        return _protobuf_row(message)


def _descriptor_bytes(text: str) -> bytes:
    path = Path(text)
    if len(text) < 4096 and path.is_file():
        return path.read_bytes()
    return base64.b64decode(text, validate=True)


def _protobuf_struct(descriptor: Any) -> Any:
    return pa.struct([pa.field(field.name, _protobuf_type(field)) for field in descriptor.fields])


def _protobuf_type(field: Any) -> Any:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_protobuf_scalar(entry["key"]), _protobuf_scalar(entry["value"]))
    kind = _protobuf_scalar(field)
    return pa.list_(pa.field("element", kind)) if field.is_repeated else kind


_PROTOBUF: Final[dict[int, Any]] = {
    1: pa.int32(),
    2: pa.int64(),
    3: pa.int64(),  # unsigned 32 bits fit
    4: pa.decimal128(20, 0),
    5: pa.float64(),
    6: pa.float32(),
    7: pa.bool_(),
    8: pa.string(),  # an enum's name
}


def _protobuf_scalar(field: Any) -> Any:
    if field.cpp_type == 10:
        return _protobuf_struct(field.message_type)
    if field.cpp_type == 9:
        return pa.binary() if field.type == 12 else pa.string()
    return _PROTOBUF[field.cpp_type]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _protobuf_row(message: Any) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        content = getattr(message, field.name)
        if _is_map(field):
            value = field.message_type.fields_by_name["value"]
            row[field.name] = [(key, _protobuf_item(value, item)) for key, item in content.items()]
        elif field.is_repeated:
            row[field.name] = [_protobuf_item(field, item) for item in content]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _protobuf_item(field, content)
    return row


def _protobuf_item(field: Any, item: Any) -> Any:
    if field.cpp_type == 10:
        return _protobuf_row(item)
    if field.cpp_type == 8:
        known = field.enum_type.values_by_number.get(item)
        return known.name if known is not None else str(item)
    return Decimal(item) if field.cpp_type == 4 else item
