"""Schemas as registries know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]
_TYPES: Final[dict[str, SchemaType]] = {"AVRO": "AVRO", "JSON": "JSON", "PROTOBUF": "PROTOBUF"}


def context_of(subject: str) -> str:
    """What stands before a subject in a context, `:.name:`, and before others there; nothing in the default one."""
    end = subject.find(":", 2) if subject.startswith(":.") else -1
    return subject[: end + 1] if end > 2 else ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one builds on: what it is called there, and where it is registered."""

    name: str
    subject: str
    version: int

    def written(self) -> dict[str, Any]:
        """What the API says."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema: its text, its language and what it builds on."""

    text: str
    type: SchemaType = "AVRO"
    references: tuple[Reference, ...] = ()

    def written(self) -> dict[str, Any]:
        """What the API says; Avro goes without saying."""
        said: dict[str, Any] = {"schema": self.text}
        if self.type != "AVRO":
            said["schemaType"] = self.type
        if self.references:
            said["references"] = [each.written() for each in self.references]
        return said

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Schema:
        """What an answer of the API means; raises ValueError or KeyError if it is none."""
        kind = _TYPES.get(said.get("schemaType") or "AVRO")
        if kind is None:
            raise ValueError(f"schemas of type {str(said['schemaType'])[:40]!r} are not known")
        references = tuple(
            Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in said.get("references") or ()
        )
        return cls(str(said["schema"]), kind, references)

    def within(self, context: str) -> Schema:
        """The same with references that say which context they are to, as seen from one (`:.name:`)."""
        if not context or all(each.subject.startswith(":") for each in self.references):
            return self
        named = (each.subject if each.subject.startswith(":") else context + each.subject for each in self.references)
        pairs = zip(self.references, named, strict=True)
        return replace(self, references=tuple(replace(each, subject=subject) for each, subject in pairs))


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its place in a registry."""

    subject: str
    id: int
    schema: Schema
    version: int | None = None
    """None if an older registry did not say."""
    guid: str | None = None
    """The same in all registries that have the schema; None if an older one did not say."""
