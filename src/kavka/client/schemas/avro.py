"""Records in Avro: fastavro writes and reads, the registry says by which schemas."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar, Unpack

import fastavro
import fastavro.schema

from kavka.client.registry.api import SchemaRegistry
from kavka.client.registry.blocking import SchemaRegistry as BlockingRegistry
from kavka.client.registry.values import Schema
from kavka.client.schemas.avro_bounds import AvroBounds
from kavka.client.schemas.avro_models import avro_of
from kavka.client.schemas.avro_references import has_weightless_lists, whole
from kavka.client.schemas.models import is_model, maker, plain
from kavka.client.schemas.serde import SchemaSerde, SerdeOptions, referenced

T = TypeVar("T")


class Avro(SchemaSerde[T], Generic[T]):
    """Keys or values in Avro.

    `schema` is a dataclass or a model of pydantic, whose instances are then written and read, or a schema as text or
    with what it builds on; values then are what fastavro takes for it, dicts for records. What was written by an older
    or a newer schema is read as this one sees it. Without a schema what is read is as it was written, and nothing can
    be written but by `use_latest`.
    """

    schema_type = "AVRO"

    def __init__(
        self,
        registry: SchemaRegistry | BlockingRegistry,
        schema: type[T] | Schema | str | None = None,
        **options: Unpack[SerdeOptions],
    ) -> None:
        """Raises TypeError for a class that cannot be a schema."""
        super().__init__(registry, **options)
        self._kind = schema if isinstance(schema, type) else None
        self._schema: Schema | None = None
        if isinstance(schema, type):
            self._schema = Schema(avro_of(schema))
        elif schema is not None:
            self._schema = Schema(schema) if isinstance(schema, str) else schema
        self._name = _name(json.loads(self._schema.text)) if self._schema is not None else None

    async def _schema_of(self, value: Any, subject: str) -> Schema:
        if self._schema is None:
            raise TypeError("it is not said by which schema to write: give one, or use_latest=True")
        return self._schema

    def _name_of(self, value: Any) -> str | None:
        return self._name

    async def _encoder(self, schema: Schema, value: Any) -> Callable[[Any], bytes]:
        parsed = await parsed_avro(self.registry, schema)
        modelled = is_model(type(value))

        def encode(value: Any) -> bytes:
            said = plain(value, "avro") if modelled else value
            if parsed == "bytes":
                return bytes(said)  # a schema of nothing but bytes has no length in front, as with Confluent's
            out = io.BytesIO()
            try:
                fastavro.schemaless_writer(out, parsed, said)
            except (ValueError, TypeError, AttributeError, KeyError, IndexError, OverflowError) as error:
                raise ValueError(f"the value does not fit its schema: {error}") from error
            return out.getvalue()

        return encode

    async def _decoder(
        self, writer: Schema, reader: Schema | None, indexes: tuple[int, ...] | None
    ) -> Callable[[bytes], T]:
        wanted = reader if reader is not None else self._schema
        written = await parsed_avro(self.registry, writer)
        if has_weightless_lists(written):
            raise ValueError("its schema has a list of items without bytes, so that a few could say to be millions")
        seen = await parsed_avro(self.registry, wanted) if wanted is not None and wanted != writer else None
        make = None if self._kind is None else maker(self._kind, "avro")

        bounds = AvroBounds(written)

        def decode(data: bytes) -> Any:
            if written == "bytes":
                return data
            bounds.check(data)
            found = fastavro.schemaless_reader(
                io.BytesIO(data),
                written,
                seen,
                return_record_name=make is not None,
                return_record_name_override=make is not None,
            )
            return found if make is None else make(found)

        return decode


async def parsed_avro(registry: SchemaRegistry, schema: Schema) -> Any:
    """A schema as fastavro takes it, with those that it builds on; raises ValueError if it cannot be read."""
    others = await referenced(registry, schema) if schema.references else {}
    try:
        found = whole(schema.text, [each.text for each in others.values()])
        parsed = fastavro.parse_schema(found)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, KeyError) as error:
        raise ValueError(f"the Avro schema cannot be read: {error}") from None
    return "bytes" if parsed == {"type": "bytes"} else parsed


def _name(schema: Any) -> str | None:
    """The full name of a record; the name of another type."""
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict):
        return None
    name, namespace = schema.get("name"), schema.get("namespace")
    if name is None:
        return str(schema.get("type"))
    return str(name) if not namespace or "." in str(name) else f"{namespace}.{name}"
