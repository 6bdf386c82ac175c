"""How a function is marked as the handler of a request, and with what a client must have the right to do.

A mark registers nothing; the dispatcher reads it, asks for the right, and refuses the request where it is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

from kavka.security.acl import CLUSTER_NAME, Operation, ResourceType

F = TypeVar("F", bound=Callable[..., Any])


class Right(NamedTuple):
    """What the whole request needs."""

    operation: Operation
    resource_type: ResourceType
    field: str | None = None
    """The field of the request that names the resource; None where it is the cluster."""

    def resource(self, request: Any) -> str:
        """The name of the resource that a request is about."""
        return CLUSTER_NAME if self.field is None else getattr(request, self.field) or ""


class Asking(Enum):
    """Where rights are asked for, if not for the request as a whole."""

    NOTHING = "nothing"
    PER_ITEM = "per item"


NOTHING: Final = Asking.NOTHING
"""Everybody who is connected is served."""
PER_ITEM: Final = Asking.PER_ITEM
"""The handler asks its context, item by item."""

Needs = Right | Asking


def on_cluster(operation: Operation) -> Right:
    """A right on the cluster."""
    return Right(operation, ResourceType.CLUSTER)


def on_group(operation: Operation, field: str = "group_id") -> Right:
    """A right on the group that a field names."""
    return Right(operation, ResourceType.GROUP, field)


def on_transactional_id(operation: Operation, field: str = "transactional_id") -> Right:
    """A right on the transactional id that a field names."""
    return Right(operation, ResourceType.TRANSACTIONAL_ID, field)


class Parts(NamedTuple):
    """The lists of a request whose items do not depend on each other, from the outermost to the innermost."""

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    """The lists of the answer that have a row for each."""
    size: int = 100
    """How many items the handler is given at a time: what it does with them within a few milliseconds."""
    fold: bool = False
    """Whether an item that is there again, word for word, is answered once; names always are."""
    unique: tuple[str, ...] = ()
    """The fields that no two items of the only list may share: the handler is given two of them at once to refuse."""


def handler(request: type, needs: Needs, *parts: Parts) -> Callable[[F], F]:
    """Mark a function as the one that serves a request class, if need be some of the items of a list at a time."""

    def mark(function: F) -> F:
        function.__handles__ = request  # type: ignore[attr-defined]
        function.__needs__ = needs  # type: ignore[attr-defined]
        function.__parts__ = parts  # type: ignore[attr-defined]
        return function

    return mark


def request_of(function: Callable[..., Any]) -> type:
    """The request class that a handler serves; TypeError for any other function."""
    request: type | None = getattr(function, "__handles__", None)
    if request is None:
        raise TypeError(f"{getattr(function, '__name__', function)} is not marked as a handler")
    return request


def needs_of(function: Callable[..., Any]) -> Needs:
    """What a client must have the right to do."""
    needs: Needs = function.__needs__  # type: ignore[attr-defined]
    return needs


def parts_of(function: Callable[..., Any]) -> tuple[Parts, ...]:
    """The lists that a handler is given in parts; versions may differ in which of them they have."""
    parts: tuple[Parts, ...] = function.__parts__  # type: ignore[attr-defined]
    return parts
