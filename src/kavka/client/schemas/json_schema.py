"""Records in JSON that a JSON schema of the registry is kept for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar, Unpack

from jsonschema import exceptions, validators
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from kavka.client.registry.api import SchemaRegistry
from kavka.client.registry.blocking import SchemaRegistry as BlockingRegistry
from kavka.client.registry.values import Schema
from kavka.client.schemas.json_models import json_schema_of
from kavka.client.schemas.models import maker, plain
from kavka.client.schemas.serde import SchemaSerde, SerdeOptions, referenced

T = TypeVar("T")


class JsonSchema(SchemaSerde[T], Generic[T]):
    """Keys or values in JSON.

    `schema` is a dataclass or a model of pydantic, whose instances are then written and read, or a schema as text or
    with what it builds on; values then are what JSON can say. With `validate` (the default) values that do not fit are
    neither written nor read. Without a schema what is read is checked by that which it was written with, and nothing
    can be written but by `use_latest`.
    """

    schema_type = "JSON"

    def __init__(
        self,
        registry: SchemaRegistry | BlockingRegistry,
        schema: type[T] | Schema | str | None = None,
        *,
        validate: bool = True,
        **options: Unpack[SerdeOptions],
    ) -> None:
        """Raises TypeError for a class that cannot be a schema."""
        super().__init__(registry, **options)
        self._validate = validate
        self._kind = schema if isinstance(schema, type) else None
        self._schema: Schema | None = None
        if isinstance(schema, type):
            self._schema = Schema(json_schema_of(schema), "JSON")
        elif schema is not None:
            self._schema = Schema(schema, "JSON") if isinstance(schema, str) else schema
        said = json.loads(self._schema.text) if self._schema is not None else None
        self._name = str(said["title"]) if isinstance(said, dict) and "title" in said else None

    async def _schema_of(self, value: Any, subject: str) -> Schema:
        if self._schema is None:
            raise TypeError("it is not said by which schema to write: give one, or use_latest=True")
        return self._schema

    def _name_of(self, value: Any) -> str | None:
        return self._name

    async def _encoder(self, schema: Schema, value: Any) -> Callable[[Any], bytes]:
        check = await checked_by(self.registry, schema) if self._validate else _anything

        def encode(value: Any) -> bytes:
            said = plain(value, "json")
            check(said)
            return json.dumps(said, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

        return encode

    async def _decoder(
        self, writer: Schema, reader: Schema | None, indexes: tuple[int, ...] | None
    ) -> Callable[[bytes], T]:
        wanted = reader or self._schema or writer
        check = await checked_by(self.registry, wanted) if self._validate else _anything
        make = None if self._kind is None else maker(self._kind, "json")

        def decode(data: bytes) -> Any:
            found = json.loads(data)
            check(found)
            return found if make is None else make(found)

        return decode


def _anything(value: Any) -> None:
    """No check."""


async def checked_by(registry: SchemaRegistry, schema: Schema) -> Callable[[Any], None]:
    """A check by a schema and those that it builds on, which come from the registry and never from the network."""
    others = await referenced(registry, schema) if schema.references else {}
    try:
        known: Any = Registry()
        for name, each in others.items():
            contents = json.loads(each.text)
            known = known.with_resource(name, Resource.from_contents(contents, default_specification=DRAFT7))
        said = json.loads(schema.text)
        kind = validators.validator_for(said, default=validators.Draft7Validator)
        validator = kind(said, registry=known)
    except ValueError as error:
        raise ValueError(f"the JSON schema cannot be read: {error}") from None

    def check(value: Any) -> None:
        try:
            found = exceptions.best_match(validator.iter_errors(value))
        except (Unresolvable, RecursionError) as error:
            raise ValueError(f"the JSON schema cannot be followed: {error}") from None
        if found is not None:
            raise ValueError(f"{found.json_path}: {found.message}"[:500])

    return check
