"""The answers of the registry to questions: nothing here changes anything."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kavka.coordinator.registry.calls import (
    LATEST,
    Call,
    RegistryError,
    schema_not_found,
    subject_not_found,
    version_not_found,
    version_number,
)
from kavka.coordinator.registry.contracts import has_rules
from kavka.coordinator.registry.judging import Text
from kavka.coordinator.registry.records import SchemaVersion, written
from kavka.coordinator.registry.schema import AVRO, TYPES
from kavka.coordinator.registry.state import (
    BACKWARD,
    DEFAULT_CONTEXT,
    Place,
    RegistryState,
    context_of,
    properties_of,
    qualified,
    unqualified,
)

MOST_SCHEMAS: Final = 1000
"""How many schemas one answer lists at most, as Confluent's registry does."""
MOST_SCHEMA_BYTES: Final = 2 << 20
"""How much of them: writing an answer takes the node's time."""
MOST_REFERENCES: Final = 1000
MOST_REFERRED: Final = 4 << 20
"""Characters of all schemas that one refers to, one that it refers to by several names as often: each is read."""
DEEPEST: Final = 100
EVERY_CONTEXT: Final = ":*:"
_PLACES: Final = ("subject", "version", "id", "deleted")
SUBJECTS: Final = "subjects"
"""The subjects that a schema is looked for in, as JSON: their names may have anything in them."""


