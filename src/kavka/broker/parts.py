"""Requests with long lists, served a part at a time: a handler that treats each item by itself never sees all of them.

The parts of an answer are put together again as if it had been one; in between the others have their turn. What is
asked for twice by name is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from itertools import chain, groupby, islice
from typing import Any, Final, NamedTuple

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts
from kavka.model.errors import InvalidRequest
from kavka.pacing.turn import Turn
from kavka.protocol.schema import Array, Message, fields_of, replace

Handler = Callable[[Any, Context], Coroutine[Any, Any, Any]]

MAX_ROWS: Final = 500_000
"""The most rows that an answer may have; only what is asked for again and again comes to so many."""
_SAID_OF_ROWS: Final = ("error_code", "error_message", "partition_error_code")


class Leaf(NamedTuple):
    """One item of the innermost list, and the items of the outer lists that it is in, with their places."""

    places: tuple[int, ...]
    items: tuple[Any, ...]


NOWHERE: Final = Leaf((), ())


def served_in_parts(handler: Handler, ways: tuple[Parts, ...]) -> Handler:
    """The handler of a request whose items are independent of each other."""

    async def whole(request: Any, context: Context) -> Any:
        parts = next((way for way in ways if getattr(request, way.asked[0])), ways[0])
        if leaf_count(request, parts.asked, parts.size) < parts.size:
            return await handler(request, context)
        turn, rows, seen = Turn(), 0, set[Hashable]()
        leaves = leaves_of(request, parts.asked, NOWHERE)
        if parts.unique:
            leaves = await twice_at_most(leaves, parts, turn)
        part = list(islice(leaves, parts.size))
        answer: Any = None
        last = NOWHERE
        while part:
            fresh = [leaf for leaf in part if is_new(leaf, parts, seen)]
            if fresh:
                found = await handler(build(request, parts.asked, fresh), context)
                rows += count(found, parts.answered)
                if rows > MAX_ROWS:
                    raise InvalidRequest(f"the answer would have more than {MAX_ROWS} rows")
                if answer is None:
                    answer = found
                else:
                    if found_ms := getattr(found, "throttle_time_ms", 0):
                        answer.throttle_time_ms = max(answer.throttle_time_ms, found_ms)
                    merge(answer, found, parts.answered, shared(last, fresh[0]), parts.size)
                last = fresh[-1]
            part = list(islice(leaves, parts.size))
            await turn.breathe()
        return answer

    return whole


def leaf_count(message: Any, path: tuple[str, ...], enough: int) -> int:
    """How many innermost items there are, counted until there are enough of them."""
    items = getattr(message, path[0]) or ()
    if len(path) == 1 or len(items) >= enough:
        return len(items)
    found = 0
    for item in items:
        found += max(leaf_count(item, path[1:], enough), 1)
        if found >= enough:
            break
    return found


def leaves_of(message: Any, path: tuple[str, ...], above: Leaf) -> Iterator[Leaf]:
    """All innermost items; an item whose own list is empty or null stands for itself."""
    for place, item in enumerate(getattr(message, path[0]) or ()):
        here = Leaf((*above.places, place), (*above.items, item))
        if len(path) > 1 and getattr(item, path[1]):
            yield from leaves_of(item, path[1:], here)
        else:
            yield here


async def twice_at_most(leaves: Iterator[Leaf], parts: Parts, turn: Turn) -> Iterator[Leaf]:
    """The items of a list that shall have none twice: of those that it has more often two, next to each other."""
    found: dict[Hashable, list[Leaf]] = {}
    while part := list(islice(leaves, parts.size)):
        for leaf in part:
            same = found.setdefault(tuple(value_of(getattr(leaf.items[-1], name)) for name in parts.unique), [])
            if len(same) < 2:
                same.append(leaf)
        await turn.breathe()
    pairs_first = sorted(found.values(), key=len, reverse=True)  # so that no part ends within one
    return chain.from_iterable(pairs_first)


def is_new(leaf: Leaf, parts: Parts, seen: set[Hashable]) -> bool:
    """Whether an item has to be answered, and was not before."""
    item: Any = leaf.items[-1]
    if len(parts.asked) > 1 or not (parts.fold or type(item) is str):
        return True
    before = len(seen)
    seen.add(
        item if type(item) is str else tuple(value_of(getattr(item, field.name)) for field in fields_of(type(item)))
    )
    return len(seen) > before


def value_of(item: Any) -> Hashable:
    """What a field or an item of a list says, as one value."""
    if isinstance(item, list):
        return tuple(value_of(one) for one in item)
    if isinstance(item, Message):
        return tuple(value_of(getattr(item, field.name)) for field in fields_of(type(item)))
    found: Hashable = item
    return found


def build(message: Any, path: tuple[str, ...], leaves: Iterable[Leaf], depth: int = 0) -> Any:
    """A copy of a message with some of its items."""
    items = []
    for _, group in groupby(leaves, key=lambda leaf: leaf.places[depth]):
        members = list(group)
        item = members[0].items[depth]
        if len(path) > 1 and len(members[0].places) > depth + 1:
            item = build(item, path[1:], members, depth + 1)
        items.append(item)
    return replace(message, **{path[0]: items})


def shared(last: Leaf, first: Leaf) -> int:
    """How many of the outer items of two neighbours are the same, because a part ended between them."""
    number = 0
    for place, other in zip(last.places[:-1], first.places[:-1], strict=False):
        if place != other:
            break
        number += 1
    return number


def merge(answer: Any, more: Any, path: tuple[str, ...], cut: int, size: int) -> None:
    """Put the rows of another part behind those of an answer, or into them where an outer item was cut in two."""
    rows, found = getattr(answer, path[0]), getattr(more, path[0])
    if not cut or len(path) == 1:
        rows.extend(found)
        return
    known = {name_of(row): row for row in rows[-size:]}
    for row in found:
        same = known.get(name_of(row))
        if same is None:
            rows.append(row)
        else:
            merge(same, row, path[1:], cut - 1, size)


def name_of(row: Any) -> tuple[Any, ...]:
    """What a row is about: all that is neither a list nor an error."""
    return tuple(
        getattr(row, field.name)
        for field in fields_of(type(row))
        if not isinstance(field.type, Array) and field.name not in _SAID_OF_ROWS
    )


def count(message: Any, path: tuple[str, ...]) -> int:
    """How many innermost rows there are."""
    rows = getattr(message, path[0]) or ()
    return len(rows) if len(path) == 1 else sum(count(row, path[1:]) for row in rows)
