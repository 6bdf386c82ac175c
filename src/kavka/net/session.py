"""Who is at the other end of a connection, and by which door they came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

ANONYMOUS: Final = "User:ANONYMOUS"
LONGEST_KEPT: Final = 512
"""Characters that are kept of what a client calls itself: it may say so before anybody knows who it is."""


class Guard(Protocol):
    """Knows what a connection may do."""

    def allows(self, operation: int, resource_type: int, name: str, api_key: int, asked: bool = True, /) -> bool:
        """Whether it may do this with a resource, as a request of an API asks; else only whether it might."""

    def allows_any(self, operation: int, resource_type: int, /) -> bool:
        """Whether it may do this with at least one resource of a type."""


@dataclass(slots=True)
class Session:
    """One per connection, from its first byte to its last; a log-in changes the principal."""

    id: int
    """The connection's number, which no other of this server ever has."""
    listener: str
    client_host: str
    client_port: int
    principal: str = ANONYMOUS
    guard: Guard | None = None
    """None where nobody is kept from anything."""
    security_protocol: str = "PLAINTEXT"
    """How the listener secures its connections."""
    token_authenticated: bool = False
    """Whether the client logged in with a delegation token, which hands out no others."""
    client_id: str = ""
    """What the client called itself in its last request, beside those to produce and fetch."""
    client_software_name: str = ""
    client_software_version: str = ""
    """What ApiVersions told (KIP-511); empty before, and of clients that do not tell."""
