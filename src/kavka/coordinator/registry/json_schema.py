"""JSON schemas: read with everything they refer to, and compared by what data they let pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from kavka.coordinator.registry.patterns import Patterns
from kavka.coordinator.registry.schema import NO_REFERENCES, SchemaError
from kavka.coordinator.registry.texts import read_json, write_json

if TYPE_CHECKING:
    import jsonschema

Node = dict[str, Any] | bool

MAX_HOPS: Final = 100
"""References from one to the next, before they count as a circle that ends nowhere."""
MOST_COMPARED: Final = 32
"""So many allowed values are looked at whether they differ, which drafts 4 and 6 ask for."""
_JOINING: Final = ("2019-09", "2020-12")
_DRAFTS: Final = ("draft-04", "draft-06", "draft-07", *_JOINING)
ANNOTATIONS: Final = frozenset({
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$id", "$schema", "$comment",
    "$anchor", "$dynamicAnchor", "$recursiveAnchor", "definitions", "$defs",
})  # fmt: skip
"""What limits no value."""


class JsonSchema:
    """A schema, the documents that it refers to, and the ways to write it."""

    def __init__(self, root: Node, documents: Mapping[str, Node]) -> None:
        self.root = root
        self._documents = documents
        self._anchors: dict[int, dict[str, Node]] = {}
        """By document: the schemas that have a name in it."""
        self._joined: dict[int, tuple[Node, Node]] = {}
        """By what refers to something and says more itself: that, and both as one schema."""
        given = root.get("$schema", "") if isinstance(root, dict) else ""
        self._is_joining = isinstance(given, str) and any(draft in given for draft in _JOINING)

    @cached_property
    def is_evaluating(self) -> bool:
        """Whether it says anything of what is unevaluated."""
        words = {"unevaluatedProperties", "unevaluatedItems"}
        documents = (self.root, *self._documents.values())
        return any(words & node.keys() for each in documents for node in nodes(each) if isinstance(node, dict))

    @property
    def canonical(self) -> str:
        """As it was given, without blanks."""
        return write_json(self.root)

    @property
    def normalized(self) -> str:
        """With the keys in order."""
        return write_json(self.root, sort_keys=True)

    def resolved(self, node: Node) -> Node:
        """What a node means: what it refers to, as long as it refers to something; raises SchemaError."""
        for _ in range(MAX_HOPS):
            word = _reference(node)
            if isinstance(node, bool) or not word:
                return node
            target = self._target(node[word])
            if self._is_joining and node.keys() - ANNOTATIONS - {word}:
                return self._with_target(node, word)
            node = target
        raise SchemaError(f"{node!r:.200} refers to itself")

    def _with_target(self, node: dict[str, Any], word: str) -> Node:
        """Both, as holds since draft 2019-09; the same object each time, for a pair is compared once."""
        if id(node) not in self._joined:
            rest = {key: value for key, value in node.items() if key != word}
            self._joined[id(node)] = node, {**rest, "allOf": [{word: node[word]}, *node.get("allOf", ())]}
        return self._joined[id(node)][1]

    def _target(self, reference: str) -> Node:
        document, _, pointer = reference.partition("#")
        found: Any = self._document(document) if document else self.root
        if found is None:
            raise SchemaError(f"$ref {reference}: there is no such schema among the references")
        if pointer and not pointer.startswith("/"):
            return self._anchored(found, pointer, reference)
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdecimal() and key == str(int(key[:9])) and int(key) < len(found):
                found = found[int(key)]
            else:
                raise SchemaError(f"$ref {reference}: there is nothing at {step}")
        if not isinstance(found, dict | bool):
            raise SchemaError(f"$ref {reference}: what is there is no schema")
        return found

    def _document(self, name: str) -> Node | None:
        if isinstance(self.root, dict) and name == self.root.get("$id"):
            return self.root
        if name in self._documents:
            return self._documents[name]
        for known, document in self._documents.items():
            if isinstance(document, dict) and name == document.get("$id"):
                return document
            if name.rpartition("/")[2] == known.rpartition("/")[2]:
                return document
        return None

    def _anchored(self, root: Node, anchor: str, reference: str) -> Node:
        if id(root) not in self._anchors:
            known = self._anchors[id(root)] = {}
            for node in nodes(root):
                if isinstance(node, dict):
                    own = node.get("$id")
                    old = own[1:] if isinstance(own, str) and own[:1] == "#" else None
                    for name in (node.get("$anchor"), node.get("$dynamicAnchor"), old):
                        if isinstance(name, str):
                            known.setdefault(name, node)
        found = self._anchors[id(root)].get(anchor)
        if found is None:
            raise SchemaError(f"$ref {reference}: there is no anchor {anchor}")
        return found


def parse(text: str, references: Mapping[str, str] = NO_REFERENCES) -> JsonSchema:
    """Read a schema; raises SchemaError."""
    documents = {name: _loaded(each, f"reference {name}") for name, each in references.items()}
    schema = JsonSchema(_loaded(text, "the schema"), documents)
    _check(schema.root)
    for node in nodes(schema.root):
        if _reference(node):
            schema.resolved(node)
    return schema


def _reference(node: Node) -> str:
    """The word by which a schema refers to another one; a dynamic one goes where it goes without being overridden."""
    if isinstance(node, bool):
        return ""
    return next((word for word in ("$ref", "$dynamicRef", "$recursiveRef") if isinstance(node.get(word), str)), "")


def _loaded(text: str, what: str) -> Node:
    try:
        found = read_json(text)
    except (ValueError, RecursionError):
        raise SchemaError(f"{what} is not JSON") from None
    if not isinstance(found, dict | bool):
        raise SchemaError(f"{what} is neither an object nor true or false")
    return found


def _check(root: Node) -> None:
    from jsonschema import exceptions, validators  # not at start-up: only a registry reads schemas

    if isinstance(root, bool):
        return
    given = root.get("$schema", "")
    if not isinstance(given, str) or (given and not any(draft in given for draft in _DRAFTS)):
        raise SchemaError(f"$schema {given!r} is no draft that is known here: {', '.join(_DRAFTS)}")
    checker = validators.validator_for(root, default=validators.validator_for({"$schema": _DEFAULT}))
    try:
        checker.check_schema(_without_long_lists(root), format_checker=_formats())
    except exceptions.SchemaError as error:
        path = "/".join(str(each) for each in error.absolute_path)
        raise SchemaError(f"#/{path:.200}: {error.message:.500}") from None
    except RecursionError:
        raise SchemaError("the schema is nested too deep") from None
    except OverflowError as error:
        raise SchemaError(f"a pattern or a number cannot be used: {error}") from None


def _without_long_lists(root: Node) -> Any:
    """The same for the library, which compares each item with each other one if they cannot be sorted.

    Raises SchemaError for lists of names that have anything else in them. Of long lists of values it sees the start.
    """
    long = False
    for node in nodes(root, "contentSchema"):
        if not isinstance(node, dict):
            continue
        dependent = [node[word].values() for word in _DEPENDENT if isinstance(node.get(word), dict)]
        for names in (node.get("type"), node.get("required"), *(each for values in dependent for each in values)):
            if isinstance(names, list) and not all(isinstance(each, str) for each in names):
                raise SchemaError(f"{names!r:.200} is no list of names")
        long |= isinstance(node.get("enum"), list) and len(node["enum"]) > MOST_COMPARED
    return _cut(root) if long else root


def _cut(value: Any) -> Any:
    if isinstance(value, list):
        return [_cut(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: each[:MOST_COMPARED] if key == "enum" and isinstance(each, list) else _cut(each)
        for key, each in value.items()
    }


def _formats() -> jsonschema.FormatChecker:
    """Of the formats only patterns are looked at."""
    from jsonschema import FormatChecker

    patterns = Patterns()
    checker = FormatChecker(formats=())
    checker.checks("regex")(lambda pattern: not isinstance(pattern, str) or _is_pattern(patterns.find(pattern).fault))
    return checker


_NO_PATTERN: Final = ("missing", "unexpected", "trailing", "no argument", "invalid character class range")


def _is_pattern(fault: str) -> bool:
    """Whether something is a pattern of some engine, by what RE2 has against it: it refuses some that others know."""
    return not fault.startswith(_NO_PATTERN) or ": \\p" in fault.lower()


_DEFAULT: Final = "http://json-schema.org/draft-07/schema#"

_ONE: Final = (
    "additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_LISTS: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_DEPENDENT: Final = ("dependencies", "dependentRequired")
_MAPS: Final = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")


def nodes(root: Node, *others: str) -> Iterator[Node]:
    """A schema and every schema within it, also by other words."""
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict | bool):
            continue
        yield node
        if isinstance(node, dict):
            waiting += [node[key] for key in (*_ONE, *others) if key in node]
            waiting += [each for key in _LISTS if isinstance(node.get(key), list) for each in node[key]]
            waiting += [each for key in _MAPS if isinstance(node.get(key), dict) for each in node[key].values()]
