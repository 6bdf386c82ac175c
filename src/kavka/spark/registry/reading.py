"""Values that say which schema they were written with: each is read by its own, into the columns of the reader's.

A value whose schema the registry does not have, or cannot be read into the columns, is bad. A registry that does not
answer fails the task: what it knows is not known to be wrong.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final

from kavka.client.registry import Schema, SchemaNotFound, context_of
from kavka.client.registry.blocking import SchemaRegistry
from kavka.spark.avro_values import AvroReader, schema_from
from kavka.spark.ddl import SchemaError, parse_schema
from kavka.spark.json_batches import JsonDecoder
from kavka.spark.registry.access import Access, opened
from kavka.spark.registry.languages import TYPES, avro_schema, descriptor_set, first_message, message_names
from kavka.spark.values import Bad, Decoder, ProtobufDecoder, Rows, Values, as_list, indexes

HEAD: Final = 5
"""A zero and the schema's id."""
NO_ID: Final = "the value has no schema id in front"


def registry_decoder(access: Access, form: str, schema: str, message: str | None, subject: str | None) -> Decoder:
    """The decoder of a format, with the schema that the driver has found for the columns.

    The ids in values count in the context of the subject, if one is named.
    """
    registry, context = opened(access), context_of(subject or "")
    match form:
        case "avro":
            return AvroByRegistry(registry, context, schema)
        case "protobuf":
            return ProtobufByRegistry(registry, context, schema, message)
        case _:
            return JsonByRegistry(registry, context, schema)


class _Writers:
    """The schemas that values were written with, as far as they are known here."""

    def __init__(self, registry: SchemaRegistry, context: str, form: str, made: Callable[[int, Schema], Any]) -> None:
        self._registry = registry
        self._context = context
        self._form = form
        self._made = made
        self._known: dict[int, Any] = {}

    def met(self, ids: Iterable[int]) -> dict[int, Any]:
        """For each id what reads its values, or why nothing can, which is a text."""
        return {id_: self._met(id_) for id_ in ids}

    def _met(self, id_: int) -> Any:
        if id_ in self._known:
            return self._known[id_]
        try:
            schema = self._registry.schema(id_, subject=self._context)
        except SchemaNotFound:
            return f"the value was written with schema {id_}, which the registry does not have"
        if schema.type != TYPES[self._form]:
            return f"the value was written with schema {id_}, which is of type {schema.type}, not {TYPES[self._form]}"
        try:
            made = self._known[id_] = self._made(id_, schema)
        except SchemaNotFound as error:
            return (
                f"the value was written with schema {id_}, which refers to one that the registry does not have: {error}"
            )
        except ValueError as error:
            return f"the value was written with schema {id_}, which cannot be read: {error}"
        return made


class _ByRegistry(Rows):
    """Reads each value by what its id stands for."""

    def __init__(self, registry: SchemaRegistry, context: str, form: str) -> None:
        self._registry = registry
        self._context = context
        self._writers = _Writers(registry, context, form, self._reader)
        self._now: dict[int, Any] = {}

    def decode(self, values: Values) -> tuple[Any, Bad]:
        """An Arrow array with a row for each value, null where it is bad, and which are bad and why."""
        listed = as_list(values)
        heads = {value[:HEAD] for value in listed if value is not None and len(value) >= HEAD and value[0] == 0}
        # Asked before any value is read: who catches what is wrong with values must not catch what is wrong with this.
        self._now = self._writers.met(int.from_bytes(head[1:], "big") for head in heads)
        return super().decode(listed)

    def _one(self, value: bytes) -> Any:
        if len(value) < HEAD or value[0] != 0:
            raise ValueError(NO_ID)
        found = self._now[int.from_bytes(value[1:HEAD], "big")]
        if isinstance(found, str):
            raise ValueError(found)
        return found(value)

    @abstractmethod
    def _reader(self, id_: int, schema: Schema) -> Callable[[bytes], Any]:
        """What reads the values that were written with a schema; raises SchemaError."""


class AvroByRegistry(_ByRegistry):
    """Avro by its own resolution: fields by name, defaults for those that the writer did not have, wider numbers."""

    def __init__(self, registry: SchemaRegistry, context: str, schema: str) -> None:
        super().__init__(registry, context, "avro")
        self._schema = schema_from(schema)
        self._into = AvroReader(self._schema)
        self.kind = self._into.kind

    def _reader(self, id_: int, schema: Schema) -> Callable[[bytes], Any]:
        from fastavro.schema import SchemaParseException

        try:
            written = avro_schema(self._registry, schema)
            same = json.dumps(written, sort_keys=True) == json.dumps(self._schema, sort_keys=True)
            reader = self._into if same else AvroReader(written, self._into)
        except (SchemaParseException, KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"it is no Avro schema: {error!r}") from None
        return lambda value: reader.read(value, HEAD)


class ProtobufByRegistry(_ByRegistry):
    """Protobuf by the numbers of fields; the writer's schema says which message a value is."""

    def __init__(self, registry: SchemaRegistry, context: str, descriptors: str, message: str | None) -> None:
        super().__init__(registry, context, "protobuf")
        self._message = message or first_message(descriptors)
        self._decoder = ProtobufDecoder(descriptors, self._message)
        self.kind = self._decoder.kind

    def _reader(self, id_: int, schema: Schema) -> Callable[[bytes], Any]:
        from google.protobuf.message import DecodeError

        try:
            names = message_names(descriptor_set(self._registry, id_, schema, self._context))
        except DecodeError:
            raise SchemaError("it is no file descriptor") from None
        wanted, read = self._message, self._decoder.read

        def one(value: bytes) -> Any:
            place, at = indexes(value, HEAD)
            if names.get(place) != wanted:
                raise ValueError(f"the value is message {names.get(place) or list(place)}, not {wanted}")
            return read(value[at:])

        return one


class JsonByRegistry:
    """JSON, whose values tell of their fields themselves: their schemas only have to be there."""

    def __init__(self, registry: SchemaRegistry, context: str, schema: str) -> None:
        self._decoder = JsonDecoder(parse_schema(schema))
        self.kind = self._decoder.kind
        self._writers = _Writers(registry, context, "json-schema", lambda id_, schema: True)

    def decode(self, values: Values) -> tuple[Any, Bad]:
        """An Arrow array with a row for each value, null where it is bad, and which are bad and why."""
        listed = as_list(values)
        refused = self._refused({value[:HEAD] for value in listed if value is not None})
        if not refused:
            return self._decoder.decode([None if value is None else value[HEAD:] for value in listed])
        wrong = [None if value is None else refused.get(value[:HEAD]) for value in listed]
        bare = [value and value[HEAD:] if reason is None else None for value, reason in zip(listed, wrong, strict=True)]
        rows, bad = self._decoder.decode(bare)
        return rows, sorted([*bad, *((row, reason) for row, reason in enumerate(wrong) if reason is not None)])

    def _refused(self, heads: Iterable[bytes]) -> dict[bytes, str]:
        framed = {head for head in heads if len(head) == HEAD and head[0] == 0}
        found = self._writers.met(int.from_bytes(head[1:], "big") for head in framed)
        refused = {head: NO_ID for head in heads if head not in framed}
        for head in framed:
            known = found[int.from_bytes(head[1:], "big")]
            if isinstance(known, str):
                refused[head] = known
        return refused
