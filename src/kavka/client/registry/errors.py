"""What may go wrong between a program and its schema registry."""

from __future__ import annotations

from typing import Final

NOT_FOUND: Final = 404
CONFLICT: Final = 409


class SchemaRegistryError(Exception):
    """A registry did not do what it was asked to; `status` is HTTP's, `code` Confluent's more exact one."""

    def __init__(self, message: str, status: int = 0, code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code or status


class RegistryUnreachable(SchemaRegistryError):  # noqa: N818
    """None of a registry's addresses answered in time."""


class SchemaNotFound(SchemaRegistryError):  # noqa: N818
    """There is no such schema, version or subject."""


class IncompatibleSchema(SchemaRegistryError):  # noqa: N818
    """A schema that the subject's rules do not allow after those it has."""


def error_of(status: int, code: int, message: str) -> SchemaRegistryError:
    """The error of an answer."""
    kind = {NOT_FOUND: SchemaNotFound, CONFLICT: IncompatibleSchema}.get(status, SchemaRegistryError)
    if status == NOT_FOUND and code in (0, NOT_FOUND):  # neither a schema nor a subject: there is no such page
        return SchemaRegistryError(f"the schema registry's URL leads nowhere: {message} ({status})", status, code)
    return kind(f"the schema registry answers: {message} ({code or status})", status, code)
