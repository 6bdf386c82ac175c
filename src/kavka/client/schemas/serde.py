"""What serializers of all formats do with a registry: by which schema to write, and by which one was written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, TypedDict, TypeVar

from kavka.client.registry.api import SchemaRegistry
from kavka.client.registry.blocking import SchemaRegistry as BlockingRegistry
from kavka.client.registry.cache import Cache
from kavka.client.registry.errors import SchemaNotFound
from kavka.client.registry.values import RegisteredSchema, Schema, SchemaType, context_of
from kavka.client.schemas.framing import Frame, Part, framed_by_guid, framed_by_id, header_of, unframed
from kavka.client.schemas.subjects import SubjectName, strategy_of
from kavka.records.batch import Header

T = TypeVar("T")

CACHED: Final = 1_000
Framing = Literal["prefix", "header"]


class Written(NamedTuple):
    """How values are written by one schema."""

    prefix: bytes
    header: bytes
    encode: Callable[[Any], bytes]


class SerdeOptions(TypedDict, total=False):
    """How serializers of all formats are told what to do; the names are explained in `SchemaSerde`."""

    subject: str | SubjectName
    register: bool
    use_latest: bool
    normalize: bool
    framing: Framing


class SchemaSerde(ABC, Generic[T]):
    """Both a `Serializer` and a `Deserializer`; a format says how one schema writes and reads.

    The options are those of Confluent's serializers: `register` (auto.register.schemas), `use_latest`
    (use.latest.version), `normalize` (normalize.schemas) and `subject` (subject.name.strategy).
    """

    schema_type: ClassVar[SchemaType]

    def __init__(
        self,
        registry: SchemaRegistry | BlockingRegistry,
        *,
        subject: str | SubjectName = "topic",
        register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
        framing: Framing = "prefix",
    ) -> None:
        self.registry = registry.inner if isinstance(registry, BlockingRegistry) else registry
        self._subject = strategy_of(subject)
        self._register = register
        self._use_latest = use_latest
        self._normalize = normalize
        if framing not in ("prefix", "header"):
            raise ValueError(f"{framing!r} is no framing: prefix and header are")
        self._in_header = framing == "header"
        self._writers: Cache[Hashable, Written] = Cache(CACHED)
        self._readers: Cache[Hashable, Callable[[bytes], T]] = Cache(CACHED)

    # -- a format ------------------------------------------------------------------------------

    @abstractmethod
    async def _schema_of(self, value: Any, subject: str) -> Schema:
        """The schema that a value is to be written by; raises TypeError or ValueError."""

    @abstractmethod
    def _name_of(self, value: Any) -> str | None:
        """The full name of a value's type."""

    @abstractmethod
    async def _encoder(self, schema: Schema, value: Any) -> Callable[[Any], bytes]:
        """What writes values of the kind of one by a schema."""

    @abstractmethod
    async def _decoder(
        self, writer: Schema, reader: Schema | None, indexes: tuple[int, ...] | None
    ) -> Callable[[bytes], T]:
        """What reads messages that were written by a schema, as another one sees them."""

    def _indexes_of(self, value: Any) -> tuple[int, ...] | None:
        """Which message of its file a value is, in formats that have such."""
        return None

    form: ClassVar[str] = ""
    """In which form schemas are asked for that were not made here."""

    # -- values become bytes -------------------------------------------------------------------

    async def serialize(self, topic: str, value: T | None, /) -> bytes | None:
        """The bytes of a value."""
        return await self.serialize_part("value", topic, value, [])

    async def serialize_part(self, part: Part, topic: str, value: T | None, headers: list[Header], /) -> bytes | None:
        """The bytes of a key or value of a record, whose headers may get one more."""
        if value is None:
            return None
        subject = self._subject(topic, part, self._name_of(value))
        written = await self._written(subject, value)
        if not self._in_header:
            return written.prefix + written.encode(value)
        headers.append((header_of(part), written.header))
        return written.encode(value)

    async def _written(self, subject: str, value: Any) -> Written:
        key: Hashable = subject, type(value)
        if self._use_latest:
            latest = await self.registry.latest(subject)
            key = subject, type(value), latest.id
        found = self._writers.get(key)
        if found is not None:
            return found
        registered = latest if self._use_latest else await self._registered(subject, value)
        if registered.schema.type != self.schema_type:
            raise ValueError(f"{subject} has schemas of type {registered.schema.type}, not {self.schema_type}")
        indexes = self._indexes_of(value)
        if self._in_header and registered.guid is None:
            raise ValueError("the schema registry gives its schemas no GUIDs, so that headers cannot name them")
        header = framed_by_guid(registered.guid, indexes) if registered.guid is not None else b""
        encode = await self._encoder(registered.schema, value)
        return self._writers.put(key, Written(framed_by_id(registered.id, indexes), header, encode))

    async def _registered(self, subject: str, value: Any) -> RegisteredSchema:
        schema = await self._schema_of(value, subject)
        if self._register:
            return await self.registry.register(subject, schema, normalize=self._normalize)
        return await self.registry.lookup(subject, schema, normalize=self._normalize)

    # -- bytes become values -------------------------------------------------------------------

    async def deserialize(self, topic: str, data: bytes | None, /) -> T | None:
        """The value of bytes."""
        return await self.deserialize_part("value", topic, data, ())

    async def deserialize_part(
        self, part: Part, topic: str, data: bytes | None, headers: Iterable[Header], /
    ) -> T | None:
        """The key or value of a record; raises ValueError if it cannot be read."""
        if data is None:
            return None
        frame = unframed(part, data, headers)
        indexes: tuple[int, ...] | None = None
        if self.schema_type == "PROTOBUF":
            indexes, payload = frame.indexed()
        else:
            payload = frame.payload()
        latest = await self._latest(part, topic)
        context = self._context(part, topic)
        key = frame.schema, context, indexes, latest.id if latest is not None else None
        read = self._readers.get(key)
        if read is None:
            writer = await self._writer(frame, context)
            read = await self._decoder(writer, latest.schema if latest is not None else None, indexes)
            self._readers.put(key, read)
        try:
            return read(payload)
        except Exception as error:  # whatever a format's library says of bytes that anybody may have written
            raise ValueError(f"it does not fit its schema {frame.schema}: {_said(error)}") from error

    async def _latest(self, part: Part, topic: str) -> RegisteredSchema | None:
        if not self._use_latest:
            return None
        return await self.registry.latest(self._subject(topic, part, self._name_of(None)), form=self.form)

    def _context(self, part: Part, topic: str) -> str:
        """Where the ids of a topic's schemas count; the default context for subjects that are not known yet."""
        try:
            return context_of(self._subject(topic, part, self._name_of(None)))
        except ValueError:  # named after the record, which only its schema tells
            return ""

    async def _writer(self, frame: Frame, context: str) -> Schema:
        schema = await schema_of(self.registry, frame, self.form, context)
        if schema.type != self.schema_type:
            raise ValueError(f"its schema {frame.schema} is of type {schema.type}, not {self.schema_type}")
        return schema


