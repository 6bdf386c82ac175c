"""What the names of types in a file mean: the rules of scopes, over the file and what it imports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kavka.coordinator.registry.protobuf import SCALARS, Enum, File, Message
from kavka.coordinator.registry.schema import SchemaError

KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "google/protobuf/any.proto": (".google.protobuf.Any",),
    "google/protobuf/api.proto": (".google.protobuf.Api", ".google.protobuf.Method", ".google.protobuf.Mixin"),
    "google/protobuf/duration.proto": (".google.protobuf.Duration",),
    "google/protobuf/empty.proto": (".google.protobuf.Empty",),
    "google/protobuf/field_mask.proto": (".google.protobuf.FieldMask",),
    "google/protobuf/source_context.proto": (".google.protobuf.SourceContext",),
    "google/protobuf/struct.proto": (
        ".google.protobuf.Struct", ".google.protobuf.Value", ".google.protobuf.ListValue",
        ".google.protobuf.NullValue",
    ),
    "google/protobuf/timestamp.proto": (".google.protobuf.Timestamp",),
    "google/protobuf/type.proto": (
        ".google.protobuf.Type", ".google.protobuf.Field", ".google.protobuf.Enum", ".google.protobuf.EnumValue",
        ".google.protobuf.Option", ".google.protobuf.Syntax",
    ),
    "google/protobuf/wrappers.proto": tuple(
        f".google.protobuf.{each}Value"
        for each in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
    ),
    "google/type/calendar_period.proto": (".google.type.CalendarPeriod",),
    "google/type/color.proto": (".google.type.Color",),
    "google/type/date.proto": (".google.type.Date",),
    "google/type/datetime.proto": (".google.type.DateTime", ".google.type.TimeZone"),
    "google/type/dayofweek.proto": (".google.type.DayOfWeek",),
    "google/type/decimal.proto": (".google.type.Decimal",),
    "google/type/expr.proto": (".google.type.Expr",),
    "google/type/fraction.proto": (".google.type.Fraction",),
    "google/type/interval.proto": (".google.type.Interval",),
    "google/type/latlng.proto": (".google.type.LatLng",),
    "google/type/money.proto": (".google.type.Money",),
    "google/type/month.proto": (".google.type.Month",),
    "google/type/phone_number.proto": (".google.type.PhoneNumber", ".google.type.PhoneNumber.ShortCode"),
    "google/type/postal_address.proto": (".google.type.PostalAddress",),
    "google/type/quaternion.proto": (".google.type.Quaternion",),
    "google/type/timeofday.proto": (".google.type.TimeOfDay",),
    "google/protobuf/descriptor.proto": tuple(
        f".google.protobuf.{each}"
        for each in (
            "FileDescriptorSet", "FileDescriptorProto", "DescriptorProto", "FieldDescriptorProto",
            "OneofDescriptorProto", "EnumDescriptorProto", "EnumValueDescriptorProto", "ServiceDescriptorProto",
            "MethodDescriptorProto", "FileOptions", "MessageOptions", "FieldOptions", "OneofOptions", "EnumOptions",
            "EnumValueOptions", "ServiceOptions", "MethodOptions", "ExtensionRangeOptions", "UninterpretedOption",
            "SourceCodeInfo", "GeneratedCodeInfo", "FieldDescriptorProto.Type", "FieldDescriptorProto.Label",
        )
    ),
    "confluent/meta.proto": (".confluent.Meta",),
    "confluent/type/decimal.proto": (".confluent.type.Decimal",),
    "confluent/type/variant.proto": (".confluent.type.Variant",),
}  # fmt: skip
"""Files that every registry has, and the types in them."""

ENUMS_OF_KNOWN: Final = frozenset(
    {
        ".google.protobuf.NullValue", ".google.protobuf.Syntax", ".google.protobuf.FieldDescriptorProto.Type",
        ".google.protobuf.FieldDescriptorProto.Label", ".google.type.CalendarPeriod", ".google.type.DayOfWeek",
        ".google.type.Month",
    }
)  # fmt: skip


def definitions(file: File) -> Iterator[tuple[str, Message | Enum]]:
    """Every message and enum of a file by its full name."""
    prefix = f".{file.package}" if file.package else ""
    for enum in file.enums:
        yield f"{prefix}.{enum.name}", enum
    for message in file.messages:
        yield from _within(message, prefix)


def _within(message: Message, prefix: str) -> Iterator[tuple[str, Message | Enum]]:
    name = f"{prefix}.{message.name}"
    yield name, message
    for enum in message.enums:
        yield f"{name}.{enum.name}", enum
    for nested in message.messages:
        yield from _within(nested, name)


def resolve(file: File, imported: Mapping[str, File]) -> None:
    """Put full names in the place of those that were written; raises SchemaError for what is not there."""
    known: set[str] = set()
    for _, name in file.imports:
        if name not in imported and name not in KNOWN:
            raise SchemaError(f"import {name!r}: there is no such file among the references")
        known.update(KNOWN.get(name, ()))
    for name, each in imported.items():
        resolve(each, {other: imported[other] for _, other in each.imports if other in imported and other != name})
        known.update(full for full, _ in definitions(each))
    for full, _ in definitions(file):
        if full in known:
            raise SchemaError(f"{full[1:]} is defined twice")
        known.add(full)
    prefix = f".{file.package}" if file.package else ""
    for message in file.messages:
        _resolve(message, prefix, known)


def _resolve(message: Message, prefix: str, known: set[str]) -> None:
    scope = f"{prefix}.{message.name}"
    for each in message.fields:
        if each.type not in SCALARS:
            each.type = _found(each.type, scope, known, each.name)
    for nested in message.messages:
        _resolve(nested, scope, known)


def _found(name: str, scope: str, known: set[str], what: str) -> str:
    if name.startswith("."):
        if name not in known:
            raise SchemaError(f"the field {what} has the type {name[1:]}, which is not there")
        return name
    while True:
        if f"{scope}.{name}" in known:
            return f"{scope}.{name}"
        if not scope:
            raise SchemaError(f"the field {what} has the type {name}, which is not there")
        scope = scope.rpartition(".")[0]
