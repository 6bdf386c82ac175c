"""JSON schemas: read with everything they refer to, and compared by what data they let pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kavka.coordinator.registry.schema import NO_REFERENCES, SchemaError
from kavka.coordinator.registry.texts import read_json, write_json

Node = dict[str, Any] | bool

MAX_HOPS: Final = 100
"""References from one to the next, before they count as a circle that ends nowhere."""
_DRAFTS: Final = ("draft-04", "draft-06", "draft-07", "2019-09", "2020-12")


class JsonSchema:
    """A schema, the documents that it refers to, and the ways to write it."""

    def __init__(self, root: Node, documents: Mapping[str, Node]) -> None:
        self.root = root
        self._documents = documents
        self._anchors: dict[int, dict[str, Node]] = {}
        """By document: the schemas that have a name in it."""

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
            if isinstance(node, bool) or not isinstance(node.get("$ref"), str):
                return node
            node = self._target(node["$ref"])
        raise SchemaError(f"{node!r:.200} refers to itself")

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
                    for name in (node.get("$anchor"), own[1:] if isinstance(own, str) and own[:1] == "#" else None):
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
        if isinstance(node, dict) and isinstance(node.get("$ref"), str):
            schema.resolved(node)
    return schema


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
        checker.check_schema(root)
    except exceptions.SchemaError as error:
        path = "/".join(str(each) for each in error.absolute_path)
        raise SchemaError(f"#/{path:.200}: {error.message:.500}") from None
    except RecursionError:
        raise SchemaError("the schema is nested too deep") from None
    except OverflowError as error:
        raise SchemaError(f"a pattern or a number cannot be used: {error}") from None


_DEFAULT: Final = "http://json-schema.org/draft-07/schema#"

_ONE: Final = (
    "additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_LISTS: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_MAPS: Final = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")


def nodes(root: Node) -> Iterator[Node]:
    """A schema and every schema within it."""
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict | bool):
            continue
        yield node
        if isinstance(node, dict):
            waiting += [node[key] for key in _ONE if key in node]
            waiting += [each for key in _LISTS if isinstance(node.get(key), list) for each in node[key]]
            waiting += [each for key in _MAPS if isinstance(node.get(key), dict) for each in node[key].values()]
