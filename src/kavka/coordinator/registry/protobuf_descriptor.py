"""Serialized file descriptors: what protoc makes of a file, as clients send and ask for it in base64."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kavka.coordinator.registry.protobuf import SCALARS, Enum, Field, File, Message, Options
from kavka.coordinator.registry.protobuf_names import ENUMS_OF_KNOWN, definitions

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

_LABELS: Final = {1: "optional", 2: "required", 3: "repeated"}
_CODES: Final = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_SCALARS: Final = {code: name for name, code in _CODES.items()}
_MESSAGE: Final = 11
_ENUM: Final = 14


def described(text: str) -> File | None:
    """The file that a descriptor in base64 is of; None for what is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        data = base64.b64decode(text.strip(), validate=True)
        found = FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
    return _file(found) if data else None


def _file(found: FileDescriptorProto) -> File:
    imports = [
        ("public" if number in found.public_dependency else "weak" if number in found.weak_dependency else "", name)
        for number, name in enumerate(found.dependency)
    ]
    return File(
        found.syntax or "proto2",
        found.package,
        imports,
        _options(found),
        [_message(each, found.syntax) for each in found.message_type],
        [_enum(each) for each in found.enum_type],
    )


def _options(found: Any) -> Options:
    options: Options = {}
    for descriptor, value in found.options.ListFields():
        if descriptor.is_extension or descriptor.name == "map_entry":
            continue
        if descriptor.type == descriptor.TYPE_BOOL:
            options[descriptor.name] = "true" if value else "false"
        elif descriptor.type == descriptor.TYPE_STRING:
            options[descriptor.name] = json.dumps(value)
        elif descriptor.type == descriptor.TYPE_ENUM and not descriptor.is_repeated:
            options[descriptor.name] = descriptor.enum_type.values_by_number[value].name
    return options


def _message(found: DescriptorProto, syntax: str) -> Message:
    entries = {each.name: each for each in found.nested_type if each.options.map_entry}
    made = Message(found.name, options=_options(found))
    made.messages = [_message(each, syntax) for each in found.nested_type if each.name not in entries]
    made.enums = [_enum(each) for each in found.enum_type]
    synthetic = {each.oneof_index for each in found.field if each.proto3_optional}
    made.oneofs = [each.name for number, each in enumerate(found.oneof_decl) if number not in synthetic]
    for each in found.field:
        entry = entries.get(each.type_name.rpartition(".")[2]) if each.type == _MESSAGE else None
        made.fields.append(_field(each, found, syntax) if entry is None else _map(each, entry))
    ranges = [_range(each.start, each.end - 1) for each in found.reserved_range]
    made.reserved = [", ".join(ranges)] if ranges else []
    if found.reserved_name:
        made.reserved.append(", ".join(json.dumps(each) for each in found.reserved_name))
    extended = [_range(each.start, each.end - 1) for each in found.extension_range]
    made.extensions = [", ".join(extended)] if extended else []
    return made


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last >= (1 << 29) - 1 else last}"


def _type(found: FieldDescriptorProto) -> str:
    return _SCALARS.get(found.type) or found.type_name


def _field(found: FieldDescriptorProto, within: DescriptorProto, syntax: str) -> Field:
    oneof = ""
    if found.HasField("oneof_index") and not found.proto3_optional:
        oneof = within.oneof_decl[found.oneof_index].name
    label = _LABELS[found.label]
    if oneof or (syntax == "proto3" and label == "optional" and not found.proto3_optional):
        label = ""
    options = _options(found)
    if found.HasField("default_value"):
        is_text = found.type in (_CODES["string"], _CODES["bytes"])
        options["default"] = json.dumps(found.default_value) if is_text else found.default_value
    if found.HasField("json_name") and found.json_name != _json_name(found.name):
        options["json_name"] = json.dumps(found.json_name)
    return Field(found.name, found.number, _type(found), label, oneof, options=options)