class Reading:
    """Answers by the state, one method for each question."""

    def __init__(self, state: RegistryState) -> None:
        self._state = state

    def answer(self, call: Call) -> Any:
        """The answer to a question; raises RegistryError."""
        return QUESTIONS[call.name](self, call)

    # -- finding --------------------------------------------------------------------------------------

    def subject(self, call: Call) -> str:
        """The subject that a call is about, behind its alias."""
        return self._behind(qualified(call.context, call.arguments["subject"]))

    def _behind(self, subject: str) -> str:
        alias = self._state.configs.get(subject, {}).get("alias")
        return qualified(context_of(subject), alias) if alias else subject

    def known_subject(self, call: Call, *, deleted: bool) -> str:
        """The same; one that no context names and the default one does not have may be in another context."""
        subject = self.subject(call)
        if context_of(subject) == DEFAULT_CONTEXT and not self._state.has(subject, deleted=deleted):
            others = (qualified(context, subject) for context in sorted(self._state.max_ids))
            return next((each for each in others if self._state.has(each, deleted=deleted)), subject)
        return subject

    def one_version(self, call: Call, *, deleted: bool | None = None) -> SchemaVersion:
        """The version that a call is about; raises RegistryError."""
        wanted = version_number(call.arguments["version"])
        with_deleted = call.flag("deleted") if deleted is None else deleted
        in_question = call.name in QUESTIONS  # what changes something has to say where
        subject = self.known_subject(call, deleted=with_deleted) if in_question else self.subject(call)
        versions = self._state.versions(subject, deleted=with_deleted)
        if not versions:
            raise subject_not_found(subject)
        if wanted == LATEST:
            return versions[-1]
        for each in versions:
            if each.version == wanted:
                return each
        raise version_not_found(wanted)

    def by_id(self, call: Call) -> SchemaVersion:
        """The schema with the id that a call names; raises RegistryError."""
        try:
            id_ = int(call.arguments["id"])
        except ValueError:
            raise RegistryError(404, "HTTP 404 Not Found") from None
        context = call.context
        if subject := call.query.get("subject"):
            context = context_of(qualified(context, subject))
        found = self._state.by_id(context, id_)
        if found is None and context == DEFAULT_CONTEXT and subject:
            places = (self._state.by_id(each, id_) for each in self._state.contexts())
            found = next((each for each in places if each is not None and each.subject == subject), None)
        if found is None:
            raise schema_not_found(id_)
        return found

    def named(self, call: Call) -> SchemaVersion:
        """The schema that a record names; raises RegistryError."""
        found = self._state.named(_name(call))
        if found is None:
            raise schema_not_found(call.arguments["name"])
        return found

    def text(self, each: SchemaVersion) -> Text:
        """A schema with the texts of all that it refers to, those that others need first; raises RegistryError."""
        return Text(each.schema_type, each.schema, self.references(each))

    def references(self, each: SchemaVersion) -> dict[str, str]:
        """The texts that a schema refers to, by the names it does."""
        found: dict[str, str] = {}
        self._collect(each, found, set(), set())
        if sum(map(len, found.values())) > MOST_REFERRED:
            raise RegistryError(42201, f"A schema refers to others of at most {MOST_REFERRED >> 20} MiB together")
        return found

    def _collect(self, each: SchemaVersion, found: dict[str, str], within: set[Place], done: set[Place]) -> None:
        if len(within) > DEEPEST:
            raise RegistryError(42201, f"References are nested more than {DEEPEST} deep")
        for reference in each.references:
            subject = qualified(context_of(each.subject), reference.subject)
            wanted = reference.version
            if wanted == LATEST:
                wanted = max((known.version for known in self._state.versions(subject)), default=0)
            target = self._state.subjects.get(subject, {}).get(wanted)
            if target is None:
                said = f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
                raise RegistryError(42201, said)
            place = target.subject, target.version
            if place not in done and place not in within:  # a circle, which only another registry can have written
                self._collect(target, found, within | {place}, done)
                done.add(place)
            found.setdefault(reference.name, target.schema)
            if len(found) > MOST_REFERENCES:
                raise RegistryError(42201, f"A schema refers to at most {MOST_REFERENCES} others")

    def shown(self, each: SchemaVersion) -> dict[str, Any]:
        """A version as answers have it."""
        answer = {**written(each), "guid": self._state.guid(each), "schemaType": each.schema_type}
        if not each.deleted:
            del answer["deleted"]
        if each.schema_type == AVRO:
            del answer["schemaType"]
        return answer

    # -- answers --------------------------------------------------------------------------------------

    def root(self, call: Call) -> Any:
        return {}

    def schema_types(self, call: Call) -> Any:
        return list(TYPES)

    def registry_id(self, call: Call) -> Any:
        return {"scope": {"path": [], "clusters": {"schema-registry-cluster": "schema-registry"}}, "id": ""}

    def registry_version(self, call: Call) -> Any:
        return {"version": "8.0.0", "commitId": "kavka"}

    def registry_deployment(self, call: Call) -> Any:
        return {"attributes": []}

    def list_contexts(self, call: Call) -> Any:
        prefix = call.query.get("contextPrefix", "")
        return _page([each for each in self._state.contexts() if each.startswith(prefix)], call)

    def list_subjects(self, call: Call) -> Any:
        found, living = self._named(_prefix(call, EVERY_CONTEXT)), self._state.living
        if call.flag("deletedOnly"):
            found = [subject for subject in found if subject not in living]
        elif not call.flag("deleted"):
            found = [subject for subject in found if subject in living]
        return _page(found, call)

    def _named(self, prefix: str) -> list[str]:
        """The subjects that begin with something, in order; those of other contexts only if it names theirs."""
        names = self._state.names
        if prefix.startswith(EVERY_CONTEXT):
            wanted = prefix.removeprefix(EVERY_CONTEXT)
            return [subject for subject in names if unqualified(subject).startswith(wanted)] if wanted else names
        found = names[bisect_left(names, prefix) : bisect_left(names, f"{prefix}\U0010ffff")]
        if prefix.startswith(":"):
            return found
        return [subject for subject in found if subject[:2] != ":." or context_of(subject) == DEFAULT_CONTEXT]

    def list_schemas(self, call: Call) -> Any:
        deleted, latest, rules = call.flag("deleted"), call.flag("latestOnly"), call.query.get("ruleType", "")
        offset, limit = _window(call)
        first = offset
        last = offset + min(limit if limit >= 0 else MOST_SCHEMAS, MOST_SCHEMAS)
        found: list[SchemaVersion] = []
        for subject in self._named(_prefix(call, "")):
            if len(found) >= last:
                break
            if deleted or subject in self._state.living:
                versions = self._state.versions(subject, deleted=deleted)
                versions = versions[-1:] if latest else versions
                found += [each for each in versions if has_rules(each, rules)] if rules else versions
        return [self.shown(each) for each in _in_bytes(found[first:last])]

    def schema_by_id(self, call: Call) -> Any:
        each = self.by_id(call)
        left_out = ("id", "deleted") if call.query.get("subject") else _PLACES
        answer = {key: value for key, value in self.shown(each).items() if key not in left_out}
        if call.flag("fetchMaxId"):
            answer["maxId"] = self._state.max_ids.get(context_of(each.subject), 0)
        return answer

    def text_by_id(self, call: Call) -> Any:
        return self.by_id(call).schema

    def _places(self, call: Call) -> Iterator[SchemaVersion]:
        each = self.by_id(call)
        for subject, version in sorted(self._state.ids[context_of(each.subject), each.id]):
            found = self._state.subjects[subject][version]
            if call.flag("deleted") or not found.deleted:
                yield found

    def subjects_of_id(self, call: Call) -> Any:
        return _page(sorted({each.subject for each in self._places(call)}), call)

    def versions_of_id(self, call: Call) -> Any:
        return _page([{"subject": each.subject, "version": each.version} for each in self._places(call)], call)

    def _of_guid(self, call: Call) -> Iterator[tuple[str, SchemaVersion]]:
        return self._state.by_guid(call.arguments["guid"])

    def by_guid(self, call: Call) -> SchemaVersion:
        """The schema with the guid that a call names; raises RegistryError."""
        for _, each in self._of_guid(call):
            return each
        raise schema_not_found(call.arguments["guid"])

    def schema_by_guid(self, call: Call) -> Any:
        shown = self.shown(self.by_guid(call))
        return {key: value for key, value in shown.items() if key not in _PLACES}

    def ids_of_guid(self, call: Call) -> Any:
        return [{"context": context, "id": each.id} for context, each in self._of_guid(call)]

    def registered(self, call: Call) -> Any:
        """Whether one of some subjects has the schema that a record names."""
        name = _name(call)
        subjects = [each for each in json.loads(call.query[SUBJECTS]) if context_of(each) == DEFAULT_CONTEXT]
        return any(self._state.holds(self._behind(each), name) for each in subjects)

    def list_versions(self, call: Call) -> Any:
        subject = self.subject(call)
        everything = self._state.versions(subject, deleted=True)
        only, deleted = call.flag("deletedOnly"), call.flag("deleted")
        if not self._state.has(subject, deleted=only or deleted):
            raise subject_not_found(subject)
        if call.flag("deletedAsNegative"):
            return _page([-each.version if each.deleted else each.version for each in everything], call)
        found = [each.version for each in everything if (each.deleted if only else deleted or not each.deleted)]
        return _page(found, call)

    def version(self, call: Call) -> Any:
        return self.shown(self.one_version(call))

    def text_of_version(self, call: Call) -> Any:
        return self.one_version(call).schema

    def referenced_by(self, call: Call) -> Any:
        each, deleted = self.one_version(call, deleted=True), call.flag("deleted")
        referring = self._state.referring(each.subject, each.version, deleted=deleted)
        return _page(sorted({found.id for found in referring}), call)

    def with_metadata(self, call: Call) -> SchemaVersion:
        """The latest version whose metadata has what a call names; raises RegistryError."""
        subject = self.subject(call)
        wanted = dict(zip(call.values("key"), call.values("value"), strict=False))
        versions = self._state.versions(subject, deleted=call.flag("deleted"))
        if not versions:
            raise subject_not_found(subject)
        found = (each for each in versions[::-1] if wanted.items() <= properties_of(each).items())
        latest = next(found, None)
        if latest is None:
            raise schema_not_found()
        return latest

    def latest_with_metadata(self, call: Call) -> Any:
        return self.shown(self.with_metadata(call))

    def config(self, call: Call) -> Any:
        scope = scope_of(call)
        if scope is None:
            return {"compatibilityLevel": BACKWARD, **self._state.configs.get(None, {})}
        if call.flag("defaultToGlobal"):
            return dict(self._state.config(scope))
        if scope not in self._state.configs:
            raise RegistryError(40408, f"Subject '{scope}' does not have subject-level compatibility configured")
        return dict(self._state.configs[scope])

    def mode(self, call: Call) -> Any:
        scope = scope_of(call)
        if scope is not None and scope not in self._state.modes and not call.flag("defaultToGlobal"):
            raise RegistryError(40409, f"Subject '{scope}' does not have subject-level mode configured")
        return {"mode": self._state.mode(scope)}


