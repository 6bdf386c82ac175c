"""Whether data that one JSON schema let pass is let pass by another.

A schema is taken for what must hold all at once: limits by type of value, lists of allowed values, alternatives. Each
of that in the reader must follow from something in the writer. Objects and arrays may be open (what the schema does
not name is let pass), closed, or open for what another schema lets pass; a property that a reader names anew may have
been written with any value by whoever wrote an open object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kavka.coordinator.registry.comparing import Compared, Effort
from kavka.coordinator.registry.json_schema import JsonSchema, Node
from kavka.coordinator.registry.schema import Difference
from kavka.coordinator.registry.texts import write_json

_FAMILIES: Final[Mapping[str, frozenset[str]]] = {
    "object": frozenset({
        "properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties",
        "dependencies", "dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties",
    }),
    "array": frozenset({"items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"}),
    "string": frozenset({"minLength", "maxLength", "pattern"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}  # fmt: skip
"""What only values of one type are limited by."""

_LIMITS: Final = {
    "maxLength": "MAX_LENGTH", "minLength": "MIN_LENGTH", "maximum": "MAXIMUM", "minimum": "MINIMUM",
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM", "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
    "maxItems": "MAX_ITEMS", "minItems": "MIN_ITEMS",
    "maxProperties": "MAX_PROPERTIES", "minProperties": "MIN_PROPERTIES",
}  # fmt: skip


def differences(reader: JsonSchema, writer: JsonSchema) -> list[Difference]:
    """Why a reader does not let pass all that a writer did; nothing if it does."""
    return _Comparison(reader, writer, Effort()).compare(reader.root, writer.root, "#")


class _Part(NamedTuple):
    """One of the things that must hold at once."""

    kind: str
    """A type of values; `values` for a list of them, `any` for alternatives, `not`."""
    node: Any
    """The schema it stands in; the allowed values; the alternatives; what is excluded."""
    word: str = ""


class _Comparison:
    def __init__(self, reader: JsonSchema, writer: JsonSchema, effort: Effort) -> None:
        self._reader = reader
        self._writer = writer
        self._effort = effort
        self._compared = Compared(effort)

    def compare(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        reader, writer = self._reader.resolved(reader), self._writer.resolved(writer)
        if writer is False or _is_empty(reader):
            return []
        if reader is False:
            return [_difference("TYPE_CHANGED", path, "nothing is let pass any more")]
        return self._compared.once(reader, writer, lambda: self._differences(reader, writer, path))

    def _differences(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        written = [] if writer is True else list(self._parts(self._writer, writer))
        if not written:
            yield _difference("SCHEMA_ADDED", path, "values were not limited before")
            return
        for part in self._parts(self._reader, reader):
            yield from self._follows(part, written, path)

    # -- parts ----------------------------------------------------------------------------------------

    def _parts(self, schema: JsonSchema, node: Node) -> Iterator[_Part]:
        self._effort.spend()
        node = schema.resolved(node)
        if isinstance(node, bool):
            return
        for each in node.get("allOf", ()):
            yield from self._parts(schema, each)
        for word in ("anyOf", "oneOf"):
            if node.get(word):
                yield _Part("any", node[word], word)
        if "enum" in node:
            yield _Part("values", node["enum"], "enum")
        if "const" in node:
            yield _Part("values", [node["const"]], "const")
        if "not" in node:
            yield _Part("not", node["not"])
        yield from _typed(node)

    def _follows(self, part: _Part, written: list[_Part], path: str) -> list[Difference]:
        """Why a part of the reader does not follow from the parts of the writer."""
        match part.kind:
            case "any":
                return self._alternatives(part, written, path)
            case "values":
                return self._values(part, written, path)
            case "not":
                return self._excluded(part, written, path)
        return self._of_type(part, written, path)

    def _alternatives(self, part: _Part, written: list[_Part], path: str) -> list[Difference]:
        whole = {"allOf": [_again(each) for each in written]}
        tried = [self.compare(branch, whole, f"{path}/{part.word}/{n}") for n, branch in enumerate(part.node)]
        if any(not found for found in tried):
            return []
        for each in written:
            if each.kind == "any" and all(
                any(not self.compare(mine, theirs, path) for mine in part.node) for theirs in each.node
            ):
                return []
        if len(tried) == 1:
            return tried[0]
        kind = "SUM_TYPE_NARROWED" if any(each.kind == "any" for each in written) else "TYPE_CHANGED"
        return [_difference(kind, path, f"none of {part.word} lets pass all that was written")]

    def _values(self, part: _Part, written: list[_Part], path: str) -> list[Difference]:
        for each in written:
            if each.kind == "values" and {_key(value) for value in each.node} <= {_key(value) for value in part.node}:
                return []
            if each.kind == "any" and all(not self._branch_follows(part, node, path) for node in each.node):
                return []
        had = any(each.kind == "values" for each in written)
        said = "values are not allowed any more" if had else "only some values are allowed"
        return [_difference("ENUM_ARRAY_CHANGED" if had else "COMBINED_TYPE_CHANGED", f"{path}/{part.word}", said)]

    def _branch_follows(self, part: _Part, node: Node, path: str) -> list[Difference]:
        return self._follows(part, list(self._parts(self._writer, node)), path)

    def _excluded(self, part: _Part, written: list[_Part], path: str) -> list[Difference]:
        swapped = _Comparison(self._writer, self._reader, self._effort)
        for each in written:
            if each.kind == "not" and not swapped.compare(each.node, part.node, path):
                return []
        return [_difference("NOT_TYPE_EXTENDED", f"{path}/not", "more is excluded than before")]

    def _of_type(self, part: _Part, written: list[_Part], path: str) -> list[Difference]:
        found: list[Difference] | None = None
        for each in written:
            if each.kind == part.kind or (part.kind, each.kind) == ("number", "integer"):
                differing = self._limits(part.kind, part.node, each.node, path)
                if not differing:
                    return []
                found = found or differing
            elif each.kind == "any":
                tried = [self._branch_follows(part, node, path) for node in each.node]
                if not any(tried):
                    return []
            elif each.kind == "values" and part.word and all(_is_of(value, part.kind) for value in each.node):
                return []
        if found is not None:
            return found
        if any(each.kind == "any" for each in written):
            return [_difference("COMBINED_TYPE_CHANGED", path, f"alternatives became {part.kind}")]
        return [_difference("TYPE_CHANGED", path, f"the type became {part.kind}")]

    # -- limits by type -------------------------------------------------------------------------------

    def _limits(self, kind: str, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
        match kind:
            case "string":
                return [*_ends(reader, writer, path, "maxLength", "minLength"), *_pattern(reader, writer, path)]
            case "number" | "integer":
                return [*_range(reader, writer, path), *_multiple(reader, writer, path)]
            case "array":
                return [*_ends(reader, writer, path, "maxItems", "minItems"), *self._items(reader, writer, path)]
            case "object":
                limits = _ends(reader, writer, path, "maxProperties", "minProperties")
                dependent = self._dependencies(reader, writer, path)
                return [*limits, *dependent, *self._properties(reader, writer, path)]
        return []

    def _items(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> Iterator[Difference]:
        if reader.get("uniqueItems") and not writer.get("uniqueItems"):
            yield _difference("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", "items must differ now")
        (mine, my_rest, word), (theirs, their_rest, _) = _arrays(reader), _arrays(writer)
        for number in range(max(len(mine), len(theirs))):
            here = f"{path}/items/{number}"
            expected = mine[number] if number < len(mine) else my_rest
            given = theirs[number] if number < len(theirs) else their_rest
            found = self.compare(expected, given, here)
            if found and number >= len(theirs):
                what = "OPEN" if _is_empty(given) else "PARTIALLY_OPEN"
                yield _difference(f"ITEM_ADDED_TO_{what}_CONTENT_MODEL", here, "an item is limited now")
            elif found and number >= len(mine):
                yield _difference("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", here, "an item is not let pass any more")
            else:
                yield from found
        if found := self.compare(my_rest, their_rest, f"{path}/{word}"):
            yield from _renamed(found, self._writer.resolved(their_rest), "ITEMS", f"{path}/{word}")

    def _properties(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> Iterator[Difference]:
        mine, theirs = reader.get("properties", {}), writer.get("properties", {})
        required = set(reader.get("required", ()))
        for name in sorted({*mine, *theirs}):
            here = f"{path}/properties/{name}"
            if name not in theirs:
                yield from self._added(name, mine[name], name in required, writer, here)
            elif name in mine:
                yield from self.compare(mine[name], theirs[name], here)
            else:
                cover = _cover(reader, name)
                if found := self.compare(cover, theirs[name], here):
                    closed = "CLOSED" if cover is False else "PARTIALLY_OPEN"
                    said = f"the property {name} is not let pass any more"
                    yield _difference(f"PROPERTY_REMOVED_FROM_{closed}_CONTENT_MODEL", here, f"{said}: {found[0].path}")
        before = set(writer.get("required", ()))
        for name in reader.get("required", ()):
            if name in theirs and name in mine and name not in before and not _default(mine[name]):
                said = f"the property {name} must be there now"
                yield _difference("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}", said)
        for pattern, node in reader.get("patternProperties", {}).items():
            if pattern in writer.get("patternProperties", {}):
                given = writer["patternProperties"][pattern]
                yield from self.compare(node, given, f"{path}/patternProperties/{pattern}")
        rest, given = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
        if found := self.compare(rest, given, f"{path}/additionalProperties"):
            yield from _renamed(found, self._writer.resolved(given), "PROPERTIES", f"{path}/additionalProperties")

    def _added(
        self, name: str, node: Node, required: bool, writer: Mapping[str, Any], here: str
    ) -> Iterator[Difference]:
        required = required and not _default(node)
        cover = _cover(writer, name)
        if _is_empty(cover):
            if not _is_empty(node):
                word = "REQUIRED" if required else "OPTIONAL"
                said = f"the property {name} may have been written with any value"
                yield _difference(f"{word}_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", here, said)
            return
        if found := self.compare(node, cover, here):
            said = f"the property {name} may have been written otherwise: {found[0].path}"
            yield _difference("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", here, said)
        if required:
            said = f"the property {name} must be there now, and it has no default"
            yield _difference("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", here, said)

    def _dependencies(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> Iterator[Difference]:
        mine, theirs = _dependencies(reader), _dependencies(writer)
        for name, needed in mine.items():
            here = f"{path}/dependencies/{name}"
            given = theirs.get(name)
            if isinstance(needed, list):
                if not isinstance(given, list):
                    yield _difference("DEPENDENCY_ARRAY_ADDED", here, f"{name} needs other properties now")
                elif not set(needed) <= set(given):
                    yield _difference("DEPENDENCY_ARRAY_EXTENDED", here, f"{name} needs more properties now")
            elif given is None or isinstance(given, list):
                yield _difference("DEPENDENCY_SCHEMA_ADDED", here, f"{name} puts limits on the object now")
            else:
                yield from self.compare(needed, given, here)


# -- pieces -------------------------------------------------------------------------------------------


def _difference(kind: str, path: str, said: str) -> Difference:
    return Difference(kind, path, f"at path '{path}': {said}")


def _is_empty(node: Any) -> bool:
    """Whether a schema lets everything pass."""
    annotations = {"title", "description", "default", "examples", "$id", "$schema", "$comment", "definitions", "$defs"}
    return node is True or (isinstance(node, dict) and not node.keys() - annotations)


def _key(value: Any) -> Any:
    """The same for values that JSON schema takes for equal: 1 and 1.0, but not 1 and true."""
    if isinstance(value, dict | list):
        return "json", write_json(value, sort_keys=True)
    return isinstance(value, bool), value


def _default(node: Node) -> bool:
    return isinstance(node, dict) and "default" in node


def _typed(node: Mapping[str, Any]) -> Iterator[_Part]:
    types = node.get("type")
    if isinstance(types, list):
        if len(types) > 1:
            yield _Part("any", [{**_limits_of(node), "type": each} for each in types], "type")
            return
        types = types[0]
    if isinstance(types, str):
        yield _Part(types, node, "type")
        return
    for family, words in _FAMILIES.items():
        if words & node.keys():
            yield _Part(family, node)


def _limits_of(node: Mapping[str, Any]) -> dict[str, Any]:
    words = frozenset[str]().union(*_FAMILIES.values())
    return {key: value for key, value in node.items() if key in words}


def _again(part: _Part) -> dict[str, Any]:
    """A part as a schema."""
    match part.kind:
        case "any":
            return {"anyOf": part.node}
        case "values":
            return {"enum": part.node}
        case "not":
            return {"not": part.node}
    return {**_limits_of(part.node), "type": part.kind}


_PYTHON: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _is_of(value: Any, kind: str) -> bool:
    return kind in _PYTHON and _PYTHON[kind](value)


def _ends(
    reader: Mapping[str, Any], writer: Mapping[str, Any], path: str, most: str, least: str
) -> Iterator[Difference]:
    for word, sign, gone in ((most, 1, "DECREASED"), (least, -1, "INCREASED")):
        mine, theirs = reader.get(word), writer.get(word)
        if mine is None:
            continue
        if theirs is None:
            yield _difference(f"{_LIMITS[word]}_ADDED", f"{path}/{word}", f"{word} is {mine} now")
        elif sign * mine < sign * theirs:
            yield _difference(f"{_LIMITS[word]}_{gone}", f"{path}/{word}", f"{word} was {theirs} and is {mine} now")


def _pattern(reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> Iterator[Difference]:
    if "pattern" in reader and reader["pattern"] != writer.get("pattern"):
        kind = "PATTERN_CHANGED" if "pattern" in writer else "PATTERN_ADDED"
        yield _difference(kind, f"{path}/pattern", f"the pattern is {reader['pattern']!r} now")


def _range(reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> Iterator[Difference]:
    mine, theirs = _exclusive(reader), _exclusive(writer)
    yield from _ends(mine, theirs, path, "maximum", "minimum")
    yield from _ends(mine, theirs, path, "exclusiveMaximum", "exclusiveMinimum")


def _exclusive(node: Mapping[str, Any]) -> dict[str, Any]:
    """The limits of a number; draft 4 says by true and false whether a limit itself is excluded."""
    limits = dict(node)
    for word, strict in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        if isinstance(limits.get(strict), bool) and limits.pop(strict) and word in limits:
            limits[strict] = limits.pop(word)
    return limits


def _multiple(reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> Iterator[Difference]:
    mine, theirs = reader.get("multipleOf"), writer.get("multipleOf")
    if mine is None or mine == theirs:
        return
    if theirs is None:
        yield _difference("MULTIPLE_OF_ADDED", f"{path}/multipleOf", f"multipleOf is {mine} now")
    elif theirs % mine:
        yield _difference("MULTIPLE_OF_CHANGED", f"{path}/multipleOf", f"multipleOf was {theirs} and is {mine} now")


def _arrays(node: Mapping[str, Any]) -> tuple[list[Node], Node, str]:
    """The first items of an array, all others, and the word for these."""
    items = node.get("items")
    if isinstance(items, list):
        return items, node.get("additionalItems", True), "additionalItems"
    if "prefixItems" in node:
        return node["prefixItems"], True if items is None else items, "items"
    if items is None:
        return [], node.get("additionalItems", True), "additionalItems"
    return [], items, "items"


def _cover(node: Mapping[str, Any], name: str) -> Node:
    """What an object lets pass as a property that it does not name."""
    import re2  # not at start-up; and no pattern of a client takes it longer than its text is

    options: Any = re2.Options()
    options.log_errors = False
    for pattern, schema in node.get("patternProperties", {}).items():
        try:
            if re2.search(pattern, name, options):
                return schema  # type: ignore[no-any-return]
        except re2.error:
            continue  # a pattern of another language: it matches nothing here
    return node.get("additionalProperties", True)  # type: ignore[no-any-return]


def _dependencies(node: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **node.get("dependencies", {}), **node.get("dependentRequired", {}), **node.get("dependentSchemas", {})
    }  # fmt: skip


def _renamed(found: list[Difference], writer: Node, what: str, path: str) -> Iterator[Difference]:
    """Say of what an object or array does not name that it was open before, if it was."""
    if not _is_empty(writer):
        yield from found
    elif found[0].kind == "SCHEMA_ADDED":
        yield _difference(f"ADDITIONAL_{what}_NARROWED", path, "what is not named is limited now")
    else:
        yield _difference(f"ADDITIONAL_{what}_REMOVED", path, "what is not named is not let pass any more")
