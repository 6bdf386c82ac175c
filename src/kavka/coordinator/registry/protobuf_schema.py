"""Protobuf schemas: files in the language of protoc, or serialized file descriptors, and one text for both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kavka.coordinator.registry.protobuf import Enum, Field, File, Message, Options
from kavka.coordinator.registry.protobuf_descriptor import described, descriptor
from kavka.coordinator.registry.protobuf_names import resolve
from kavka.coordinator.registry.protobuf_parser import parsed
from kavka.coordinator.registry.schema import NO_REFERENCES


class ProtobufSchema:
    """A file with all that it imports."""

    def __init__(self, file: File, imported: Mapping[str, File]) -> None:
        self.file = file
        self.imported = imported

    @property
    def canonical(self) -> str:
        """The file as it is written here, whatever it was given as."""
        return "\n".join(_lines(self.file, sort=False)) + "\n"

    @property
    def serialized(self) -> str:
        """The file as a descriptor in base64."""
        return descriptor(self.file, self.imported)

    @property
    def normalized(self) -> str:
        """The same for files that differ only in the order of imports, options and fields."""
        return "\n".join(_lines(self.file, sort=True)) + "\n"


def parse(text: str, references: Mapping[str, str] = NO_REFERENCES) -> ProtobufSchema:
    """Read a file, given those it imports by name; raises SchemaError."""
    imported = {name: read(each) for name, each in references.items()}
    file = read(text)
    resolve(file, imported)
    return ProtobufSchema(file, imported)


def read(text: str) -> File:
    """A file out of its text or out of a descriptor in base64; raises SchemaError."""
    return described(text) or parsed(text)


# -- writing ------------------------------------------------------------------------------------------


def _lines(file: File, *, sort: bool) -> Iterator[str]:
    yield f'syntax = "{file.syntax}";'
    if file.package:
        yield f"package {file.package};"
    imports = sorted(file.imports, key=lambda each: each[1]) if sort else file.imports
    if imports:
        yield ""
        yield from (f'import {kind + " " if kind else ""}"{name}";' for kind, name in imports)
    if file.options:
        yield ""
        yield from _options(file.options, "", sort)
    for message in file.messages:
        yield ""
        yield from _message(message, "", sort)
    for enum in file.enums:
        yield ""
        yield from _enum(enum, "", sort)
    for each in file.verbatim:
        yield ""
        yield each


def _options(options: Options, indent: str, sort: bool) -> Iterator[str]:
    for name, value in sorted(options.items()) if sort else options.items():
        yield f"{indent}option {name} = {value};"


def _message(message: Message, indent: str, sort: bool) -> Iterator[str]:
    yield f"{indent}message {message.name} {{"
    deeper = indent + "  "
    yield from _options(message.options, deeper, sort)
    yield from (f"{deeper}reserved {each};" for each in message.reserved)
    yield from (f"{deeper}extensions {each};" for each in message.extensions)
    fields = sorted(message.fields, key=lambda each: each.number) if sort else message.fields
    yield from (_field(each, deeper, sort) for each in fields if not each.oneof)
    members: dict[str, list[Field]] = {}
    for each in fields:
        members.setdefault(each.oneof, []).append(each)
    for oneof in message.oneofs:
        yield f"{deeper}oneof {oneof} {{"
        yield from _options(message.oneof_options.get(oneof, {}), deeper + "  ", sort)
        yield from (_field(each, deeper + "  ", sort) for each in members.get(oneof, ()))
        yield f"{deeper}}}"
    for nested in message.messages:
        yield from _message(nested, deeper, sort)
    for enum in message.enums:
        yield from _enum(enum, deeper, sort)
    yield from (f"{deeper}{each}" for each in message.verbatim)
    yield f"{indent}}}"


def _field(each: Field, indent: str, sort: bool) -> str:
    type_ = f"map<{each.map_key}, {each.type}>" if each.map_key else each.type
    label = f"{each.label} " if each.label and not each.map_key else ""
    return f"{indent}{label}{type_} {each.name} = {each.number}{_in_brackets(each.options, sort)};"


def _in_brackets(options: Options, sort: bool) -> str:
    said = ", ".join(f"{name} = {value}" for name, value in (sorted(options.items()) if sort else options.items()))
    return f" [{said}]" if said else ""


def _enum(enum: Enum, indent: str, sort: bool) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    yield from _options(enum.options, indent + "  ", sort)
    yield from (f"{indent}  reserved {each};" for each in enum.reserved)
    for name, number in sorted(enum.values, key=lambda each: each[1]) if sort else enum.values:
        yield f"{indent}  {name} = {number}{_in_brackets(enum.value_options.get(name, {}), sort)};"
    yield f"{indent}}}"
