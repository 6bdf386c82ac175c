"""Values to typed columns on the executor: JSON, Avro and Protobuf to an Arrow struct; what cannot be read is named.

A decoder answers with an array of the good rows and a list of the bad ones: (row, reason). A null value is a good row.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from kavka.spark.avro_values import AvroReader, schema_from
from kavka.spark.ddl import SchemaError, parse_schema
from kavka.spark.json_batches import JsonDecoder
from kavka.spark.options import SourceOptions
from kavka.spark.protobuf_values import ProtobufReader, message_class

Bad = list[tuple[int, str]]
Values = Any
"""A binary Arrow array, or a sequence of bytes and None."""


class Decoder(Protocol):
    """Makes one typed value of each record's value."""

    kind: Any

    def decode(self, values: Values) -> tuple[Any, Bad]:
        """An Arrow array with a row for each value, null where it is bad, and which are bad and why."""


def decoder(options: SourceOptions) -> Decoder | None:
    """The decoder that a query asks for; raises SchemaError where its schema cannot be used."""
    if options.registry is not None:
        from kavka.spark.registry.reading import registry_decoder

        form = options.value_format or ""
        schema = _required(options.value_schema, form, "value.schema")
        return registry_decoder(options.registry, form, schema, options.value_message, options.value_subject)
    made = _plain_decoder(options)
    if made is None or options.value_schema_id is None:
        return made
    return FramedDecoder(made, options.value_schema_id)


def _plain_decoder(options: SourceOptions) -> Decoder | None:
    match options.value_format:
        case None:
            return None
        case "text":
            return TextDecoder()
        case "json":
            return JsonDecoder(parse_schema(_required(options.value_schema, "json", "value.schema")))
        case "avro":
            return AvroDecoder(schema_from(_required(options.value_schema, "avro", "value.schema")))
        case "protobuf":
            descriptor = _required(options.value_schema, "protobuf", "value.schema")
            return ProtobufDecoder(descriptor, _required(options.value_message, "protobuf", "value.message"))
    raise SchemaError(f"there is no value.format {options.value_format!r}")


def _required(text: str | None, form: str, option: str) -> str:
    if not text:
        raise SchemaError(f"value.format {form} needs option {option}")
    return text


def as_list(values: Values) -> Sequence[bytes | None]:
    """Values one by one."""
    return values.to_pylist() if isinstance(values, pa.Array) else values  # type: ignore[no-any-return]


class FramedDecoder:
    """Values behind the id of their schema, as the clients of schema registries write them.

    Only the configured schema is known: bytes that another one wrote would be read into the wrong columns.
    """

    def __init__(self, inner: Decoder, schema_id: int) -> None:
        self.kind = inner.kind
        self._inner = inner
        self._start = b"\0" + schema_id.to_bytes(4, "big")
        # Protobuf's schemas hold several messages: which of them it is stands behind the id.
        self._message = inner.indexes if isinstance(inner, ProtobufDecoder) else None

    def decode(self, values: Values) -> tuple[Any, Bad]:
        """An Arrow array with a row for each value, null where it is bad, and which are bad and why."""
        bad: Bad = []
        bare: list[bytes | None] = []
        for index, value in enumerate(as_list(values)):
            try:
                bare.append(None if value is None else self._unframed(value))
            except ValueError as error:
                bare.append(None)
                bad.append((index, str(error)))
        rows, more = self._inner.decode(bare)
        return rows, sorted([*bad, *more])

    def _unframed(self, value: bytes) -> bytes:
        if value[:5] != self._start:
            if len(value) < 5 or value[0] != 0:
                raise ValueError("the value has no schema id in front")
            found, known = (int.from_bytes(each[1:5], "big") for each in (value, self._start))
            raise ValueError(f"the value was written with schema {found}, and value.schema is {known}")
        if self._message is None:
            return value[5:]
        place, end = indexes(value, 5)
        if place != self._message:
            raise ValueError(f"the value is message {list(place)} of its schema, not {list(self._message)}")
        return value[end:]


def indexes(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The place of a message in its file, and where it ends: a count and numbers, or a zero for the first message."""
    count, at = _zigzag(value, at)
    if count == 0:
        return (0,), at
    found = []
    for _ in range(count):
        number, at = _zigzag(value, at)
        found.append(number)
    return tuple(found), at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(value) and shift < 35:
        number |= (value[at] & 0x7F) << shift
        at += 1
        if value[at - 1] < 0x80:
            return number >> 1 ^ -(number & 1), at
        shift += 7
    raise ValueError("the place of the message in its schema is cut off")


class Rows(ABC):
    """Decodes value by value, then makes one array of all: of the whole first, one by one where that fails."""

    kind: Any

    @abstractmethod
    def _one(self, value: bytes) -> Any:
        """What one value says; raises anything if it is bad."""

    def decode(self, values: Values) -> tuple[Any, Bad]:
        """An Arrow array with a row for each value, null where it is bad, and which are bad and why."""
        rows: list[Any] = []
        bad: Bad = []
        for index, value in enumerate(as_list(values)):
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


class TextDecoder(Rows):
    """UTF-8."""

    kind = pa.string()

    def _one(self, value: bytes) -> str:
        return value.decode()


class AvroDecoder(Rows):
    """Avro's binary form, written with one known schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._reader = AvroReader(schema)
        self.kind = self._reader.kind

    def _one(self, value: bytes) -> Any:
        return self._reader.read(value)


class ProtobufDecoder(Rows):
    """Protobuf, by a file descriptor set (`protoc --descriptor_set_out --include_imports`) and a message's name."""

    def __init__(self, descriptor_set: str, message: str) -> None:
        from kavka.client.schemas.protobuf import indexes_of

        made = message_class(descriptor_set, message)
        reader = ProtobufReader(made)
        self.indexes = indexes_of(made.DESCRIPTOR)
        self.kind = reader.kind
        self.read = reader.read

    def _one(self, value: bytes) -> Any:
        return self.read(value)


def loaded(form: str | None, schema: str | None) -> str | None:
    """A schema itself where the name of its file is given: read once, on the driver, and sent to executors as it is."""
    if schema is None or form not in ("avro", "protobuf") or (form == "avro" and schema.lstrip().startswith("{")):
        return schema
    path = Path(schema.removeprefix("file://"))
    if len(schema) < 4096 and path.is_file():
        content = path.read_bytes()
        return content.decode() if form == "avro" else base64.b64encode(content).decode()
    if form == "avro":
        raise SchemaError(f"value.schema is neither an Avro schema nor a file: {str(path.absolute())!r}")
    return schema
