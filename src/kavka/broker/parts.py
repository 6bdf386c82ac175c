"""Requests with long lists, served a part at a time: a handler that treats each item by itself never sees all of them.

The parts of an answer are put together again as if it had been one; in between the others have their turn. What is
asked for twice by name is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts
from kavka.model.errors import InvalidRequest
from kavka.protocol.schema import Array, fields_of, replace
from kavka.quorum.turn import Turn

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
        parts = next((one for one in ways if getattr(request, one.asked[0])), ways[0])
        leaves = leaves_of(request, parts.asked, NOWHERE)
        part = list(islice(leaves, parts.size))
        if len(part) < parts.size:
            return await handler(request, context)
        if parts.unique:
            leaves = twice_at_most(request, parts)
            part = list(islice(leaves, parts.size))
        turn, rows, seen = Turn(), 0, set[Hashable]()
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


def leaves_of(message: Any, path: tuple[str, ...], above: Leaf) -> Iterator[Leaf]:
    """All innermost items; an item whose own list is empty or null stands for itself."""
    for place, item in enumerate(getattr(message, path[0]) or ()):
        here = Leaf((*above.places, place), (*above.items, item))
        if len(path) > 1 and getattr(item, path[1]):
            yield from leaves_of(item, path[1:], here)
        else:
            yield here


def twice_at_most(message: Any, parts: Parts) -> Iterator[Leaf]:
    """The items of a list that shall have none twice: of those that it has more often two, next to each other."""
    found: dict[Hashable, list[Leaf]] = {}
    for place, item in enumerate(getattr(message, parts.asked[0]) or ()):
        same = found.setdefault(tuple(getattr(item, name) for name in parts.unique), [])
        if len(same) < 2:
            same.append(Leaf((place,), (item,)))
    for same in sorted(found.values(), key=len, reverse=True):  # pairs first, so that no part ends within one
        yield from same


def is_new(leaf: Leaf, parts: Parts, seen: set[Hashable]) -> bool:
    """Whether an item has to be answered, and was not before."""
    item: Any = leaf.items[-1]
    if len(parts.asked) > 1 or not (parts.fold or type(item) is str):
        return True
    if type(item) is not str:
        item = tuple(
            tuple(value) if isinstance(value := getattr(item, field.name), list) else value
            for field in fields_of(type(item))
        )
    before = len(seen)
    seen.add(item)
    return len(seen) > before


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
    for one, other in zip(last.places[:-1], first.places[:-1], strict=False):
        if one != other:
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
