"""What a schema is to the registry, whatever its format: a text, its references, and what it may change into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"
TYPES = (JSON, PROTOBUF, AVRO)
NO_REFERENCES: Final[Mapping[str, str]] = {}


class SchemaError(ValueError):
    """A text that is no schema of its format: one line that names the place."""


class Reference(NamedTuple):
    """A schema that another one uses, under the name by which it does."""

    name: str
    subject: str
    version: int


class Difference(NamedTuple):
    """What makes a schema unable to read what another one wrote."""

    kind: str
    path: str
    description: str

    def __str__(self) -> str:
        return f"{{errorType:'{self.kind}', description:'{self.description}', additionalInfo:'{self.path}'}}"


class Schema(Protocol):
    """A schema that was read."""

    @property
    def canonical(self) -> str:
        """The text that is kept."""

    @property
    def normalized(self) -> str:
        """The text of all schemas that mean the same."""


class Format(Protocol):
    """One of the formats."""

    def parse(self, text: str, references: Mapping[str, str]) -> Schema:
        """Read a schema, given the texts it refers to by name; raises SchemaError."""

    def differences(self, reader: Schema, writer: Schema) -> Sequence[Difference]:
        """Why a reader cannot read what a writer wrote; nothing if it can."""
