"""Keys and values by the schemas that they name: Avro, Protobuf and JSON Schema as JSON, through a registry.

A registry that does not answer hides nothing: bytes are then shown as they are, with the reason beside them.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.client import ConsumerRecord
from kavka.client.registry import SchemaNotFound, SchemaRegistry, SchemaRegistryError
from kavka.client.schemas.framing import Part, is_framed, unframed
from kavka.client.schemas.serde import schema_of

if TYPE_CHECKING:
    from kavka.client.schemas import AnySchema

MOST_BYTES: Final = 1 << 20
"""Larger ones are shown as they are: nobody reads them, and reading holds up everybody else."""
ASK_MS: Final = 3_000
QUIET_SECONDS: Final = 10.0
"""After a failure the registry is asked again after so long: a page of records waits for it once."""


class Named(NamedTuple):
    """The schema that a key or value names, and what came of reading it."""

    schema: int | str | None
    """Its id or GUID."""
    format: str = ""
    problem: str = ""
    """Why it could not be read; then it is shown as it is."""


class Readable(NamedTuple):
    """A record whose key and value are JSON where their schemas could be had."""

    record: ConsumerRecord
    key: Named | None = None
    value: Named | None = None


class Values:
    """Reads records through a registry."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self.registry = registry
        self._reader: AnySchema | None = None
        self._quiet_until = 0.0
        self._trouble = ""

    async def readable(self, record: ConsumerRecord) -> Readable:
        """A record as it can be read."""
        key, key_named = await self._part("key", record)
        value, value_named = await self._part("value", record)
        if key_named is None and value_named is None:
            return Readable(record)
        return Readable(record._replace(key=key, value=value), key_named, value_named)

    async def _part(self, part: Part, record: ConsumerRecord) -> tuple[bytes | None, Named | None]:
        data = record.key if part == "key" else record.value
        if data is None or not is_framed(part, data, record.headers):
            return data, None
        try:
            frame = unframed(part, data, record.headers)
        except ValueError:  # it begins with a zero like anything else might
            return data, None
        if len(data) > MOST_BYTES:
            return data, Named(frame.schema, problem=f"it is larger than {MOST_BYTES >> 20} MiB")
        loop = asyncio.get_running_loop()
        if loop.time() < self._quiet_until:
            return data, Named(frame.schema, problem=self._trouble)
        try:
            schema = await schema_of(self.registry, frame)
            found = await self._any().deserialize_part(part, record.topic, data, record.headers)
            return _said(found), Named(frame.schema, schema.type.lower())
        except (ValueError, SchemaNotFound) as error:
            return data, Named(frame.schema, problem=str(error))
        except (SchemaRegistryError, ImportError) as error:
            self._trouble, self._quiet_until = str(error), loop.time() + QUIET_SECONDS
            return data, Named(frame.schema, problem=self._trouble)

    async def written(self, part: Part, topic: str, text: str) -> bytes:
        """What JSON says, by the latest schema of a topic's keys or values; raises ValueError with the reason."""
        try:
            meant = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the {part} is not JSON: {error}") from None
        try:
            from kavka.client.schemas.write import written_by  # its formats' libraries are imported when one is met

            write = await written_by(self.registry, await self.registry.latest(f"{topic}-{part}"))
            return write(meant)
        except (ValueError, SchemaRegistryError, ImportError, RecursionError) as error:
            raise ValueError(f"the {part} cannot be written by {topic}-{part}: {error}") from None

    def _any(self) -> AnySchema:
        if self._reader is None:
            from kavka.client.schemas import AnySchema  # its formats' libraries are imported when one is met

            self._reader = AnySchema(self.registry)
        return self._reader

    def close(self) -> None:
        """Hang up."""
        self.registry.close()


def _said(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace")
