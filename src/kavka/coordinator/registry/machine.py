"""The registry of one log: what is asked of it is answered or decided here; `replay` is the only writer.

Registering takes three steps, because reading and comparing schemas takes time that nobody else should wait: what is to
be judged is taken out of the state, judged somewhere (`judging.judge`), and decided with the verdict if the state that
it was judged by is still the same.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from kavka.coordinator.registry.calls import (
    LATEST,
    MAX_VERSION,
    Call,
    RegistryError,
    Reply,
    invalid_subject,
    not_permitted,
    schema_not_found,
    subject_not_found,
    version_not_found,
    version_number,
)
from kavka.coordinator.registry.contracts import completed, fault_of, plain
from kavka.coordinator.registry.judging import LEVELS, Earlier, Text, Verdict, Work
from kavka.coordinator.registry.reading import Reading, scope_of
from kavka.coordinator.registry.records import (
    ConfigKey,
    DeleteSubjectKey,
    MaxIdsKey,
    ModeKey,
    RegistryRecord,
    SchemaKey,
    SchemaVersion,
    referred,
)
from kavka.coordinator.registry.schema import AVRO, TYPES, Reference
from kavka.coordinator.registry.state import (
    RegistryState,
    context_of,
    fingerprint,
    guid_of,
    properties_of,
    qualified,
    unqualified,
)
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image.metadata import MetadataImage
from kavka.model.settings.values import Values
from kavka.model.transition import Divisible, Transition

RESERVED: Final = ("__GLOBAL", "__EMPTY")
"""Names that mean something else to registries."""
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
JUDGED: Final = frozenset({"register", "look_up", "check", "check_all"})
FORMATTED: Final = frozenset(
    {"schema_by_id", "schema_by_guid", "version", "latest_with_metadata", "text_by_id", "text_of_version"}
)
"""What has a schema in it that may be asked for in another form."""
_CONFIGURED: Final[Mapping[str, type[Any]]] = {
    "alias": str, "normalize": bool, "compatibilityGroup": str, "validateFields": bool, "validateRules": bool,
    "validateNewSchemas": bool, "compatibilityPolicy": str, "defaultMetadata": dict, "overrideMetadata": dict,
    "defaultRuleSet": dict, "overrideRuleSet": dict,
}  # fmt: skip


class Case(NamedTuple):
    """What is to be judged, and what it was taken from."""

    work: Work
    candidate: SchemaVersion
    """As it was sent: its id and version are those that were asked for, or 0."""
    basis: tuple[Any, ...]


Change = Transition[Any]


class Registry:
    """The machine of the registry's log."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.reading = Reading(self.state)

    # -- the shard's life -----------------------------------------------------------------------------

    def replay(self, record: RegistryRecord, offset: int, producer_id: int = -1) -> None:
        """Take in a record of the log."""
        self.state.replay(record)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Nobody writes to this log in transactions."""

    def on_loaded(self, now_ms: int) -> Transition[None]:
        """Begin to serve."""
        return Transition(None)

    def on_timer(self, key: str, now_ms: int) -> Transition[None]:
        """There are no timers."""
        raise AssertionError(key)

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta) -> Transition[None]:
        """The cluster's metadata means nothing to schemas."""
        return Transition(None)

    def on_settings(self, values: Values) -> None:
        """Nor do settings."""

    # -- requests -------------------------------------------------------------------------------------

    def answer(self, call: Call) -> Reply:
        """The answer to a question; raises RegistryError."""
        return Reply(200, self.reading.answer(call))

    def text(self, call: Call) -> Text:
        """The schema that a question is about, to be put into another form; raises RegistryError."""
        found = {
            "schema_by_id": self.reading.by_id,
            "text_by_id": self.reading.by_id,
            "schema_by_guid": self.reading.by_guid,
            "latest_with_metadata": self.reading.with_metadata,
            "registered": self.reading.named,
        }
        return self.reading.text(found.get(call.name, self.reading.one_version)(call))

    def change(self, call: Call) -> Transition[Reply]:
        """Decide what needs no judging; raises RegistryError."""
        decided = CHANGES[call.name](self, call)
        return Transition(Reply(200, decided.reply), decided.records)

    # -- schemas that were sent -----------------------------------------------------------------------

    def case(self, call: Call) -> Case:
        """What is to be judged for a call; raises RegistryError."""
        candidate = self._candidate(call)
        subject = candidate.subject
        config = self.state.config(subject)
        level = config["compatibilityLevel"]
        earlier: list[SchemaVersion] = []
        if call.name == "register":
            if self.state.mode(subject) != "IMPORT":
                candidate = completed(candidate, config, self._latest(subject))
                earlier = self._compared(subject, level, candidate)
        elif call.name == "check":
            earlier = self._one_compared(call, level)
        elif call.name == "check_all":
            earlier = self._compared(subject, level, candidate)
        elif not self.state.has(subject, deleted=call.flag("deleted")):
            raise subject_not_found(subject)
        candidate = plain(candidate)
        asked = call.flag("normalize") or bool(config.get("normalize"))
        normalize = asked and self.state.mode(subject) != "IMPORT"
        candidate = candidate._replace(references=self._settled(candidate, in_order=normalize))
        new = Text(candidate.schema_type, candidate.schema, self.reading.references(candidate))
        compared = [Earlier(each.version, self.reading.text(each)) for each in earlier]
        return Case(Work(new, normalize, level, compared, candidate), candidate, self._basis(subject))

    def _settled(self, candidate: SchemaVersion, *, in_order: bool) -> tuple[Reference, ...]:
        """What a schema refers to from now on, also when the latest version of that is another one."""
        found = []
        for each in candidate.references:
            known = self.state.versions(qualified(context_of(candidate.subject), each.subject))
            is_settled = each.version != LATEST or not known
            found.append(each if is_settled else each._replace(version=known[-1].version))
        if in_order:
            found = sorted(set(found), key=lambda each: (each.subject, each.version, each.name))
        return tuple(found)

    def _basis(self, subject: str) -> tuple[Any, ...]:
        """What a verdict holds for: versions that were compared, and what is configured."""
        versions = tuple((each.version, each.id, each.deleted) for each in self.state.versions(subject, deleted=True))
        return versions, tuple(sorted(map(str, self.state.config(subject).items()))), self.state.mode(subject)

    def _latest(self, subject: str) -> SchemaVersion | None:
        versions = self.state.versions(subject)
        return versions[-1] if versions else None

    def _one_compared(self, call: Call, level: str) -> list[SchemaVersion]:
        """The version that a call names; none if that is the latest of a subject that has none."""
        subject, wanted = self.reading.subject(call), version_number(call.arguments["version"])
        if not self.state.has(subject):
            if wanted != LATEST:
                raise version_not_found(wanted)
            return []
        found = self.reading.one_version(call, deleted=False)
        return [] if level == "NONE" else [found]

    def _compared(self, subject: str, level: str, candidate: SchemaVersion) -> list[SchemaVersion]:
        if level == "NONE":
            return []
        versions = self.state.versions(subject)
        if group := self.state.config(subject).get("compatibilityGroup"):
            wanted = _property(candidate, group)
            versions = [each for each in versions if _property(each, group) == wanted]
        versions.reverse()
        return versions if level.endswith("_TRANSITIVE") else versions[:1]

    def _candidate(self, call: Call) -> SchemaVersion:
        subject, text = self.reading.subject(call), call.field("schema", str) or ""
        if call.name == "look_up":
            subject = self.reading.known_subject(call, deleted=call.flag("deleted"))
        rules = call.field("ruleSet", dict)
        if call.name == "register":
            check_name(subject)
            check_rules(rules)
        if not text.strip():
            return self._as_before(call, subject)
        schema_type = call.field("schemaType", str) or AVRO
        if schema_type not in TYPES:
            raise RegistryError(42201, f"Invalid schema type {schema_type}")
        try:
            references = tuple(map(referred, call.field("references", list) or ()))
        except (KeyError, TypeError, ValueError) as error:
            raise RegistryError(42201, f"Invalid reference: {error}") from None
        version, id_ = _positive(call, "version"), _positive(call, "id")
        return SchemaVersion(subject, version, id_, text, schema_type, references, call.field("metadata", dict), rules)

    def _as_before(self, call: Call, subject: str) -> SchemaVersion:
        """The latest schema once more, to be registered with other metadata or rules; raises RegistryError."""
        latest = self._latest(subject)
        if call.name != "register" or latest is None or self.state.mode(subject) == "IMPORT":
            raise RegistryError(42201, "Empty schema")
        return latest._replace(
            version=_positive(call, "version"),
            id=_positive(call, "id"),
            metadata=call.field("metadata", dict),
            rule_set=call.field("ruleSet", dict),
        )

    def decided(self, call: Call, case: Case, verdict: Verdict) -> Transition[Reply] | None:
        """Decide with a verdict; None if it is out of date: judge again. Raises RegistryError."""
        if self._basis(case.candidate.subject) != case.basis:
            return None
        if verdict.invalid:
            if call.name in ("check", "check_all") and call.flag("verbose"):
                return Transition(Reply(200, {"is_compatible": False, "messages": [verdict.invalid]}))
            raise RegistryError(42201, f"Invalid schema of type {case.candidate.schema_type}: {verdict.invalid}")
        candidate = case.candidate._replace(schema=verdict.schema)
        if call.name == "look_up":
            return Transition(Reply(200, self._looked_up(call, candidate, verdict.content)))
        if call.name == "register":
            return self._registered(candidate, verdict)
        answer: dict[str, Any] = {"is_compatible": not verdict.messages}
        if call.flag("verbose"):
            answer["messages"] = list(verdict.messages)
        return Transition(Reply(200, answer))

    def _looked_up(self, call: Call, candidate: SchemaVersion, content: bytes) -> dict[str, Any]:
        subject, deleted = candidate.subject, call.flag("deleted")
        same = self._same(subject, content, deleted=deleted)
        if same is None:  # it may have been registered with what it does not say itself
            whole = completed(candidate, self.state.config(subject), self._latest(subject))
            same = None if whole == candidate else self._same(subject, fingerprint(whole), deleted=deleted)
        if same is None:
            raise schema_not_found()
        return self.reading.shown(same)

    def _same(self, subject: str, content: bytes, *, deleted: bool) -> SchemaVersion | None:
        contents = self.state.contents
        versions = self.state.versions(subject, deleted=deleted)
        return next((each for each in reversed(versions) if contents[each.subject, each.version] == content), None)

    def _registered(self, candidate: SchemaVersion, verdict: Verdict) -> Transition[Reply]:
        content = verdict.content
        same = self._same(candidate.subject, content, deleted=False)
        if same is not None and candidate.id in (0, same.id) and candidate.version in (0, same.version):
            return Transition(Reply(200, _registered(same, content)))  # clients may always say what is there
        self._check_mode(candidate)
        existing = self.state.subjects.get(candidate.subject, {})
        following = max(existing, default=0) + 1
        imported = self.state.mode(candidate.subject) == "IMPORT"
        if not imported and candidate.version not in (0, following):
            raise RegistryError(42201, f"Version is not one more than previous version: {following} is")
        if verdict.messages:
            said = f'Schema being registered is incompatible with an earlier schema for subject "{candidate.subject}"'
            raise RegistryError(409, f"{said}, details: [{', '.join(verdict.messages)}]")
        context = context_of(candidate.subject)
        known = min(self.state.by_content.get((context, content), ()), default=None)
        id_ = candidate.id or known or self.state.max_ids.get(context, 0) + 1
        other = self.state.by_id(context, id_) if candidate.id else None
        if other is not None and self.state.contents[other.subject, other.version] != content:
            raise not_permitted(f"Overwrite new schema with id {id_} is not permitted.")
        version = candidate.version or following
        there = existing.get(version)
        if there is not None and (there.id, self.state.contents[there.subject, version]) != (id_, content):
            raise not_permitted(f"Overwrite version {version} of subject {candidate.subject} is not permitted.")
        if max(id_, version) > MAX_VERSION:
            raise not_permitted(f"Subject {candidate.subject} has no ids or versions above {MAX_VERSION}.")
        made = candidate._replace(id=id_, version=version)
        record = RegistryRecord(SchemaKey(made.subject, version), made)
        return Transition(Reply(200, _registered(made, content)), (record, *self._replaced(made)))

    def _replaced(self, made: SchemaVersion) -> tuple[RegistryRecord, ...]:
        """Deleted versions that come again as another one, unless something refers to them."""
        return tuple(
            RegistryRecord(SchemaKey(each.subject, each.version))
            for each in self.state.subjects.get(made.subject, {}).values()
            if each.deleted and each.id == made.id and each.version < made.version
            if next(self.state.referring(each.subject, each.version, deleted=True), None) is None
        )

    def _check_mode(self, candidate: SchemaVersion) -> None:
        mode = self.state.mode(candidate.subject)
        where = f"Subject {unqualified(candidate.subject)} in context {context_of(candidate.subject)}"
        if mode in ("READONLY", "READONLY_OVERRIDE", "FORWARD"):
            raise not_permitted(f"{where} is in read-only mode")
        if candidate.id and mode != "IMPORT":
            raise not_permitted(f"{where} is not in import mode")
        if mode == "IMPORT" and not candidate.id:
            raise not_permitted(f"{where} is in import mode")

    # -- deleting -------------------------------------------------------------------------------------

    def delete_subject(self, call: Call) -> Change:
        subject = self.reading.subject(call)
        self._check_writable(subject)
        everything = self.state.versions(subject, deleted=True)
        living = [each for each in everything if not each.deleted]
        if not everything:
            raise subject_not_found(subject)
        if call.flag("permanent"):
            if living:
                said = f"Subject '{subject}' was not deleted first before being permanently deleted"
                raise RegistryError(40405, said)
            self._check_references(everything, permanent=True, within=(subject,))
            return Transition([each.version for each in everything], self._removed(everything))
        if not living:
            raise RegistryError(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")
        self._check_references(living, permanent=False, within=(subject,))
        value = {"version": living[-1].version}
        settings = tuple(
            RegistryRecord(key)
            for key, table in ((ModeKey(subject), self.state.modes), (ConfigKey(subject), self.state.configs))
            if subject in table
        )
        record = RegistryRecord(DeleteSubjectKey(subject), value)
        return Transition([each.version for each in living], (record, *settings))

    def delete_version(self, call: Call) -> Change:
        subject = self.reading.subject(call)
        self._check_writable(subject)
        wanted = version_number(call.arguments["version"])
        permanent = call.flag("permanent")
        each = self.reading.one_version(call, deleted=permanent or wanted != -1)
        if permanent and not each.deleted:
            said = f"Subject '{subject}' Version {each.version} was not deleted first before being permanently deleted"
            raise RegistryError(40407, said)
        if each.deleted and not permanent:
            said = (
                f"Subject '{subject}' Version {each.version} was soft deleted.Set permanent=true to delete permanently"
            )
            raise RegistryError(40406, said)
        self._check_references([each], permanent=permanent)
        if permanent:
            return Transition(each.version, self._removed([each]))
        gone = each._replace(deleted=True)
        return Transition(each.version, (RegistryRecord(SchemaKey(subject, each.version), gone),))

    def _removed(self, versions: list[SchemaVersion]) -> tuple[RegistryRecord, ...]:
        """Forget versions, but not the highest id: what was given out once is never given out again."""
        highest = RegistryRecord(MaxIdsKey(), dict(self.state.max_ids))
        last_first = reversed(versions)  # of one subject the later ones may refer to the earlier ones
        return Divisible((highest, *(RegistryRecord(SchemaKey(each.subject, each.version)) for each in last_first)))

    def _check_writable(self, subject: str | None) -> None:
        if self.state.mode(subject) in ("READONLY", "READONLY_OVERRIDE", "FORWARD"):
            where = "The registry" if subject is None else f"Subject {unqualified(subject)}"
            raise not_permitted(f"{where} in context {context_of(subject or '')} is in read-only mode")

    def _check_references(
        self, versions: list[SchemaVersion], *, permanent: bool, within: Collection[str] = ()
    ) -> None:
        """What goes as well may refer to it, and so may what is deleted unless this is for good: it can be read."""
        for each in versions:
            referring = self.state.referring(each.subject, each.version, deleted=permanent)
            if any(other.subject not in within for other in referring):
                key = f"{{magic=1,keytype=SCHEMA,subject={each.subject},version={each.version}}}"
                raise RegistryError(42206, f"One or more references exist to the schema {key}.")

    # -- settings -------------------------------------------------------------------------------------

    def set_config(self, call: Call) -> Change:
        scope = scope_of(call)
        check_name(scope or "")
        self._check_writable(scope)
        level = call.field("compatibility", str)
        if level is not None and level.upper() not in LEVELS:
            levels = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
            raise RegistryError(42203, f"Invalid compatibility level. Valid values are {levels}")
        given = {name: value for name, kind in _CONFIGURED.items() if (value := call.field(name, kind)) is not None}
        for name in ("defaultRuleSet", "overrideRuleSet"):
            check_rules(given.get(name))
        if level is not None:
            given["compatibilityLevel"] = level.upper()
        value = {**self.state.configs.get(scope, {}), **given}
        said = call.body if isinstance(call.body, dict) else {}
        for name in [name for name, each in said.items() if each is None]:  # that is taken back
            value.pop("compatibilityLevel" if name == "compatibility" else name, None)
        answer = {("compatibility" if name == "compatibilityLevel" else name): each for name, each in value.items()}
        return Transition(answer, (RegistryRecord(ConfigKey(scope), value),))

    def delete_config(self, call: Call) -> Change:
        scope = scope_of(call)
        self._check_writable(scope)
        before = self.state.configs.get(scope)
        if before is None:
            if scope is None:
                return Transition(self.reading.config(call))
            raise subject_not_found(scope)
        return Transition(dict(before), (RegistryRecord(ConfigKey(scope)),))

    def set_mode(self, call: Call) -> Change:
        scope = scope_of(call)
        mode = (call.field("mode", str) or "").upper()
        if isinstance(call.body, dict) and call.body.get("mode", mode) is None:  # that is taken back
            return Transition({"mode": None}, (RegistryRecord(ModeKey(scope)),))
        if mode not in MODES:
            said = "READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, and FORWARD"
            raise RegistryError(42204, f"Invalid mode. Valid values are {said}")
        check_name(scope or "")
        record = RegistryRecord(ModeKey(scope), {"mode": mode})
        if mode != "IMPORT" or self.state.mode(scope) == mode or call.flag("force"):
            return Transition({"mode": mode}, (record,))
        subjects = self._subjects_of(scope)
        if any(self.state.has(subject) for subject in subjects):
            raise not_permitted("Cannot import since found existing subjects")
        gone = [each for subject in subjects for each in self.state.versions(subject, deleted=True)]
        if not gone:
            return Transition({"mode": mode}, (record,))
        self._check_references(gone, permanent=True, within=subjects)
        return Transition({"mode": mode}, Divisible((*self._removed(gone), record)))

    def _subjects_of(self, scope: str | None) -> Collection[str]:
        """The subjects that a mode is for: all, those of a context, or one."""
        if scope is None:
            return self.state.subjects.keys()
        if scope.startswith(":") and scope.endswith(":"):
            return {subject for subject in self.state.subjects if subject.startswith(scope)}
        return {scope}

    def delete_mode(self, call: Call) -> Change:
        scope, below = scope_of(call), self._modes_below(call)
        before = self.state.modes.get(scope)
        if before is None and scope is not None and not call.flag("recursive"):
            raise subject_not_found(scope)
        mode = self.state.mode(None) if before is None and scope is None else before
        gone = [scope, *below] if before is not None else below
        return Transition({"mode": mode}, tuple(RegistryRecord(ModeKey(each)) for each in gone))

    def _modes_below(self, call: Call) -> list[str]:
        """The subjects of the context that a call names which have modes of their own, if they are meant as well."""
        scope = scope_of(call)
        if not call.flag("recursive") or (scope is not None and unqualified(scope)):
            return []
        context, modes = context_of(scope or ""), sorted(each for each in self.state.modes if each is not None)
        return [each for each in modes if context_of(each) == context and unqualified(each)]


CHANGES: Final[Mapping[str, Callable[[Registry, Call], Change]]] = {
    name: getattr(Registry, name)
    for name in ("delete_subject", "delete_version", "set_config", "delete_config", "set_mode", "delete_mode")
}


def _registered(each: SchemaVersion, content: bytes) -> dict[str, Any]:
    return {"id": each.id, "version": each.version, "guid": guid_of(content)}


def _property(each: SchemaVersion, name: str) -> Any:
    return properties_of(each).get(name)


def check_name(subject: str) -> None:
    """Raise RegistryError for what is no name of a subject."""
    if unqualified(subject) in RESERVED or any(unicodedata.category(each) == "Cc" for each in subject):
        raise invalid_subject(subject)


def check_rules(rules: Mapping[str, Any] | None) -> None:
    """Raise RegistryError for rules that cannot be kept."""
    if fault := fault_of(rules):
        raise RegistryError(42210, f"Invalid rules: {fault}")


def _positive(call: Call, name: str) -> int:
    value = call.field(name, int) or 0
    if value in (-1, 0):
        return 0
    if not 0 < value <= MAX_VERSION:
        raise RegistryError(42200, f"{name} is not between 1 and {MAX_VERSION}")
    return int(value)
