"""Kafka's own message descriptors, read out of its jars, and ours brought to the same form, so that they compare.

What has no effect is left out of that form: versions outside of those that a message has; whether a field that every
version has may be ignored; the names of nested structs.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kavka.model.types import Uuid
from kavka.protocol.schema import (
    FRESH,
    OWN_TAGS,
    Array,
    Declared,
    Struct,
    common_versions,
    declared,
    fields_of,
    parse_versions,
)

DESCRIPTOR = re.compile(r"(?:common/(?:message|metadata)|message)/\w+\.json")
ZEROS: dict[str, object] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": Uuid.ZERO,
    "float64": 0.0,
}


class FieldForm(NamedTuple):
    """A field as both sides describe it."""

    name: str
    type: str  # "struct" for nested ones, which follow in `fields`
    versions: range
    nullable: range
    tag: int | None
    ignorable: bool | None  # None where every version has the field
    default: object
    fields: tuple[FieldForm, ...]


class MessageForm(NamedTuple):
    """A message as both sides describe it."""

    key: int
    versions: range
    flexible: range
    latest_version_unstable: bool
    fields: tuple[FieldForm, ...]


def read_descriptors(jars: Path) -> dict[str, dict[str, Any]]:
    """Every descriptor in a folder of jars, by the name of its message, and with the path it was found at."""
    found: dict[str, dict[str, Any]] = {}
    for jar in sorted(jars.rglob("*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if DESCRIPTOR.fullmatch(name):
                    descriptor = parse_descriptor(archive.read(name).decode())
                    found[descriptor["name"]] = descriptor | {"path": name}
    return found


def parse_descriptor(text: str) -> dict[str, Any]:
    """Kafka's descriptors are JSON with lines of comment."""
    parsed: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return parsed


def kafka_form(descriptor: dict[str, Any]) -> MessageForm:
    """A descriptor's message."""
    valid = parse_versions(descriptor["validVersions"])
    common = {struct["name"]: struct for struct in descriptor.get("commonStructs", ())}
    return MessageForm(
        key=descriptor.get("apiKey", -1),
        versions=valid,
        flexible=common_versions(parse_versions(descriptor["flexibleVersions"]), valid),
        latest_version_unstable=bool(descriptor.get("latestVersionUnstable", False)),
        fields=tuple(_kafka_fields(descriptor["fields"], valid, common)),
    )


def our_form(cls: type) -> MessageForm:
    """The message that a class declares."""
    api: Declared = declared(cls)
    return MessageForm(
        key=api.key,
        versions=api.versions,
        flexible=common_versions(api.flexible, api.versions),
        latest_version_unstable=api.latest_version_unstable,
        fields=tuple(_our_fields(cls, api.versions)),
    )


def differences(ours: MessageForm, kafkas: MessageForm, where: str) -> list[str]:
    """What the two say differently, one line each."""
    found = [
        f"{where}.{name}: ours {mine!r}, Kafka's {theirs!r}"
        for name, mine, theirs in zip(MessageForm._fields[:-1], ours[:-1], kafkas[:-1], strict=True)
        if mine != theirs
    ]
    return found + _field_differences(ours.fields, kafkas.fields, where)


def snake(name: str) -> str:
    """A descriptor's name in the form that ours have."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


def _field_differences(ours: tuple[FieldForm, ...], kafkas: tuple[FieldForm, ...], where: str) -> list[str]:
    names, their_names = [field.name for field in ours], [field.name for field in kafkas]
    if names != their_names:
        return [f"{where}: ours has the fields {names}, Kafka's {their_names}"]
    found = []
    for mine, theirs in zip(ours, kafkas, strict=True):
        path = f"{where}.{mine.name}"
        found += [
            f"{path}: {aspect} is {one!r} in ours, {other!r} in Kafka's"
            for aspect, one, other in zip(FieldForm._fields[:-1], mine[:-1], theirs[:-1], strict=True)
            if one != other or type(one) is not type(other)
        ]
        found += _field_differences(mine.fields, theirs.fields, path)
    return found


def _kafka_fields(fields: list[dict[str, Any]], owner: range, common: dict[str, Any]) -> Iterator[FieldForm]:
    for field in fields:
        versions = common_versions(parse_versions(field.get("versions") or field["taggedVersions"]), owner)
        if not versions:
            continue  # only versions that the message no longer has
        element = field["type"].removeprefix("[]")
        is_array, is_struct = element != field["type"], element[0].isupper()
        inner = common.get(element, field)["fields"] if is_struct else []
        tagged = common_versions(parse_versions(field.get("taggedVersions", "none")), versions)
        assert not tagged or tagged == versions, f"{field['name']} is tagged at some of its versions only"
        yield FieldForm(
            name=snake(field["name"]),
            type=("[]" if is_array else "") + ("struct" if is_struct else element),
            versions=versions,
            nullable=common_versions(parse_versions(field.get("nullableVersions", "none")), versions),
            tag=field["tag"] if tagged else None,
            ignorable=bool(field.get("ignorable", False)) if versions != owner else None,
            default=_kafka_default(field, element, is_array or is_struct),
            fields=tuple(_kafka_fields(inner, versions, common)),
        )


def _kafka_default(field: dict[str, Any], element: str, composite: bool) -> object:
    given = field.get("default")
    if given == "null":
        return None
    if composite:
        return FRESH
    if given is None:
        return ZEROS.get(element, 0)
    if element == "bool":
        return str(given).lower() == "true"
    if element == "string":
        return given
    return float(given) if element == "float64" else int(str(given), 0)


def _our_fields(cls: type, owner: range) -> Iterator[FieldForm]:
    for field in fields_of(cls):
        versions = common_versions(field.versions, owner)
        element = field.type.element if isinstance(field.type, Array) else field.type
        if field.tag is not None and field.tag >= OWN_TAGS:
            continue  # Kafka passes over it
        assert versions, f"{cls.__name__}.{field.name} is in no version"
        yield FieldForm(
            name=field.name,
            type=("[]" if isinstance(field.type, Array) else "")
            + ("struct" if isinstance(element, Struct) else element.name),
            versions=versions,
            nullable=common_versions(field.nullable, owner),
            tag=field.tag,
            ignorable=field.ignorable if versions != owner else None,
            default=field.implied,
            fields=tuple(_our_fields(element.cls, versions)) if isinstance(element, Struct) else (),
        )
