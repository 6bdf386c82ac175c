"""Records by the schemas of a registry, as `kavka produce` writes and `kavka consume` shows them."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import typer

from kavka.cli.lines import Record
from kavka.cli.options import CLIENT_CONFIG, REGISTRY_URL, read_client_config
from kavka.cli.output import CommandError
from kavka.cli.records import DecodedBytes
from kavka.client import ConsumerRecord

if TYPE_CHECKING:
    from kavka.client.registry import RegisteredSchema, Schema, SchemaRegistry, SchemaType
    from kavka.client.schemas import AnySchema

OFF: Final = "off"
LATEST: Final = "latest"

RegistryOption = Annotated[
    str | None,
    typer.Option("--registry", envvar=REGISTRY_URL, metavar="URL|off", help="The schema registry, http://HOST:PORT."),
]
Part = Literal["key", "value"]
Format = Literal["avro", "json-schema", "protobuf"]
Encode = Callable[[Any], bytes]
Decode = Callable[[Sequence[ConsumerRecord]], Awaitable[Sequence[ConsumerRecord]]]

_TYPES: Final[dict[str, SchemaType]] = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
_SUFFIXES: Final = {".avsc": "avro", ".json": "json-schema", ".proto": "protobuf"}


def registry_of(said: str | None) -> SchemaRegistry | None:
    """The registry that the option, the environment, the profile or client.properties names; raises CommandError."""
    path = os.environ.get(CLIENT_CONFIG)
    properties = dict(read_client_config(path)) if path else {}
    url = said or properties.get("schema.registry.url")
    if not url or url == OFF:
        return None
    from kavka.client.providers import resolved
    from kavka.client.registry import SchemaRegistry

    try:
        return SchemaRegistry.of(resolved({**properties, "schema.registry.url": url}))
    except ValueError as error:
        raise CommandError(f"--registry: {error}", 2) from None


@contextmanager
def registry_errors() -> Iterator[None]:
    """What goes wrong with a registry is one line; what needs a library says which."""
    from kavka.client.registry import SchemaRegistryError

    try:
        yield
    except SchemaRegistryError as error:
        raise CommandError(str(error)) from None
    except ImportError as error:
        raise CommandError(f"{error.name} is needed for this: pip install 'kavka[schemas]'") from None


# -- consume -----------------------------------------------------------------------------------------


def decoding(registry: SchemaRegistry) -> Decode:
    """What makes JSON of the keys and values that name a schema; others stay as they are."""
    from kavka.client.schemas import AnySchema

    read = AnySchema(registry)

    async def decode(records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        with registry_errors():
            return [await _decoded(read, record) for record in records]

    return decode


async def _decoded(read: AnySchema, record: ConsumerRecord) -> ConsumerRecord:
    from kavka.client.schemas.framing import is_framed

    key, value = record.key, record.value
    if is_framed("key", key, record.headers):
        with suppress(ValueError):  # a number that begins with a zero looks just the same
            key = _json(await read.deserialize_part("key", record.topic, key, record.headers))
    if is_framed("value", value, record.headers):
        try:
            value = _json(await read.deserialize_part("value", record.topic, value, record.headers))
        except ValueError as error:
            where = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise CommandError(f"{where} cannot be read: {error} (--registry off shows its bytes)") from None
    return record._replace(key=key, value=value)


def _json(value: Any) -> bytes:
    return DecodedBytes(json.dumps(value, ensure_ascii=False).encode())


# -- produce -----------------------------------------------------------------------------------------


class Said(NamedTuple):
    """What was said of the schema of keys, or of values."""

    part: Part
    schema: str | None
    message: str = ""

    @property
    def option(self) -> str:
        """How it was said."""
        return f"--{self.part}-schema"


async def encoding(
    registry: SchemaRegistry | None, topic: str, said: Sequence[Said], format_: Format | None
) -> Mapping[str, Encode]:
    """What writes JSON by schemas: those of files, which are registered, or the latest; raises CommandError."""
    wanted = [each for each in said if each.schema is not None]
    if registry is None:
        raise typer.BadParameter("it needs --registry URL", param_hint=wanted[0].option)
    async with registry:
        return {each.part: await _encoding(registry, topic, each, format_) for each in wanted}


async def _encoding(registry: SchemaRegistry, topic: str, said: Said, format_: Format | None) -> Encode:
    with registry_errors():
        from kavka.client.schemas.write import written_by

        registered = await _registered(registry, f"{topic}-{said.part}", said, format_)
        try:
            return await written_by(registry, registered, said.message)
        except ValueError as error:
            raise CommandError(f"{said.option}: {error}") from None


async def encoded(
    records: AsyncIterator[Sequence[Record]], write: Mapping[str, Encode]
) -> AsyncIterator[Sequence[Record]]:
    """Records whose keys or values are JSON, written by schemas; raises CommandError for one that does not fit."""
    number = 0
    async for chunk in records:
        made: list[Record] = []
        for record in chunk:
            number += 1
            key, value = record.key, record.value
            what = f"record {number}"
            try:
                if "value" in write and value is not None:
                    value = write["value"](json.loads(value))
                if "key" in write and key is not None:
                    what = f"the key of record {number}"
                    key = write["key"](json.loads(key))
            except ValueError as error:
                yield made
                raise CommandError(f"{what} does not fit the schema: {error}") from None
            made.append(record._replace(key=key, value=value))
        yield made


async def _registered(registry: SchemaRegistry, subject: str, said: Said, format_: Format | None) -> RegisteredSchema:
    from kavka.client.registry import SchemaNotFound

    if said.schema == LATEST:
        try:
            found = await registry.latest(subject)
        except SchemaNotFound:
            raise CommandError(f"{said.option}: {subject} has no schema yet, give a file") from None
        if format_ is not None and found.schema.type != _TYPES[format_]:
            raise CommandError(f"--format: the latest schema of {subject} is of type {found.schema.type}")
        return found
    return await registry.register(subject, _schema_in(said, format_))


def _schema_in(said: Said, format_: Format | None) -> Schema:
    from kavka.client.registry import Schema

    path = Path(said.schema or "")
    kind = format_ or _SUFFIXES.get(path.suffix)
    if kind is None:
        raise CommandError(f"{said.option}: say by --format which language {path.name} is in", 2)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"{said.option}: {path} is no text") from None
    except OSError as error:
        raise CommandError(f"{said.option}: {path}: {error.strerror}") from None
    return Schema(text, _TYPES[kind])
