"""What the registry remembers: subjects with their versions, ids, settings; written by `replay` alone."""

from __future__ import annotations

import hashlib
import json
import uuid
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kavka.coordinator.registry.records import (
    ClearSubjectKey,
    ConfigKey,
    DeleteSubjectKey,
    MaxIdsKey,
    ModeKey,
    RegistryRecord,
    SchemaKey,
    SchemaVersion,
)

DEFAULT_CONTEXT: Final = "."
READWRITE: Final = "READWRITE"
BACKWARD: Final = "BACKWARD"
BY_ID: Final = b"\x00"
"""What the name of a schema in a record begins with, if it is an id; else it is a GUID."""

Place = tuple[str, int]
"""A subject and a version of it."""


def context_of(subject: str) -> str:
    """The context that a subject is in: `.name` of `:.name:subject`, else the default one."""
    if subject.startswith(":."):
        end = subject.find(":", 2)
        if end > 0:
            return subject[1:end]
    return DEFAULT_CONTEXT


def unqualified(subject: str) -> str:
    """A subject's name within its context."""
    context = context_of(subject)
    return subject if context == DEFAULT_CONTEXT else subject[len(context) + 2 :]


def qualified(context: str, subject: str) -> str:
    """A subject's name as seen from a context: as it is if it names one itself."""
    if context == DEFAULT_CONTEXT or subject.startswith(":"):
        return subject.removeprefix(":.:")
    return f":{context}:{subject}"


def fingerprint(version: SchemaVersion) -> bytes:
    """The same for schemas that are the same, references and rules included."""
    said = [version.schema_type, version.schema, version.references, version.metadata, version.rule_set]
    return hashlib.md5(json.dumps(said, sort_keys=True).encode(), usedforsecurity=False).digest()


def guid_of(content: bytes) -> str:
    """A schema's name that is the same in every registry, out of its fingerprint."""
    return str(uuid.UUID(bytes=content))


def properties_of(version: SchemaVersion) -> Mapping[str, Any]:
    """What the metadata of a schema says by name."""
    found = (version.metadata or {}).get("properties")
    return found if isinstance(found, dict) else {}


