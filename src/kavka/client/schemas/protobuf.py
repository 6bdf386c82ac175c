"""Records in Protobuf: messages of classes that protoc made, or of schemas that only the registry has."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, Unpack, cast

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from kavka.client.registry.api import SchemaRegistry
from kavka.client.registry.blocking import SchemaRegistry as BlockingRegistry
from kavka.client.registry.values import Reference, RegisteredSchema, Schema, context_of
from kavka.client.schemas.framing import Frame
from kavka.client.schemas.known_files import KNOWN, known_file
from kavka.client.schemas.serde import SchemaSerde, SerdeOptions, referenced

M = TypeVar("M", bound=Message)

_FILE: Final = "default"


class Protobuf(SchemaSerde[M], Generic[M]):
    """Keys or values in Protobuf.

    With a class that protoc made, its messages are written and read, and others refused. Without one, messages of any
    class are written, and what is read are messages of classes made from the registry's schema.
    """

    schema_type = "PROTOBUF"
    form = "serialized"

    def __init__(
        self,
        registry: SchemaRegistry | BlockingRegistry,
        message: type[M] | None = None,
        **options: Unpack[SerdeOptions],
    ) -> None:
        """Imports of a class are registered under the names of their files, in the context of what imports them."""
        super().__init__(registry, **options)
        self._kind = message

    def _name_of(self, value: Any) -> str | None:
        if self._kind is not None:
            return self._kind.DESCRIPTOR.full_name
        return value.DESCRIPTOR.full_name if isinstance(value, Message) else None

    def _indexes_of(self, value: Any) -> tuple[int, ...]:
        return indexes_of(value.DESCRIPTOR)

    async def _schema_of(self, value: Any, subject: str) -> Schema:
        return await self._file_schema(value.DESCRIPTOR.file, context_of(subject))

    async def _file_schema(self, file: FileDescriptor, context: str) -> Schema:
        references = []
        for imported in file.dependencies:
            if not imported.name.startswith(KNOWN):
                registered = await self._imported(imported, context)
                version = registered.version
                if version is None:  # an older registry, which did not say when it registered it
                    version = (await self.registry.lookup(context + imported.name, registered.schema)).version or 1
                references.append(Reference(imported.name, context + imported.name, version))
        text = base64.standard_b64encode(file.serialized_pb).decode("ascii")
        return Schema(text, "PROTOBUF", tuple(references))

    async def _imported(self, file: FileDescriptor, context: str) -> RegisteredSchema:
        schema = await self._file_schema(file, context)
        subject = context + file.name
        if self._register:
            return await self.registry.register(subject, schema, normalize=self._normalize)
        return await self.registry.lookup(subject, schema, normalize=self._normalize)

    async def serialize_part(self, part: Any, topic: str, value: Any, headers: Any, /) -> bytes | None:
        """The bytes of a message; raises TypeError for what is none of the class."""
        wanted = self._kind or Message
        if value is not None and not isinstance(value, wanted):
            raise TypeError(f"a message {wanted.__name__} was expected, not {type(value).__name__}")
        return await super().serialize_part(part, topic, cast("M | None", value), headers)

    async def _encoder(self, schema: Schema, value: Any) -> Callable[[Any], bytes]:
        def encode(value: Message) -> bytes:
            try:
                return value.SerializeToString()
            except EncodeError as error:
                raise ValueError(str(error)) from None

        return encode

    async def _writer(self, frame: Frame, context: str) -> Schema:
        schema = await super()._writer(frame, context)
        if isinstance(frame.schema, str) and not set(schema.text).isdisjoint(" ;{"):
            # there are registries that put what they find by id into another form, but not what they find by GUID
            id_ = await self.registry.id_of_guid(frame.schema, context)
            return await self.registry.schema(id_, subject=context, form=self.form)
        return schema

    async def _decoder(
        self, writer: Schema, reader: Schema | None, indexes: tuple[int, ...] | None
    ) -> Callable[[bytes], M]:
        found = await descriptor_of(self.registry, writer, indexes or (0,))
        if self._kind is None:
            kind: type[Message] = message_factory.GetMessageClass(found)
        else:
            kind = self._kind
            if found.full_name != kind.DESCRIPTOR.full_name:
                raise ValueError(f"it is a message {found.full_name}, not {kind.DESCRIPTOR.full_name}")

        def decode(data: bytes) -> M:
            made = kind()
            try:
                made.ParseFromString(data)
            except DecodeError as error:
                raise ValueError(str(error)) from None
            return cast("M", made)

        return decode


def indexes_of(message: Descriptor) -> tuple[int, ...]:
    """Where a message is defined in its file: the index of the outermost, then those within it.

    The entries of maps are messages too, and counted, as Confluent's serializer for Python does.
    """
    path: list[int] = []
    at = message
    while at.containing_type is not None:
        path.append(next(index for index, each in enumerate(at.containing_type.nested_types) if each is at))
        at = at.containing_type
    names = list(at.file.message_types_by_name)
    return (names.index(at.name), *reversed(path))


async def descriptor_of(registry: SchemaRegistry, schema: Schema, indexes: tuple[int, ...]) -> Descriptor:
    """The message that indexes mean in a schema of the registry; raises ValueError."""
    file = await file_of(registry, schema)
    found: Any = None
    within: Any = list(file.message_types_by_name.values())
    for index in indexes:
        if not 0 <= index < len(within):
            raise ValueError(f"its schema has no message with the indexes {list(indexes)}")
        found = within[index]
        within = list(found.nested_types)
    return cast("Descriptor", found)


def messages_in(file: FileDescriptor) -> dict[str, Descriptor]:
    """The messages of a file by their names within its package, in the order of their definition."""
    found: dict[str, Descriptor] = {}

    def add(message: Descriptor, prefix: str) -> None:
        found[prefix + message.name] = message
        for each in message.nested_types:
            add(each, f"{prefix}{message.name}.")

    for message in file.message_types_by_name.values():
        add(message, "")
    return found


async def file_of(registry: SchemaRegistry, schema: Schema) -> FileDescriptor:
    """The file of a serialized schema, with those it imports; raises ValueError."""
    others = await referenced(registry, schema, "serialized") if schema.references else {}
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    try:
        for name, each in others.items():
            if not name.startswith(KNOWN):
                _add(pool, _proto(each.text, name), added)
        _add(pool, _proto(schema.text, _FILE), added)
        return pool.FindFileByName(_FILE)
    except (TypeError, KeyError, ImportError) as error:
        raise ValueError(f"the Protobuf schema cannot be read: {error}") from None


def _proto(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        raise ValueError("the registry's Protobuf schema is no file descriptor") from None
    found.name = name
    return found


def _add(pool: descriptor_pool.DescriptorPool, file: descriptor_pb2.FileDescriptorProto, added: set[str]) -> None:
    for name in file.dependency:
        if name.startswith(KNOWN) and name not in added:
            _add(pool, known_file(name), added)
    if file.name not in added:
        added.add(file.name)
        pool.Add(file)


def message_of(kind: Descriptor, value: dict[str, Any]) -> Message:
    """A message with what JSON says; raises ValueError for what does not fit."""
    try:
        return json_format.ParseDict(value, message_factory.GetMessageClass(kind)())
    except json_format.ParseError as error:
        raise ValueError(f"the value does not fit its schema: {error}") from None


def said_by(message: Message) -> Any:
    """What JSON says of a message, by the names in its file."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True)
