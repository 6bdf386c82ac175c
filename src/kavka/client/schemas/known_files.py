"""Protobuf files that every registry has, so that schemas import them without referring to them."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

KNOWN: Final = ("google/protobuf/", "google/type/", "confluent/")
"""What their names begin with."""

_BYTES, _STRING, _UINT32, _INT32, _MESSAGE = (
    FieldDescriptorProto.TYPE_BYTES,
    FieldDescriptorProto.TYPE_STRING,
    FieldDescriptorProto.TYPE_UINT32,
    FieldDescriptorProto.TYPE_INT32,
    FieldDescriptorProto.TYPE_MESSAGE,
)


def known_file(name: str) -> FileDescriptorProto:
    """One of them by its name; raises ImportError if it is not there."""
    if name.startswith("confluent/"):
        return _of_confluent(name)
    module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    found = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(found)
    return found


def _of_confluent(name: str) -> FileDescriptorProto:
    file = FileDescriptorProto(name=name, syntax="proto3", package="confluent.type")
    match name:
        case "confluent/meta.proto":  # its options mean nothing to values, and are passed over
            file.package = "confluent"
            meta = file.message_type.add(name="Meta")
            _fields(meta, doc=_STRING)
            entry = meta.nested_type.add(name="ParamsEntry")
            entry.options.map_entry = True
            _fields(entry, key=_STRING, value=_STRING)
            type_name, repeated = ".confluent.Meta.ParamsEntry", FieldDescriptorProto.LABEL_REPEATED
            meta.field.add(name="params", number=2, type=_MESSAGE, type_name=type_name, label=repeated)
            meta.field.add(name="tags", number=3, type=_STRING, label=repeated)
        case "confluent/type/decimal.proto":
            _fields(file.message_type.add(name="Decimal"), value=_BYTES, precision=_UINT32, scale=_INT32)
        case "confluent/type/variant.proto":
            _fields(file.message_type.add(name="Variant"), metadata=_BYTES, value=_BYTES)
        case _:
            raise ImportError(f"{name} is not known here")
    return file


def _fields(message: DescriptorProto, **types: FieldDescriptorProto.Type.ValueType) -> None:
    for number, (name, type_) in enumerate(types.items(), start=1):
        message.field.add(name=name, number=number, type=type_, label=FieldDescriptorProto.LABEL_OPTIONAL)