class RegistryState:
    """The durable state of the registry."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, SchemaVersion]] = {}
        self.ids: dict[tuple[str, int], set[Place]] = {}
        """By context and id: where the schema is."""
        self.by_content: dict[tuple[str, bytes], set[int]] = {}
        """By context and content: the ids, of which there are several where somebody chose them."""
        self.contents: dict[Place, bytes] = {}
        """The fingerprints of all versions."""
        self.names: list[str] = []
        """All subjects, in order."""
        self.living: dict[str, int] = {}
        """How many versions subjects have that are not deleted, if any."""
        self.referenced: dict[Place, set[Place]] = {}
        """By what is referred to: who does."""
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.max_ids: dict[str, int] = {}
        """The highest id that was ever given out, by context."""

    # -- the only writer ------------------------------------------------------------------------------

    def replay(self, record: RegistryRecord) -> None:
        """Take in a record of the log."""
        match record.key:
            case SchemaKey(subject, version):
                self._forget((subject, version))
                if record.value is not None:
                    self._keep(record.value)
            case ConfigKey(subject):
                _put(self.configs, subject, record.value)
            case ModeKey(subject):
                _put(self.modes, subject, None if record.value is None else record.value.get("mode", READWRITE))
            case DeleteSubjectKey(subject):
                if record.value is not None:
                    for each in list(self.subjects.get(subject, {}).values()):
                        if each.version <= record.value["version"] and not each.deleted:
                            self._forget((subject, each.version))
                            self._keep(each._replace(deleted=True))
            case ClearSubjectKey(subject):
                for version in list(self.subjects.get(subject, ())):
                    self._forget((subject, version))
            case MaxIdsKey():
                for context, highest in (record.value or {}).items():
                    self.max_ids[context] = max(highest, self.max_ids.get(context, 0))

    def _keep(self, each: SchemaVersion) -> None:
        context, place = context_of(each.subject), (each.subject, each.version)
        if each.subject not in self.subjects:
            self.subjects[each.subject] = {}
            insort(self.names, each.subject)
        self.subjects[each.subject][each.version] = each
        if not each.deleted:
            self.living[each.subject] = self.living.get(each.subject, 0) + 1
        self.ids.setdefault((context, each.id), set()).add(place)
        content = self.contents[place] = fingerprint(each)
        self.by_content.setdefault((context, content), set()).add(each.id)
        self.max_ids[context] = max(each.id, self.max_ids.get(context, 0))
        for reference in each.references:
            target = qualified(context, reference.subject), reference.version
            self.referenced.setdefault(target, set()).add(place)

    def _forget(self, place: Place) -> None:
        subject, version = place
        versions = self.subjects.get(subject, {})
        each = versions.pop(version, None)
        if each is None:
            return
        if not versions:
            del self.subjects[subject]
            del self.names[bisect_left(self.names, subject)]
        if not each.deleted:
            self.living[subject] -= 1
            if not self.living[subject]:
                del self.living[subject]
        context, content = context_of(subject), self.contents.pop(place)
        places = self.ids[context, each.id]
        places.discard(place)
        if not places:
            del self.ids[context, each.id]
            same = self.by_content[context, content]
            same.discard(each.id)
            if not same:
                del self.by_content[context, content]
        for reference in each.references:
            target = qualified(context, reference.subject), reference.version
            self.referenced[target].discard(place)
            if not self.referenced[target]:
                del self.referenced[target]

    # -- questions ------------------------------------------------------------------------------------

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        """The versions of a subject in order, those that were deleted too if asked for."""
        found = self.subjects.get(subject, {})
        return [found[version] for version in sorted(found) if deleted or not found[version].deleted]

    def has(self, subject: str, *, deleted: bool = False) -> bool:
        """Whether a subject has versions, or had some that were deleted if asked for."""
        return subject in (self.subjects if deleted else self.living)

    def by_id(self, context: str, id_: int) -> SchemaVersion | None:
        """A schema by its id, deleted or not: somebody may still have records of it."""
        place = min(self.ids.get((context, id_), ()), default=None)
        return None if place is None else self.subjects[place[0]][place[1]]

    def guid(self, each: SchemaVersion) -> str:
        """The name of a version's schema that is the same in every registry."""
        return guid_of(self.contents[each.subject, each.version])

    def by_guid(self, guid: str) -> Iterator[tuple[str, SchemaVersion]]:
        """A schema by its name in every registry: with each context that has it, and each id that it has there."""
        try:
            content = uuid.UUID(guid).bytes
        except ValueError:
            return
        for context in sorted(self.max_ids):
            for id_ in sorted(self.by_content.get((context, content), ())):
                each = self.by_id(context, id_)
                if each is not None:
                    yield context, each

    def named(self, name: bytes) -> SchemaVersion | None:
        """The schema of the default context that a record names, by its id or by its GUID."""
        if name[:1] == BY_ID:
            return self.by_id(DEFAULT_CONTEXT, int.from_bytes(name[1:]))
        ids = self.by_content.get((DEFAULT_CONTEXT, name[1:]), ())
        return self.by_id(DEFAULT_CONTEXT, min(ids)) if ids else None

    def holds(self, subject: str, name: bytes) -> bool:
        """Whether a subject has the schema that a record names, not deleted."""
        if name[:1] == BY_ID:
            id_ = int.from_bytes(name[1:])
            return any(each.id == id_ and not each.deleted for each in self.subjects.get(subject, {}).values())
        return any(
            not each.deleted and self.contents[subject, each.version] == name[1:]
            for each in self.subjects.get(subject, {}).values()
        )

    def contexts(self) -> list[str]:
        """All contexts that have schemas, and the default one."""
        return sorted({DEFAULT_CONTEXT, *(context for context, _ in self.ids)})

    def referring(self, subject: str, version: int, *, deleted: bool = False) -> Iterator[SchemaVersion]:
        """Those that refer to a version, deleted ones too if asked for."""
        for place in sorted(self.referenced.get((subject, version), ())):
            each = self.subjects[place[0]][place[1]]
            if deleted or not each.deleted:
                yield each

    def config(self, subject: str) -> Mapping[str, Any]:
        """What is configured for a subject, else for its context, else for all."""
        context = context_of(subject)
        scopes: list[str | None] = [None] if context == DEFAULT_CONTEXT else [None, f":{context}:"]
        merged: dict[str, Any] = {"compatibilityLevel": BACKWARD}
        for scope in (*scopes, subject):
            merged.update(self.configs.get(scope, {}))
        return merged

    def mode(self, subject: str | None) -> str:
        """The mode of a subject, else of its context, else of all."""
        if self.modes.get(None) == "READONLY_OVERRIDE" or subject is None:
            return self.modes.get(None, READWRITE)
        context = context_of(subject)
        for scope in (subject, *(() if context == DEFAULT_CONTEXT else (f":{context}:",)), None):
            if scope in self.modes:
                return self.modes[scope]
        return READWRITE


def _put(table: dict[str | None, Any], subject: str | None, value: Any) -> None:
    if value is None:
        table.pop(subject, None)
    else:
        table[subject] = value
