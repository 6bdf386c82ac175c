"""What an object or array that limits its unevaluated properties or items says, in the words of one that closes itself.

`unevaluatedProperties` looks further than `additionalProperties`: what the schemas beside it name counts as named.
So what always holds beside it (`allOf`, a reference) is taken in, and what may hold (alternatives, conditions) as
names of anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kavka.coordinator.registry.json_schema import Node

Resolve = Callable[[Node], Node]

OBJECT, ARRAY = "unevaluatedProperties", "unevaluatedItems"
_MAY_HOLD: Final = ("anyOf", "oneOf")


class _Beside(NamedTuple):
    """A schema for the same value."""

    node: Mapping[str, Any]
    always: bool


def closed(node: dict[str, Any], resolve: Resolve, *, by_chance: bool) -> dict[str, Any]:
    """The same with `additionalProperties` and `items`; what may hold beside it counts if `by_chance`."""
    if OBJECT not in node and ARRAY not in node:
        return node
    beside = [each for each in _beside(node, resolve, True, set()) if each.always or by_chance]
    said = dict(node)
    if OBJECT in said:
        said |= _object(said.pop(OBJECT), node, beside)
    if ARRAY in said:
        said |= _array(said.pop(ARRAY), node, beside)
    return said


def _beside(node: Node, resolve: Resolve, always: bool, seen: set[int]) -> Iterator[_Beside]:
    node = resolve(node)
    if isinstance(node, bool) or id(node) in seen:
        return
    seen.add(id(node))
    yield _Beside(node, always)
    for each in node.get("allOf", ()):
        yield from _beside(each, resolve, always, seen)
    may = [each for word in _MAY_HOLD for each in node.get(word, ())]
    may += [node[word] for word in ("if", "then", "else") if word in node]
    may += node.get("dependentSchemas", {}).values()
    for each in may:
        yield from _beside(each, resolve, False, seen)


def _object(rest: Node, own: Mapping[str, Any], beside: list[_Beside]) -> dict[str, Any]:
    if any({"additionalProperties", OBJECT} & each.node.keys() for each in beside if each.node is not own):
        rest = True
    return {
        "properties": _named("properties", beside),
        "patternProperties": _named("patternProperties", beside),
        "required": sorted({name for each in beside if each.always for name in each.node.get("required", ())}),
        "additionalProperties": own.get("additionalProperties", rest),
    }


def _named(word: str, beside: list[_Beside]) -> dict[str, Node]:
    found: dict[str, list[Node]] = {}
    for each in beside:
        for name, schema in each.node.get(word, {}).items():
            found.setdefault(name, []).extend([schema] if each.always else [])
    return {name: _all(schemas) for name, schemas in found.items()}


def _array(rest: Node, own: Mapping[str, Any], beside: list[_Beside]) -> dict[str, Any]:
    first: list[list[Node]] = []
    others: list[Node] = []
    evaluated: list[Node] = []
    """Those that make an item evaluated which they let pass."""
    for each in beside:
        mine, limit, is_limited = _items(each.node)
        first += [[] for _ in range(len(mine) - len(first))]
        if each.always:
            for schemas, schema in zip(first, mine, strict=False):
                schemas.append(schema)
            others += [limit] if is_limited else []
        evaluated += [True] if is_limited or (ARRAY in each.node and each.node is not own) else []
        evaluated += [each.node["contains"]] if "contains" in each.node else []
    if True not in evaluated:
        others.append({"anyOf": [*evaluated, rest]} if evaluated else rest)
    return {"prefixItems": [_all(each) for each in first], "items": _all(others)}


def _items(node: Mapping[str, Any]) -> tuple[list[Node], Node, bool]:
    """The first items, the others, and whether the schema says anything of these."""
    items = node.get("items")
    if isinstance(items, list):
        return items, node.get("additionalItems", True), "additionalItems" in node
    return node.get("prefixItems", []), True if items is None else items, items is not None


def _all(schemas: list[Node]) -> Node:
    schemas = [each for each in schemas if each is not True]
    if False in schemas:
        return False
    return {"allOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else True
