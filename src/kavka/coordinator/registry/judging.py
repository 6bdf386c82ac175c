"""The work that takes time, reading and comparing schemas: a pure function of texts, so that it can run anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.coordinator.registry import (
    avro,
    avro_compatibility,
    json_compatibility,
    json_schema,
    protobuf_compatibility,
    protobuf_schema,
)
from kavka.coordinator.registry.records import SchemaVersion
from kavka.coordinator.registry.schema import AVRO, JSON, NO_REFERENCES, PROTOBUF, Difference, SchemaError
from kavka.coordinator.registry.state import fingerprint

LEVELS: Final = (
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE",
)  # fmt: skip


MAX_SHOWN: Final = 100_000
"""So much of an earlier schema is told."""


class Text(NamedTuple):
    """A schema with all that it refers to."""

    schema_type: str
    text: str
    references: Mapping[str, str] = NO_REFERENCES


class Earlier(NamedTuple):
    """A version that a new one is compared with."""

    version: int
    text: Text


class Work(NamedTuple):
    """What is to be judged."""

    new: Text
    normalize: bool = False
    level: str = "NONE"
    earlier: Sequence[Earlier] = ()
    candidate: SchemaVersion | None = None
    """What is to be registered or looked for."""


class Verdict(NamedTuple):
    """What was found."""

    schema: str = ""
    """The text that is kept."""
    invalid: str = ""
    """Why it is no schema."""
    messages: tuple[str, ...] = ()
    """Why it is not compatible."""
    content: bytes = b""
    """The fingerprint of the candidate with that text."""


class _Format(NamedTuple):
    parse: Callable[[str, Mapping[str, str]], Any]
    differences: Callable[[Any, Any], list[Difference]]


FORMATS: Final[Mapping[str, _Format]] = {
    AVRO: _Format(avro.parse, avro_compatibility.differences),
    JSON: _Format(json_schema.parse, json_compatibility.differences),
    PROTOBUF: _Format(protobuf_schema.parse, protobuf_compatibility.differences),
}


def judge(work: Work) -> Verdict:
    """Read a schema and compare it with earlier ones, the latest first."""
    try:
        new = FORMATS[work.new.schema_type].parse(work.new.text, work.new.references)
        schema = new.normalized if work.normalize else new.canonical
    except SchemaError as error:
        return Verdict(invalid=str(error))
    except RecursionError:
        return Verdict(invalid="it is nested too deep")
    content = b"" if work.candidate is None else fingerprint(work.candidate._replace(schema=schema))
    for earlier in work.earlier:
        if messages := _incompatible(new, work.new.schema_type, work.new.references, earlier, work.level):
            return Verdict(schema, messages=messages, content=content)
    return Verdict(schema, content=content)


def _incompatible(
    new: Any, schema_type: str, references: Mapping[str, str], earlier: Earlier, level: str
) -> tuple[str, ...]:
    if earlier.text.schema_type != schema_type:
        said = f"Incompatible because of different schema type: {earlier.text.schema_type} before, {schema_type} now"
        return (said, *_about(earlier, level))
    format_ = FORMATS[schema_type]
    try:
        old = format_.parse(earlier.text.text, earlier.text.references)
    except SchemaError as error:
        return (f"version {earlier.version} cannot be read: {error}", *_about(earlier, level))
    except RecursionError:
        return (f"version {earlier.version} cannot be read: it is nested too deep", *_about(earlier, level))
    if old.canonical == new.canonical and earlier.text.references == references:
        return ()
    found: list[Difference] = []
    try:
        if level.startswith(("BACKWARD", "FULL")):
            found += format_.differences(new, old)
        if level.startswith(("FORWARD", "FULL")):
            found += format_.differences(old, new)
    except SchemaError as error:
        return (f"it cannot be compared with version {earlier.version}: {error}", *_about(earlier, level))
    except RecursionError:
        return (f"it is nested too deep to be compared with version {earlier.version}", *_about(earlier, level))
    return (*map(str, found), *_about(earlier, level)) if found else ()


def _about(earlier: Earlier, level: str) -> tuple[str, ...]:
    return (
        f"{{oldSchemaVersion: {earlier.version}}}",
        f"{{oldSchema: '{earlier.text.text:.{MAX_SHOWN}}'}}",
        f"{{compatibility: '{level}'}}",
    )


def formatted(text: Text, wanted: str) -> str:
    """A schema in another form that was asked for; raises SchemaError."""
    if wanted == "serialized" and text.schema_type == PROTOBUF:
        return protobuf_schema.parse(text.text, text.references).serialized
    if wanted == "resolved" and text.schema_type == AVRO:
        return avro.parse(text.text, text.references).resolved
    return text.text
