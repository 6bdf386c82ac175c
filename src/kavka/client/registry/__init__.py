"""A client of schema registries: Confluent's REST API, as Kavka's nodes and others serve it, over plain HTTP or TLS.

`SchemaRegistry` is for asyncio, `kavka.client.registry.blocking.SchemaRegistry` for code without it. Nothing beyond the
standard library is needed; formats (Avro, JSON Schema, Protobuf) are what `kavka.client.schemas` is about.
"""

from kavka.client.registry.api import SchemaRegistry
from kavka.client.registry.errors import IncompatibleSchema, RegistryUnreachable, SchemaNotFound, SchemaRegistryError
from kavka.client.registry.values import Reference, RegisteredSchema, Schema, SchemaType, context_of

__all__ = [
    "IncompatibleSchema",
    "Reference",
    "RegisteredSchema",
    "RegistryUnreachable",
    "Schema",
    "SchemaNotFound",
    "SchemaRegistry",
    "SchemaRegistryError",
    "SchemaType",
    "context_of",
]
