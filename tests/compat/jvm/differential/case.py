"""What a case is, and what cases may ask about the node they run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kavka.model.types import Uuid


class Seen(Protocol):
    """What has been seen on a node so far."""

    def topic_id(self, name: str) -> Uuid:
        """The id of a topic that exists."""
        ...

    def answer(self, case: str) -> Any:
        """The decoded answer to an earlier case, by its name."""
        ...


Request = object | Callable[[Seen], object]


@dataclass(frozen=True)
class Case:
    """One request at one version, or raw bytes on a connection of their own.

    `request` is a message, or a function of what was seen before that returns one. `raw` is everything that is sent,
    framed or not; the answer to it is read with the API and version in `reads` (else only whether one came counts).
    What a node does in its own time is asked for again `until` the answer says that it is done.
    """

    name: str
    request: Request | None = None
    version: int = 0
    note: str = ""
    raw: bytes | None = None
    reads: tuple[int, int] | None = None
    half_close: bool = False
    client_id: str | None = "kavka-compat"
    until: Callable[[Any], bool] | None = None
    masks: Mapping[str, str] = field(default_factory=dict)  # path pattern to the word that stands for it


def cases(*versions: int, name: str, request: Request, note: str = "") -> list[Case]:
    """The same request at several versions."""
    return [Case(f"{name} v{version}", request, version, note) for version in versions]
