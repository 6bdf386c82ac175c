"""What JSON says, written by a schema of whatever format: for tools that take records as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kavka.client.registry.api import SchemaRegistry
from kavka.client.registry.values import RegisteredSchema, context_of
from kavka.client.schemas.framing import framed_by_id


async def written_by(
    registry: SchemaRegistry, registered: RegisteredSchema, message: str = ""
) -> Callable[[Any], bytes]:
    """What makes framed bytes of what JSON says; of a Protobuf file a message is meant, its first without a name.

    Raises ValueError, as does what is returned for a value that does not fit.
    """
    kind = registered.schema.type
    if message and kind != "PROTOBUF":
        raise ValueError("only Protobuf has several messages in a schema")
    if kind == "AVRO":
        return await _avro(registry, registered)
    if kind == "JSON":
        return await _json(registry, registered)
    return await _protobuf(registry, registered, message)


async def _avro(registry: SchemaRegistry, registered: RegisteredSchema) -> Callable[[Any], bytes]:
    import io

    import fastavro

    from kavka.client.schemas.avro import parsed_avro
    from kavka.client.schemas.avro_json import meant

    parsed = await parsed_avro(registry, registered.schema)
    prefix = framed_by_id(registered.id)

    def write(value: Any) -> bytes:
        found = meant(parsed, value)
        if parsed == "bytes":
            return prefix + bytes(found)
        out = io.BytesIO()
        out.write(prefix)
        try:
            fastavro.schemaless_writer(out, parsed, found)
        except (TypeError, KeyError, AttributeError, OverflowError) as error:
            raise ValueError(str(error)) from None
        return out.getvalue()

    return write


async def _json(registry: SchemaRegistry, registered: RegisteredSchema) -> Callable[[Any], bytes]:
    from kavka.client.schemas.json_schema import checked_by

    check = await checked_by(registry, registered.schema)
    prefix = framed_by_id(registered.id)

    def write(value: Any) -> bytes:
        check(value)
        return prefix + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    return write


async def _protobuf(registry: SchemaRegistry, registered: RegisteredSchema, message: str) -> Callable[[Any], bytes]:
    from kavka.client.schemas.protobuf import file_of, indexes_of, message_of, messages_in

    context = context_of(registered.subject)
    file = await file_of(registry, await registry.schema(registered.id, subject=context, form="serialized"))
    known = messages_in(file)
    if not known:
        raise ValueError("the Protobuf schema has no message")
    package = f"{file.package}." if file.package else ""
    found = known.get(message.removeprefix(package)) if message else next(iter(known.values()))
    if found is None:
        raise ValueError(f"the Protobuf schema has no message {message!r}; it has {', '.join(known)}")
    prefix = framed_by_id(registered.id, indexes_of(found))

    def write(value: Any) -> bytes:
        if not isinstance(value, dict):
            raise ValueError("a message is an object in JSON")
        return prefix + message_of(found, value).SerializeToString()

    return write
