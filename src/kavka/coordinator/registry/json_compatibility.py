"""Whether data that one JSON schema let pass is let pass by another.

A schema is taken for what must hold all at once: limits by type of value, lists of allowed values, alternatives. Each
of that in the reader must follow from something in the writer. Objects and arrays may be open (what the schema does
not name is let pass), closed, or open for what another schema lets pass; a property that a reader names anew may have
been written with any value by whoever wrote an open object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from fractions import Fraction
from typing import Any, Final, NamedTuple

from kavka.coordinator.registry.comparing import STEP_ITEMS, Compared, Effort
from kavka.coordinator.registry.json_schema import ANNOTATIONS, JsonSchema, Node
from kavka.coordinator.registry.json_unevaluated import closed
from kavka.coordinator.registry.patterns import Patterns
from kavka.coordinator.registry.schema import Difference
from kavka.coordinator.registry.texts import write_json

_FAMILIES: Final[Mapping[str, frozenset[str]]] = {
    "object": frozenset({
        "properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties",
        "dependencies", "dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties",
    }),
    "array": frozenset({
        "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems",
        "contains", "minContains", "maxContains", "unevaluatedItems",
    }),
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
    return _Comparison(reader, writer, _Shared(Effort(), Patterns())).compare(reader.root, writer.root, "#")


class _Part(NamedTuple):
    """One of the things that must hold at once."""

    kind: str
    """A type of values; `values` for a list of them, `any` for alternatives, `if` for a condition, `not`."""
    node: Any
    """The schema it stands in; the allowed values; the alternatives; what is excluded."""
    word: str = ""


class _Shared:
    """What a comparison has in common with those of the same schemas the other way round."""

    def __init__(self, effort: Effort, patterns: Patterns) -> None:
        self.effort = effort
        self.patterns = patterns
        self._keys: dict[int, tuple[list[Any], Set[Any]]] = {}

    def keys(self, values: list[Any]) -> Set[Any]:
        """Values as they can be compared, of a long list worked out once."""
        found = self._keys.get(id(values))
        if found is None:
            self.effort.spend(len(values))
            found = values, {_key(value) for value in values}
            if len(values) > STEP_ITEMS:
                self._keys[id(values)] = found
        return found[1]


class _Comparison:
    def __init__(self, reader: JsonSchema, writer: JsonSchema, shared: _Shared) -> None:
        self._reader = reader
        self._writer = writer
        self._shared = shared
        self._compared = Compared(shared.effort)

    def _swapped(self) -> _Comparison:
        return _Comparison(self._writer, self._reader, self._shared)

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
        node = schema.resolved(node)
        self._shared.effort.spend(0 if isinstance(node, bool) else _length(node))
        if isinstance(node, bool):
            if not node:
                yield _Part("values", [], "enum")
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
        if "if" in node and node.keys() & {"then", "else"}:
            yield _Part("if", node)
        yield from _typed(self._closed(schema, node))

    def _closed(self, schema: JsonSchema, node: dict[str, Any]) -> dict[str, Any]:
        # Of a writer that closes nothing so, nothing has to be let pass that only some alternative names.
        by_chance = schema is self._writer or self._writer.is_evaluating
        found = closed(node, schema.resolved, by_chance=by_chance)
        if found is not node:
            self._shared.effort.spend(_length(found))
        return found

    def _follows(self, part: _Part, written: list[_Part], path: str) -> list[Difference]:
        """Why a part of the reader does not follow from the parts of the writer."""
        match part.kind:
            case "any":
                return self._alternatives(part, written, path)
            case "values":
                return self._values(part, written, path)
            case "not":
                return self._excluded(part, written, path)
            case "if":
                return self._condition(part, written, path)
        return self._of_type(part, written, path)

    def _alternatives(self, part: _Part, written: list[_Part], path: str) -> list[Difference]:
        whole = _whole(written)
        tried = [self.compare(branch, whole, f"{path}/{part.word}/{n}") for n, branch in enumerate(part.node)]
        if any(not found for found in tried):
            return []
        for each in sorted(written, key=lambda each: each.kind != "any"):  # long lists of values take longest
            branches = [{"const": value} for value in each.node] if each.kind == "values" else each.node
            if each.kind in ("any", "values") and all(
                any(not self.compare(mine, theirs, path) for mine in part.node) for theirs in branches
            ):
                return []
        if len(tried) == 1:
            return tried[0]
        kind = "SUM_TYPE_NARROWED" if any(each.kind == "any" for each in written) else "TYPE_CHANGED"
        return [_difference(kind, path, f"none of {part.word} lets pass all that was written")]

    def _values(self, part: _Part, written: list[_Part], path: str) -> list[Difference]:
        for each in written:
            if each.kind == "values":
                self._shared.effort.spend(min(len(each.node), len(part.node)))
                if self._shared.keys(each.node) <= self._shared.keys(part.node):
                    return []
            if each.kind == "any" and all(not self._branch_follows(part, node, path) for node in each.node):
                return []
        had = any(each.kind == "values" for each in written)
        said = "values are not allowed any more" if had else "only some values are allowed"
        return [_difference("ENUM_ARRAY_CHANGED" if had else "COMBINED_TYPE_CHANGED", f"{path}/{part.word}", said)]

    def _branch_follows(self, part: _Part, node: Node, path: str) -> list[Difference]:
        return self._follows(part, list(self._parts(self._writer, node)), path)

    def _excluded(self, part: _Part, written: list[_Part], path: str) -> list[Difference]:
        swapped = self._swapped()
        for each in written:
            if each.kind == "not" and not swapped.compare(each.node, part.node, path):
                return []
        return [_difference("NOT_TYPE_EXTENDED", f"{path}/not", "more is excluded than before")]

    def _condition(self, part: _Part, written: list[_Part], path: str) -> list[Difference]:
        """A condition was written under too, or what follows holds anyway."""
        condition, *mine = (part.node.get(word, True) for word in ("if", "then", "else"))
        swapped = self._swapped()
        for each in (each.node for each in written if each.kind == "if"):
            theirs = [each.get(word, True) for word in ("then", "else")]
            if (
                not self.compare(condition, each["if"], path)
                and not swapped.compare(each["if"], condition, path)
                and not any(map(self.compare, mine, theirs, (f"{path}/then", f"{path}/else")))
            ):
                return []
        whole = _whole(written)
        if not self.compare(mine[0], whole, f"{path}/then") and not self.compare(mine[1], whole, f"{path}/else"):
            return []
        return [_difference("COMBINED_TYPE_CHANGED", f"{path}/if", "a condition is new, or other than before")]

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
            elif each.kind == "values" and part.word:
                self._shared.effort.spend(len(each.node))
                if all(_is_of(value, part.kind) for value in each.node):
                    return []
        if found is not None:
            return found
        if any(each.kind == "any" for each in written):
            return [_difference("COMBINED_TYPE_CHANGED", path, f"alternatives became {part.kind}")]
        return [_difference("TYPE_CHANGED", path, f"the type became {part.kind}")]

    # -- limits by type -------------------------------------------------------------------------------

    def _limits(self, kind: str, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
        self._shared.effort.spend(_length(reader), _length(writer))
        match kind:
            case "string":
                return [*_ends(reader, writer, path, "maxLength", "minLength"), *_pattern(reader, writer, path)]
            case "number" | "integer":
                return [*_range(reader, writer, path), *_multiple(reader, writer, path)]
            case "array":
                limits = [*_ends(reader, writer, path, "maxItems", "minItems"), *self._contained(reader, writer, path)]
                return [*limits, *self._items(reader, writer, path)]
            case "object":
                limits = [
                    *_ends(reader, writer, path, "maxProperties", "minProperties"),
                    *self._names(reader, writer, path),
                ]
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

    def _contained(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> Iterator[Difference]:
        """Of the items that a schema asks for: as many at least, and no more."""
        least, most = reader.get("minContains", 1), reader.get("maxContains")
        if "contains" not in reader or (least == 0 and most is None):
            return
        mine = reader["contains"]
        had = "contains" in writer
        theirs = writer.get("contains", False)
        if least > 0:
            before = writer.get("minContains", 1) if had else 0
            if not had or self.compare(mine, theirs, f"{path}/contains"):
                yield _difference("CONTAINED_ITEM_SCHEMA_CHANGED", f"{path}/contains", "an item is asked for now")
            elif least > before:
                said = f"minContains was {before} and is {least} now"
                yield _difference("MIN_CONTAINS_INCREASED", f"{path}/minContains", said)
        if most is not None:
            before = writer.get("maxContains") if had else None
            swapped = self._swapped()
            if before is None or swapped.compare(theirs, mine, f"{path}/contains"):
                yield _difference("MAX_CONTAINS_ADDED", f"{path}/maxContains", f"maxContains is {most} now")
            elif most < before:
                said = f"maxContains was {before} and is {most} now"
                yield _difference("MAX_CONTAINS_DECREASED", f"{path}/maxContains", said)

    def _names(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
        written = {"allOf": [{"type": "string"}, writer.get("propertyNames", True)]}
        return self.compare(reader.get("propertyNames", True), written, f"{path}/propertyNames")

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
                cover = self._cover(reader, name)
                if found := self.compare(cover, theirs[name], here):
                    closed = "CLOSED" if cover is False else "PARTIALLY_OPEN"
                    said = f"the property {name} is not let pass any more"
                    yield _difference(f"PROPERTY_REMOVED_FROM_{closed}_CONTENT_MODEL", here, f"{said}: {found[0].path}")
        before = set(writer.get("required", ()))
        for name in reader.get("required", ()):
            if name in theirs and name not in before and not _default(mine.get(name, True)):
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
        cover = self._cover(writer, name)
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

    def _cover(self, node: Mapping[str, Any], name: str) -> Node:
        """What an object lets pass as a property that it does not name."""
        for pattern, schema in node.get("patternProperties", {}).items():
            self._shared.effort.spend()
            if self._shared.patterns.matches(pattern, name):
                return schema  # type: ignore[no-any-return]
        return node.get("additionalProperties", True)  # type: ignore[no-any-return]

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


def _length(node: Mapping[str, Any]) -> int:
    """How much there is to go through in a schema, without what is within that."""
    return sum(len(value) for value in node.values() if isinstance(value, dict | list))


def _is_empty(node: Any) -> bool:
    """Whether a schema lets everything pass."""
    return node is True or (isinstance(node, dict) and not node.keys() - ANNOTATIONS)


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


def _whole(written: list[_Part]) -> dict[str, Any]:
    return {"allOf": [_again(each) for each in written]}


def _again(part: _Part) -> dict[str, Any]:
    """A part as a schema."""
    match part.kind:
        case "any":
            return {"anyOf": part.node}
        case "values":
            return {"enum": part.node}
        case "not":
            return {"not": part.node}
        case "if":
            return {word: part.node[word] for word in ("if", "then", "else") if word in part.node}
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
    elif Fraction(str(theirs)) % Fraction(str(mine)):  # as it is written: floats are not multiples of what they seem
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
