"""How a function is marked as the handler of a request. A mark registers nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def handler(request: type) -> Callable[[F], F]:
    """Mark a function as the one that serves a request class."""

    def mark(function: F) -> F:
        function.__handles__ = request  # type: ignore[attr-defined]
        return function

    return mark


def request_of(function: Callable[..., Any]) -> type:
    """The request class that a handler serves; TypeError for any other function."""
    request: type | None = getattr(function, "__handles__", None)
    if request is None:
        raise TypeError(f"{getattr(function, '__name__', function)} is not marked as a handler")
    return request
