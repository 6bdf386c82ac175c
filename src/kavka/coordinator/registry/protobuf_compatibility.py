"""Whether what one protobuf file wrote can be read by another: by numbers of fields, as the bytes have them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from kavka.coordinator.registry.comparing import MAX_DIFFERENCES
from kavka.coordinator.registry.protobuf import SCALARS, Enum, Field, Message
from kavka.coordinator.registry.protobuf_names import ENUMS_OF_KNOWN, definitions
from kavka.coordinator.registry.protobuf_schema import ProtobufSchema
from kavka.coordinator.registry.schema import Difference

_ALIKE: Final = (
    frozenset({"int32", "uint32", "int64", "uint64", "bool", "enum"}),
    frozenset({"sint32", "sint64"}),
    frozenset({"string", "bytes"}),
    frozenset({"fixed32", "sfixed32"}),
    frozenset({"fixed64", "sfixed64"}),
)
"""Kinds of values that are written alike."""


def differences(reader: ProtobufSchema, writer: ProtobufSchema) -> list[Difference]:
    """Why a reader cannot read what a writer wrote; nothing if it can."""
    return list(islice(_Comparison(reader, writer).compare(), MAX_DIFFERENCES))


class _Comparison:
    def __init__(self, reader: ProtobufSchema, writer: ProtobufSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._mine = _types(reader)
        self._theirs = _types(writer)
        self._local = dict(definitions(writer.file)).keys()
        self._within: set[tuple[str, str]] = set()

    def compare(self) -> Iterator[Difference]:
        if self._reader.file.package != self._writer.file.package:
            said = f"the package was {self._writer.file.package!r} and is {self._reader.file.package!r} now"
            yield _difference("PACKAGE_CHANGED", "", said)
            return
        mine = dict(definitions(self._reader.file))
        for name, theirs in definitions(self._writer.file):
            if isinstance(theirs, Message):
                found = mine.get(name)
                if not isinstance(found, Message):
                    yield _difference("MESSAGE_REMOVED", self._path(name), "the message is not there any more")
                else:
                    yield from self._messages(found, theirs, name)

    def _path(self, name: str) -> str:
        package = f".{self._reader.file.package}" if self._reader.file.package else ""
        return name.removeprefix(package).replace(".", "/").removeprefix("/")

    # -- messages -------------------------------------------------------------------------------------

    def _messages(self, mine: Message, theirs: Message, name: str) -> Iterator[Difference]:
        path = self._path(name)
        read = {each.number: each for each in mine.fields}
        for number, written in sorted((each.number, each) for each in theirs.fields):
            here = f"{path}/{number}"
            each = read.get(number)
            if each is not None:
                yield from self._fields(each, written, here)
            elif written.label == "required":
                yield _difference("REQUIRED_FIELD_REMOVED", here, f"the required field {written.name} is gone")
            elif written.oneof:
                said = f"the field {written.name} is gone from the oneof {written.oneof}"
                yield _difference("ONEOF_FIELD_REMOVED", f"{path}/{written.oneof}/{number}", said)
        known = {each.number for each in theirs.fields}
        for each in mine.fields:
            if each.label == "required" and each.number not in known:
                said = f"the required field {each.name} was not written before"
                yield _difference("REQUIRED_FIELD_ADDED", f"{path}/{each.number}", said)
        yield from _oneofs(mine, theirs, path)

    def _fields(self, mine: Field, theirs: Field, path: str) -> Iterator[Difference]:
        if (mine.label == "required") != (theirs.label == "required"):
            kind = "REQUIRED_FIELD_ADDED" if mine.label == "required" else "REQUIRED_FIELD_REMOVED"
            yield _difference(kind, path, f"the field {mine.name} is {mine.label or 'optional'} now")
        if bool(mine.map_key) != bool(theirs.map_key):
            if not self._is_entry(mine, theirs):
                yield _difference("FIELD_KIND_CHANGED", path, f"the field {mine.name} is or was a map")
            return
        if mine.map_key and not _alike(mine.map_key, theirs.map_key):
            said = f"the keys of {mine.name} were {theirs.map_key} and are {mine.map_key} now"
            yield _difference("FIELD_SCALAR_KIND_CHANGED", path, said)
        yield from self._kinds(mine, theirs, path)

    def _is_entry(self, mine: Field, theirs: Field) -> bool:
        """Whether one of two fields is a map and the other the list of its entries."""
        one, other, types = (mine, theirs, self._theirs) if mine.map_key else (theirs, mine, self._mine)
        entry = types.get(other.type)
        if other.label != "repeated" or not isinstance(entry, Message):
            return False
        by_number = {each.number: each.type for each in entry.fields}
        return by_number.keys() <= {1, 2} and _alike(by_number.get(1, one.map_key), one.map_key)

    def _kinds(self, mine: Field, theirs: Field, path: str) -> Iterator[Difference]:
        my_kind, their_kind = _kind(mine.type, self._mine), _kind(theirs.type, self._theirs)
        if (my_kind == "message") != (their_kind == "message"):
            said = f"the field {mine.name} was {theirs.type} and is {mine.type} now"
            yield _difference("FIELD_KIND_CHANGED", path, said)
        elif my_kind == "message":
            yield from self._named(mine, theirs, path)
        elif not _alike(my_kind, their_kind):
            said = f"the field {mine.name} was {theirs.type} and is {mine.type} now"
            yield _difference("FIELD_SCALAR_KIND_CHANGED", path, said)
        elif (mine.label == "repeated") != (theirs.label == "repeated") and my_kind not in ("string", "bytes"):
            said = f"the field {mine.name} is or was repeated"
            yield _difference("FIELD_NUMERIC_LABEL_CHANGED", path, said)

    def _named(self, mine: Field, theirs: Field, path: str) -> Iterator[Difference]:
        """Messages of one file go by their names; those of others by what is in them."""
        if mine.type == theirs.type and theirs.type in self._local:
            return  # it is compared for itself
        read, written = self._mine.get(mine.type), self._theirs.get(theirs.type)
        if not isinstance(read, Message) or not isinstance(written, Message):
            if mine.type != theirs.type:
                said = f"the type of {mine.name} was {theirs.type[1:]} and is {mine.type[1:]} now"
                yield _difference("FIELD_NAMED_TYPE_CHANGED", path, said)
            return
        pair = mine.type, theirs.type
        if pair in self._within:
            return
        self._within.add(pair)
        found = list(self._messages(read, written, mine.type))
        if found or _short(mine.type) != _short(theirs.type):
            said = f"the type of {mine.name} was {theirs.type[1:]} and is {mine.type[1:]} now"
            yield _difference("FIELD_NAMED_TYPE_CHANGED", path, said)
        yield from found


def _oneofs(mine: Message, theirs: Message, path: str) -> Iterator[Difference]:
    """Fields that exclude each other now and did not before: what was written last would drop what was before it."""
    was = {each.number: each.oneof for each in theirs.fields}
    members: dict[str, dict[int, str]] = {}
    for each in mine.fields:
        if each.oneof and each.number in was:
            members.setdefault(each.oneof, {})[each.number] = was[each.number]
    for oneof in mine.oneofs:
        moved = members.get(oneof, {})
        sources = set(moved.values())
        if len(moved) < 2 or (len(sources) == 1 and "" not in sources):
            continue
        if sources == {""}:
            said = f"the fields {sorted(moved)} exclude each other now"
            yield _difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{oneof}", said)
        else:
            said = f"the fields {sorted(moved)} exclude each other now"
            yield _difference("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{oneof}", said)


def _types(schema: ProtobufSchema) -> dict[str, Message | Enum]:
    found: dict[str, Message | Enum] = {}
    for file in (*schema.imported.values(), schema.file):
        found.update(definitions(file))
    return found


def _kind(name: str, types: dict[str, Message | Enum]) -> str:
    if name in SCALARS:
        return name
    return "enum" if isinstance(types.get(name), Enum) or name in ENUMS_OF_KNOWN else "message"


def _alike(one: str, other: str) -> bool:
    return one == other or any(one in kinds and other in kinds for kinds in _ALIKE)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _difference(kind: str, path: str, said: str) -> Difference:
    return Difference(kind, f"#/{path}", f"at path '#/{path}': {said}")