QUESTIONS: Final[Mapping[str, Callable[[Reading, Call], Any]]] = {
    name: getattr(Reading, name)
    for name in (
        "root", "schema_types", "registry_id", "registry_version", "registry_deployment", "list_contexts",
        "list_subjects", "list_schemas",
        "schema_by_id", "text_by_id", "subjects_of_id", "versions_of_id", "schema_by_guid", "ids_of_guid",
        "list_versions", "version", "text_of_version", "referenced_by", "latest_with_metadata", "config", "mode",
        "registered",
    )
}  # fmt: skip


def scope_of(call: Call) -> str | None:
    """What a setting is of: a subject, a context, or all (None)."""
    subject = call.arguments.get("subject")
    if subject is None:
        return None if call.context == DEFAULT_CONTEXT else f":{call.context}:"
    return qualified(call.context, subject) or None  # the default context: all


def _prefix(call: Call, default: str) -> str:
    """What the subjects that are asked for begin with; `default` where neither a context nor a prefix is named."""
    prefix = call.query.get("subjectPrefix")
    if call.context == DEFAULT_CONTEXT:
        return default if prefix is None else prefix.removeprefix(":.:")
    prefix = prefix or ""
    return prefix if prefix.startswith((":.", EVERY_CONTEXT)) else f":{call.context}:{prefix}"


def _name(call: Call) -> bytes:
    try:
        return bytes.fromhex(call.arguments["name"])
    except ValueError:
        raise RegistryError(404, "HTTP 404 Not Found") from None


def _in_bytes(found: list[SchemaVersion]) -> Iterator[SchemaVersion]:
    """The first of them that are not too much for one answer, one at least."""
    size = 0
    for each in found:
        size += len(each.schema)
        if size > MOST_SCHEMA_BYTES and size > len(each.schema):
            return
        yield each


def _window(call: Call) -> tuple[int, int]:
    return max(0, call.number("offset", 0)), call.number("limit", -1)


def _page(found: list[Any], call: Call) -> list[Any]:
    offset, limit = _window(call)
    return found[offset : offset + limit if limit >= 0 else None]
