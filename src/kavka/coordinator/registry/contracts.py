"""What a schema carries beside its text: metadata and rules, which versions take over from those before them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kavka.coordinator.registry.records import SchemaVersion

MIGRATION, DOMAIN, ENCODING = "migrationRules", "domainRules", "encodingRules"
MODES: Final = {
    MIGRATION: ("UPGRADE", "DOWNGRADE", "UPDOWN"),
    DOMAIN: ("WRITE", "READ", "WRITEREAD"),
    ENCODING: ("WRITE", "READ", "WRITEREAD"),
}
NAME: Final = re.compile(r"[^\W\d][\w-]{0,255}")

Said = Mapping[str, Any] | None


def completed(candidate: SchemaVersion, config: Mapping[str, Any], latest: SchemaVersion | None) -> SchemaVersion:
    """A schema with what it does not say itself: from the version before it, and what is configured."""
    metadata, rules = candidate.metadata, candidate.rule_set
    if latest is not None:
        metadata = latest.metadata if metadata is None else metadata
        rules = latest.rule_set if rules is None else rules
    metadata = _merged(_merged(config.get("defaultMetadata"), metadata), config.get("overrideMetadata"))
    rules = _merged(_merged(config.get("defaultRuleSet"), rules), config.get("overrideRuleSet"))
    return plain(candidate._replace(metadata=metadata, rule_set=rules))


def plain(candidate: SchemaVersion) -> SchemaVersion:
    """A schema as it is kept: what says nothing is left out."""
    return candidate._replace(metadata=candidate.metadata or None, rule_set=candidate.rule_set or None)


def _merged(before: Said, after: Said) -> Said:
    """Both, item by item: of what has the same name, and of rules with the same name, the latter one."""
    if before is None or after is None:
        return before if after is None else after
    return {**before, **{name: _joined(before.get(name), value) for name, value in after.items()}}


def _joined(before: Any, after: Any) -> Any:
    if not before or not after:
        return after or before
    if isinstance(before, dict) and isinstance(after, dict):
        return {**before, **after}
    if isinstance(before, list) and isinstance(after, list):
        names = [_name(each) for each in after]
        return [*(each for each in before if _name(each) not in names), *after]
    return after


def _name(said: Any) -> Any:
    """By what an item of a list is known: the name of a rule, or what it says itself."""
    return said.get("name") if isinstance(said, dict) else said


def has_rules(each: SchemaVersion, kind: str) -> bool:
    """Whether a version has rules of some type."""
    found = [rule for part in MODES for rule in (each.rule_set or {}).get(part) or ()]
    return any(isinstance(rule, dict) and rule.get("type") == kind for rule in found)


def fault_of(rules: Mapping[str, Any] | None) -> str:
    """What is wrong with a set of rules; nothing if it may be kept."""
    known: set[str] = set()
    for part, modes in MODES.items():
        listed = (rules or {}).get(part) or []
        if not isinstance(listed, list) or not all(isinstance(rule, dict) for rule in listed):
            return f"{part} is no list of rules"
        for rule in listed:
            name, mode = rule.get("name"), rule.get("mode") or "WRITEREAD"
            if not isinstance(name, str) or not NAME.fullmatch(name):
                return f"a rule of {part} has no name, or one that is none: {name!r:.80}"
            if name in known:
                return f"there are several rules of the name '{name}'"
            if not isinstance(rule.get("type"), str):
                return f"rule '{name}' has no type"
            if mode not in modes:
                return f"rule '{name}' of {part} has the mode {mode!r:.40}: only {', '.join(modes)} are"
            known.add(name)
    return ""
