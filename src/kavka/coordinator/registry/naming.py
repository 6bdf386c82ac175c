"""What a schema's records are called: subjects may be named after them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from kavka.coordinator.registry.judging import Text
from kavka.coordinator.registry.protobuf import Message
from kavka.coordinator.registry.protobuf_schema import read
from kavka.coordinator.registry.schema import AVRO, JSON, SchemaError

MOST_NAMES: Final = 1_000


def names_of(text: Text) -> tuple[str, ...]:
    """The name of an Avro type, the title of a JSON schema, the messages of a Protobuf file; none if it has none."""
    try:
        if text.schema_type == AVRO:
            return _avro(json.loads(text.text))
        if text.schema_type == JSON:
            said = json.loads(text.text)
            title = said.get("title") if isinstance(said, dict) else None
            return (title,) if isinstance(title, str) and title else ()
        file = read(text.text)
    except (SchemaError, ValueError, RecursionError):  # it was good when it was registered, elsewhere perhaps
        return ()
    return tuple(_messages(file.package, file.messages))[:MOST_NAMES]


def _avro(said: Any) -> tuple[str, ...]:
    if not isinstance(said, dict) or not isinstance(name := said.get("name"), str):
        return ()
    namespace = said.get("namespace")
    return (name if "." in name or not namespace else f"{namespace}.{name}",)


def _messages(scope: str, messages: list[Message]) -> Iterator[str]:
    for each in messages:
        name = f"{scope}.{each.name}" if scope else each.name
        yield name
        yield from _messages(name, each.messages)
