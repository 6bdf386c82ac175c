"""The response that refuses a whole request: every API has room for an error somewhere, and this is where.

A response with an error code at its top says it there. The others answer row by row: one row for each item of the
request, with what names the item copied, and the error as far up in the row as it has a place. Which list of the
response answers which list of the request is read off the schemas; `_ANSWERS` has those whose names do not tell.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from kavka.model.errors import KafkaError
from kavka.protocol.registry import API
from kavka.protocol.schema import REQUIRED, Array, Field, Struct, build_default, declared, fields_of

ERROR_CODES: Final = ("error_code", "partition_error_code")

_ANSWERS: Final = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partition_responses": ("partition_data",),
    "results": ("topics", "groups_names", "resources", "creations", "dirs.topics", "deletions", "upsertions"),
    "coordinators": ("coordinator_keys",),
    "filter_results": ("filters",),
    "groups": ("group_ids",),
    "partitions": ("partition_indexes",),
    "transaction_states": ("transactional_ids",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
}
"""A list of a response: the lists of a request that it answers, beside the one of its own name."""

_NAMES: Final = {
    **{name: (name,) for name in ("entity", "group_id", "index", "name", "partition", "producer_id", "resource_name")},
    **{name: (name,) for name in ("resource_type", "topic", "topic_id", "transactional_id")},
    "key": (),
    "partition_id": (),
    "partition_index": ("partition_index", "partition"),
    "topic_name": ("topic_name", "name"),
    "user": ("name",),
}
"""What tells a row from the others: the names that a request may have for it, none where the item is that itself."""

_UNKNOWN: Final = frozenset(
    {
        "base_offset", "committed_offset", "log_append_time_ms", "log_start_offset", "low_watermark", "node_id",
        "offset", "port", "producer_epoch", "timestamp",
    }
)  # fmt: skip
"""What is -1 in a refusal, because the zero of its type would mean something."""

_NO_ROWS: Final = frozenset({"DescribeLogDirsResponse"})
"""Responses whose rows answer nothing that was asked for."""


class _Place(NamedTuple):
    """Where a response, or a row of it, has room for an error at one version."""

    code: str | None
    message: str | None
    unknown: tuple[tuple[str, int | None], ...]
    """What is not the zero of its type when it is not known."""
    rows: tuple[Field, ...]
    """The lists to look in when there is no code at this level."""


def refusal(request: Any, version: int, error: KafkaError) -> Any:
    """The response that says an error of all that a request asked for."""
    steps = refusal_steps(request, version, error)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def refusal_steps(request: Any, version: int, error: KafkaError) -> Generator[None, None, Any]:
    """The same as a generator that gives way after every row."""
    response = build_default(API[declared(type(request)).key].response())
    yield from _say(response, request, version, error)
    return response


def _say(answer: Any, asked: Any, version: int, error: KafkaError) -> Iterator[None]:
    cls: type = type(answer)
    place = _place(cls, version)
    for name, unknown in place.unknown:
        setattr(answer, name, unknown)
    if place.code is not None:
        setattr(answer, place.code, error.code)
        if place.message is not None:
            setattr(answer, place.message, error.message or None)
        return
    for field in place.rows:
        row_class = _row_class(field)
        assert row_class is not None
        rows = getattr(answer, field.name)
        for item in _items(asked, field.name, version):
            row: Any = build_default(row_class)
            yield from _say(row, item, version, error)
            _name(row, item)
            rows.append(row)
            yield


def _items(asked: Any, answered_by: str, version: int) -> Iterator[Any]:
    """The items of a request that a list of its response answers."""
    lists = {field.name for field in fields_of(type(asked)) if version in field.versions}
    for path in (answered_by, *_ANSWERS.get(answered_by, ())):
        outer, _, inner = path.partition(".")
        if outer in lists:
            for item in getattr(asked, outer) or ():
                if inner:
                    yield from getattr(item, inner)
                else:
                    yield item


def _name(row: Any, item: Any) -> None:
    """Copy what tells a row from the others."""
    if isinstance(item, str | int):
        setattr(row, next(field.name for field in fields_of(type(row)) if field.name in _NAMES), item)
        return
    given = {field.name for field in fields_of(type(item))}
    for field in fields_of(type(row)):
        for name in _NAMES.get(field.name, ()):
            if name in given:
                value, row_class = getattr(item, name), _row_class(field)
                setattr(
                    row, field.name, value if row_class is None else [_like(row_class, element) for element in value]
                )
                break


def _like(cls: type, item: Any) -> Any:
    """What the response calls the same thing."""
    return cls(**{field.name: getattr(item, field.name) for field in fields_of(cls)})


def _row_class(field: Field) -> type | None:
    is_list = isinstance(field.type, Array) and isinstance(field.type.element, Struct)
    return field.type.element.cls if is_list else None  # type: ignore[union-attr]


@cache
def _place(cls: type, version: int) -> _Place:
    fields = [field for field in fields_of(cls) if version in field.versions]
    code = next((field.name for field in fields if field.name in ERROR_CODES), None)
    message = next((field.name for field in fields if field.name == "error_message"), None)
    unknown: list[tuple[str, int | None]] = [(field.name, -1) for field in fields if field.name in _UNKNOWN]
    unknown += [(field.name, None) for field in fields if version in field.nullable and field.default is REQUIRED]
    rows = () if cls.__name__ in _NO_ROWS else tuple(field for field in fields if _has_room(field, version))
    return _Place(code, message, tuple(unknown), rows)


def _has_room(field: Field, version: int) -> bool:
    row_class = _row_class(field)
    if row_class is None:
        return False
    place = _place(row_class, version)
    return place.code is not None or bool(place.rows)