def _map(found: FieldDescriptorProto, entry: DescriptorProto) -> Field:
    key, value = sorted(entry.field, key=lambda each: each.number)
    return Field(found.name, found.number, _type(value), "repeated", map_key=_type(key), options=_options(found))


def _json_name(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(each[:1].upper() + each[1:] for each in rest)


def _enum(found: EnumDescriptorProto) -> Enum:
    made = Enum(found.name, [(each.name, each.number) for each in found.value], _options(found))
    ranges = [_range(each.start, each.end) for each in found.reserved_range]
    made.reserved = [", ".join(ranges)] if ranges else []
    return made


# -- and back -----------------------------------------------------------------------------------------


def descriptor(file: File, imported: Mapping[str, File]) -> str:
    """A file whose names are resolved, as a descriptor in base64."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    made = FileDescriptorProto(name="default", package=file.package)
    if file.syntax != "proto2":
        made.syntax = file.syntax
    for number, (kind, name) in enumerate(file.imports):
        made.dependency.append(name)
        if kind:
            getattr(made, f"{kind}_dependency").append(number)
    enums = ENUMS_OF_KNOWN.union(
        full for each in (file, *imported.values()) for full, it in definitions(each) if isinstance(it, Enum)
    )
    prefix = f".{file.package}" if file.package else ""
    for message in file.messages:
        _put_message(made.message_type.add(), message, f"{prefix}.{message.name}", enums, file.syntax)
    for enum in file.enums:
        _put_enum(made.enum_type.add(), enum)
    return base64.b64encode(made.SerializeToString()).decode()


def _put_message(made: DescriptorProto, message: Message, full: str, enums: frozenset[str], syntax: str) -> None:
    made.name = message.name
    for oneof in message.oneofs:
        made.oneof_decl.add().name = oneof
    for each in message.fields:
        _put_field(made, each, full, enums, syntax)
    for nested in message.messages:
        _put_message(made.nested_type.add(), nested, f"{full}.{nested.name}", enums, syntax)
    for enum in message.enums:
        _put_enum(made.enum_type.add(), enum)


def _put_field(made: DescriptorProto, each: Field, full: str, enums: frozenset[str], syntax: str) -> None:
    put = made.field.add(name=each.name, number=each.number, json_name=_json_name(each.name))
    put.label = {"required": 2, "repeated": 3}.get(each.label, 1)  # type: ignore[assignment]
    if each.map_key:
        entry = made.nested_type.add(name=f"{_camel(each.name)}Entry")
        entry.options.map_entry = True
        for name, number, type_ in (("key", 1, each.map_key), ("value", 2, each.type)):
            _put_type(entry.field.add(name=name, number=number, label=1, json_name=name), type_, enums)
        put.type, put.type_name = _MESSAGE, f"{full}.{entry.name}"  # type: ignore[assignment]
        return
    _put_type(put, each.type, enums)
    if each.oneof:
        put.oneof_index = [oneof.name for oneof in made.oneof_decl].index(each.oneof)
    elif syntax == "proto3" and each.label == "optional":
        put.proto3_optional = True
        put.oneof_index = len(made.oneof_decl)
        made.oneof_decl.add().name = f"_{each.name}"
    if "default" in each.options:
        put.default_value = each.options["default"].strip('"')
    if "packed" in each.options:
        put.options.packed = each.options["packed"] == "true"


def _put_type(put: FieldDescriptorProto, name: str, enums: frozenset[str]) -> None:
    if name in SCALARS:
        put.type = _CODES[name]  # type: ignore[assignment]
    else:
        put.type, put.type_name = (_ENUM if name in enums else _MESSAGE), name  # type: ignore[assignment]


def _camel(name: str) -> str:
    return "".join(each[:1].upper() + each[1:] for each in name.split("_"))


def _put_enum(made: EnumDescriptorProto, enum: Enum) -> None:
    made.name = enum.name
    for name, number in enum.values:
        made.value.add(name=name, number=number)
    if enum.options.get("allow_alias") == "true":
        made.options.allow_alias = True
