"""The records of `_schemas`, in the form that Confluent's registry writes: JSON keys and JSON values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kavka.coordinator.record import Unknown
from kavka.coordinator.registry.schema import AVRO, Reference


class SchemaKey(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int


class ConfigKey(NamedTuple):
    """The configuration of a subject, of a context (`:.name:`), or of all (None)."""

    subject: str | None


class ModeKey(NamedTuple):
    """The mode of a subject, of a context, or of all (None)."""

    subject: str | None


class DeleteSubjectKey(NamedTuple):
    """That the versions of a subject are deleted."""

    subject: str


class ClearSubjectKey(NamedTuple):
    """That a subject is to be forgotten."""

    subject: str


class MaxIdsKey(NamedTuple):
    """The highest ids that were given out, by context: in the place of the record that means nothing to others."""


Key = SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey | MaxIdsKey


class RegistryRecord(NamedTuple):
    """One record; no value means that what the key names is forgotten."""

    key: Key
    value: Any = None


class SchemaVersion(NamedTuple):
    """A schema as a version of a subject."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None
    deleted: bool = False


_MAGIC: Final[dict[type[Any], int]] = {SchemaKey: 1}
_TYPES: Final[dict[type[Any], str]] = {
    SchemaKey: "SCHEMA",
    ConfigKey: "CONFIG",
    ModeKey: "MODE",
    DeleteSubjectKey: "DELETE_SUBJECT",
    ClearSubjectKey: "CLEAR_SUBJECT",
    MaxIdsKey: "NOOP",
}
_KEYS: Final = {name: key for key, name in _TYPES.items()}
_IGNORED: Final = frozenset({"CONTEXT", "ASSOC"})


class RegistryCodec:
    """How the records lie in the topic."""

    def encode(self, record: RegistryRecord, /) -> tuple[bytes, bytes | None]:
        """Key and value of a record."""
        kind = type(record.key)
        key = {"keytype": _TYPES[kind], **record.key._asdict(), "magic": _MAGIC.get(kind, 0)}
        return _dump(key), None if record.value is None else _dump(_said(record))

    def decode(self, key: bytes | None, value: bytes | None, /) -> RegistryRecord | Unknown:
        """The record of a key and a value; never raises."""
        try:
            found, said = json.loads(key or b""), None if value is None else json.loads(value)
            name = found["keytype"]
            if name in _IGNORED:
                return Unknown(f"a record of type {name}")
            made = _KEYS[name](**{each: found.get(each) for each in _KEYS[name]._fields})
            return RegistryRecord(made, _read(made, said))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
            return Unknown(f"no record of a registry: {error}")


def _said(record: RegistryRecord) -> Any:
    match record.key:
        case SchemaKey():
            return written(record.value)
        case MaxIdsKey():
            return {"maxIds": record.value}
        case ConfigKey(None) | ModeKey(None):
            return record.value
    return {"subject": record.key.subject, **record.value}


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def written(value: SchemaVersion) -> dict[str, Any]:
    """A version as the topic and the answers have it: what is usual is left out."""
    made: dict[str, Any] = {"subject": value.subject, "version": value.version, "id": value.id}
    if value.schema_type != AVRO:
        made["schemaType"] = value.schema_type
    if value.references:
        made["references"] = [each._asdict() for each in value.references]
    if value.metadata:
        made["metadata"] = value.metadata
    if value.rule_set:
        made["ruleSet"] = value.rule_set
    return {**made, "schema": value.schema, "deleted": value.deleted}


def referred(said: Mapping[str, Any]) -> Reference:
    """A reference as requests and the topic have it; raises KeyError, TypeError or ValueError."""
    name, subject, version = said["name"], said["subject"], said["version"]
    if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
        raise ValueError("a reference is a name, a subject and the number of a version")
    return Reference(name, subject, version)


def _read(key: Key, said: Any) -> Any:
    if said is None:
        return None
    if not isinstance(said, dict):
        raise ValueError("a value that is no object")
    match key:
        case SchemaKey(subject, version):
            if not isinstance(subject, str) or not isinstance(version, int):
                raise ValueError("a version of no subject")
            return SchemaVersion(
                subject,
                version,
                int(said["id"]),
                str(said["schema"]),
                said.get("schemaType") or AVRO,
                tuple(map(referred, said.get("references") or ())),
                said.get("metadata"),
                said.get("ruleSet"),
                bool(said.get("deleted", False)),
            )
        case DeleteSubjectKey():
            return {"version": int(said["version"])}
        case MaxIdsKey():
            return {str(context): int(highest) for context, highest in said.get("maxIds", {}).items()}
    return {name: value for name, value in said.items() if name != "subject"}
