"""Records of whatever format their schemas have, as what JSON can say: for tools that show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kavka.client.registry.api import SchemaRegistry
from kavka.client.registry.blocking import SchemaRegistry as BlockingRegistry
from kavka.client.registry.values import SchemaType
from kavka.client.schemas.framing import Part, unframed
from kavka.client.schemas.serde import schema_of
from kavka.records.batch import Header

if TYPE_CHECKING:
    from kavka.client.schemas.serde import SchemaSerde


class AnySchema:
    """A `Deserializer` that goes by the type of a record's schema; what it gives can be said in JSON."""

    def __init__(self, registry: SchemaRegistry | BlockingRegistry) -> None:
        self._registry = registry.inner if isinstance(registry, BlockingRegistry) else registry
        self._formats: dict[SchemaType, SchemaSerde[Any]] = {}

    async def deserialize(self, topic: str, data: bytes | None, /) -> Any:
        """The value of bytes."""
        return await self.deserialize_part("value", topic, data, ())

    async def deserialize_part(self, part: Part, topic: str, data: bytes | None, headers: Iterable[Header], /) -> Any:
        """The key or value of a record; raises ValueError if it cannot be read."""
        if data is None:
            return None
        headers = tuple(headers)
        schema = await schema_of(self._registry, unframed(part, data, headers))
        found: Any = await self._format(schema.type).deserialize_part(part, topic, data, headers)
        if schema.type == "PROTOBUF":
            from kavka.client.schemas.protobuf import said_by

            return said_by(found)
        if schema.type == "AVRO":
            from kavka.client.schemas.avro_json import said

            try:
                return said(found)
            except RecursionError:
                raise ValueError("it is nested too deep to be shown") from None
        return found

    def _format(self, kind: SchemaType) -> SchemaSerde[Any]:
        found = self._formats.get(kind)
        if found is None:
            found = self._formats[kind] = _format_of(kind, self._registry)
        return found


def _format_of(kind: SchemaType, registry: SchemaRegistry) -> SchemaSerde[Any]:
    from kavka.client import schemas

    if kind == "AVRO":
        return schemas.Avro(registry)
    if kind == "JSON":
        return schemas.JsonSchema(registry, validate=False)
    return schemas.Protobuf(registry)
