"""Whether what was written with one Avro schema can be read with another: the rules of schema resolution."""

from __future__ import annotations

from typing import Final

from kavka.coordinator.registry.avro import AvroSchema, Field, Type
from kavka.coordinator.registry.comparing import MAX_DIFFERENCES, Compared, Effort
from kavka.coordinator.registry.schema import Difference

_PROMOTED: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}
"""What a reader of a type also reads."""


def differences(reader: AvroSchema, writer: AvroSchema) -> list[Difference]:
    """Why a reader cannot read what a writer wrote; nothing if it can."""
    return _Comparison(Effort()).compare(reader.root, writer.root, "")


class _Comparison:
    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._compared = Compared(effort)

    def compare(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        return self._compared.once(reader, writer, lambda: self._differences(reader, writer, path))

    def _differences(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        if writer.kind == "union":
            return self._written_by_union(reader, writer, path)
        if reader.kind == "union":
            if any(not self.compare(branch, writer, f"{path}/{n}") for n, branch in enumerate(reader.branches)):
                return []
            return [_missing_branch(writer, path)]
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTED.get(reader.kind, ()):
                return []
            said = f"The type (path '{path or '/'}') of a field in the new schema does not match with the old schema"
            return [Difference("TYPE_MISMATCH", path, f"{said}: reader {reader.kind}, writer {writer.kind}")]
        match reader.kind:
            case "array":
                return self.compare(reader.branches[0], writer.branches[0], f"{path}/items")
            case "map":
                return self.compare(reader.branches[0], writer.branches[0], f"{path}/values")
            case "record":
                self._effort.spend(len(reader.fields), len(writer.fields))
                return [*_names(reader, writer, path), *self._records(reader, writer, path)]
            case "enum":
                self._effort.spend(len(reader.symbols), len(writer.symbols))
                return [*_names(reader, writer, path), *_symbols(reader, writer, path)]
            case "fixed":
                return [*_names(reader, writer, path), *_sizes(reader, writer, path)]
        return []

    def _written_by_union(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        found: list[Difference] = []
        for number, branch in enumerate(writer.branches):
            differing = self.compare(reader, branch, f"{path}/{number}")
            if differing and reader.kind == "union":
                found.append(_missing_branch(branch, f"{path}/{number}"))
            else:
                found += differing
        return found

    def _records(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        written = {each.name: each for each in writer.fields}
        found: list[Difference] = []
        for number, each in enumerate(reader.fields):
            here = f"{path}/fields/{number}"
            source = _source(each, written)
            if source is not None:
                found += self.compare(each.type, source.type, f"{here}/type")
            elif not each.has_default and not (each.type.kind == "enum" and each.type.default is not None):
                said = f"The field '{each.name}' at path '{here}' in the reader schema has no default value"
                found.append(
                    Difference("READER_FIELD_MISSING_DEFAULT_VALUE", here, f"{said} and is missing in the writer")
                )
        return found


def _source(each: Field, written: dict[str, Field]) -> Field | None:
    for name in (each.name, *each.aliases):
        if name in written:
            return written[name]
    return None


def _missing_branch(writer: Type, path: str) -> Difference:
    said = f"The reader schema at path '{path or '/'}' has no branch for the type {writer.name or writer.kind}"
    return Difference("MISSING_UNION_BRANCH", path, f"{said} of the writer")


def _names(reader: Type, writer: Type, path: str) -> list[Difference]:
    if reader.short_name == writer.short_name or writer.name in reader.aliases:
        return []
    said = f"The name of the schema has changed (path '{path or '/'}'): reader {reader.name}, writer {writer.name}"
    return [Difference("NAME_MISMATCH", f"{path}/name", said)]


def _symbols(reader: Type, writer: Type, path: str) -> list[Difference]:
    known = set(reader.symbols)
    missing = [symbol for symbol in writer.symbols if symbol not in known]
    if not missing or reader.default is not None:
        return []
    said = (
        f"The reader schema is missing the enum symbols {', '.join(missing[:MAX_DIFFERENCES])} at path '{path}/symbols'"
    )
    return [Difference("MISSING_ENUM_SYMBOLS", f"{path}/symbols", f"{said} of {reader.name}")]


def _sizes(reader: Type, writer: Type, path: str) -> list[Difference]:
    if reader.size == writer.size:
        return []
    said = f"The size of the fixed {reader.name} at path '{path}/size' differs"
    return [Difference("FIXED_SIZE_MISMATCH", f"{path}/size", f"{said}: reader {reader.size}, writer {writer.size}")]