async def schema_of(registry: SchemaRegistry, frame: Frame, form: str = "", context: str = "") -> Schema:
    """The schema that a record names, whose id counts in a context; raises ValueError if there is none."""
    try:
        if isinstance(frame.schema, int):
            return await registry.schema(frame.schema, subject=context, form=form)
        return (await registry.schema_of_guid(frame.schema, form=form)).within(context)
    except SchemaNotFound:
        raise ValueError(f"its schema {frame.schema} is not in the schema registry") from None


async def referenced(registry: SchemaRegistry, schema: Schema, form: str = "") -> dict[str, Schema]:
    """The schemas that one builds on, by the names they have there, those that others build on first."""
    found: dict[str, Schema] = {}
    await _collect(registry, schema, form, found, ())
    return found


async def _collect(
    registry: SchemaRegistry, schema: Schema, form: str, found: dict[str, Schema], within: tuple[str, ...]
) -> None:
    for reference in schema.references:
        if reference.name in found:
            continue
        if reference.name in within:
            raise ValueError(f"the schema {reference.name} refers to itself")
        target = await registry.version(reference.subject, reference.version, form=form)
        await _collect(registry, target.schema, form, found, (*within, reference.name))
        found[reference.name] = target.schema


def _said(error: Exception) -> str:
    return " ".join(f"{error or type(error).__name__}".split())[:300]
