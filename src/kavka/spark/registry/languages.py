"""What registries call a schema, as readers and writers use it: with all that it refers to."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kavka.client.registry import RegisteredSchema, Schema, SchemaNotFound, context_of
from kavka.client.registry.blocking import SchemaRegistry
from kavka.client.schemas.avro_references import whole
from kavka.spark.connecting import OptionError
from kavka.spark.ddl import SchemaError
from kavka.spark.registry.json_schema import columns_of

LATEST: Final = "latest"
TYPES: Final[Mapping[str, str]] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
"""Our names of formats, and registries'."""
_FORMATS: Final = {kind: form for form, kind in TYPES.items()}


def registered(registry: SchemaRegistry, form: str, subject: str, version: str = LATEST) -> RegisteredSchema:
    """A version of a subject, which must be in the format that was asked for."""
    try:
        found = registry.latest(subject) if version == LATEST else registry.version(subject, int(version))
    except SchemaNotFound:
        raise OptionError(
            f"the registry has no subject {subject!r}, or not its version {version}: register a schema, or name the "
            "subject by option value.subject"
        ) from None
    if found.schema.type != TYPES[form]:
        raise OptionError(
            f"subject {subject!r} has a schema of type {found.schema.type}, not {TYPES[form]}: "
            f"set value.format to {_FORMATS[found.schema.type]}"
        )
    return found


def readable(registry: SchemaRegistry, form: str, found: RegisteredSchema) -> str:
    """A schema as the option value.schema has it: columns, an Avro schema, or a descriptor set in base64."""
    if form == "avro":
        return json.dumps(avro_schema(registry, found.schema))
    if form == "protobuf":
        return descriptor_set(registry, found.id, found.schema, context_of(found.subject))
    from pyspark.sql.pandas.types import from_arrow_type

    others = {name: each.text for name, each in _referred(registry, found.schema)}
    text: str = from_arrow_type(columns_of(found.schema.text, others)).json()
    return text


def _referred(registry: SchemaRegistry, schema: Schema, depth: int = 0) -> Iterator[tuple[str, Schema]]:
    """The schemas that one refers to, what they refer to themselves before them."""
    if depth > 32:
        raise SchemaError("the references of a schema lead too far")
    for reference in schema.references:
        inner = registry.version(reference.subject, reference.version).schema
        yield from _referred(registry, inner, depth + 1)
        yield reference.name, inner


def avro_schema(registry: SchemaRegistry, schema: Schema) -> Any:
    """An Avro schema with the types in it that it refers to."""
    return whole(schema.text, [each.text for _, each in _referred(registry, schema)])


def descriptor_set(registry: SchemaRegistry, id_: int, schema: Schema, context: str) -> str:
    """The file of a Protobuf schema and those that it imports, in base64; its own is the last one."""
    from google.protobuf import descriptor_pb2

    made = descriptor_pb2.FileDescriptorSet()
    files: dict[str, Any] = {}
    for name, own, where in [*_ids(registry, schema), ("", id_, context)]:
        file = descriptor_pb2.FileDescriptorProto()
        file.ParseFromString(base64.b64decode(registry.schema(own, subject=where, form="serialized").text))
        file.name = name or file.name or "schema.proto"
        for needed in file.dependency:
            _well_known(needed, files)
        files[file.name] = file
    made.file.extend(files.values())
    return base64.b64encode(made.SerializeToString()).decode()


def _ids(registry: SchemaRegistry, schema: Schema, depth: int = 0) -> Iterator[tuple[str, int, str]]:
    if depth > 32:
        raise SchemaError("the references of a schema lead too far")
    for reference in schema.references:
        found = registry.version(reference.subject, reference.version)
        yield from _ids(registry, found.schema, depth + 1)
        yield reference.name, found.id, context_of(reference.subject)


def _well_known(name: str, files: dict[str, Any]) -> None:
    """Add a file that every registry has, such as google/protobuf/timestamp.proto."""
    from kavka.client.schemas.known_files import KNOWN, known_file

    if name in files or not name.startswith(KNOWN):
        return
    try:
        file = known_file(name)
    except ImportError:
        raise SchemaError(f"the schema imports {name}, which is not there") from None
    for needed in file.dependency:
        _well_known(needed, files)
    files[name] = file


def message_names(descriptors: str) -> dict[tuple[int, ...], str]:
    """The messages of a set's last file by their places in it, as values name them."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    from kavka.client.schemas.protobuf import indexes_of, messages_in

    found = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(descriptors))
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in found.file:
            pool.Add(file)
        last = pool.FindFileByName(found.file[-1].name)
    except (TypeError, KeyError) as error:
        raise SchemaError(f"the Protobuf schema cannot be read: {error}") from None
    return {indexes_of(each): each.full_name for each in messages_in(last).values()}


def first_message(descriptors: str) -> str:
    """The first message of a set's last file."""
    found = message_names(descriptors).get((0,))
    if found is None:
        raise SchemaError("the Protobuf schema has no message")
    return found
