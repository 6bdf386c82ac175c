"""What every SASL mechanism is to those who carry its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kavka.model.errors import SaslAuthenticationFailed


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Who has proved to be who."""

    name: str
    """The name of the user; the principal is `User:` and this."""
    expires_at_ms: int | None = None
    """When the proof is no longer one: the end of a token."""
    token_authenticated: bool = False
    """Whether a delegation token was the proof."""


class SaslServer(Protocol):
    """One exchange as the judging side has it; it serves a single login."""

    @property
    def authenticated(self) -> Authenticated | None:
        """Who it is, once that is proved."""

    def respond(self, token: bytes) -> bytes:
        """The answer to a client's token; raises SaslAuthenticationFailed."""


class SaslClient(Protocol):
    """One exchange as the asking side has it."""

    def begin(self) -> bytes:
        """The first token."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge, None when there is nothing more to say; raises SaslAuthenticationFailed."""


class SaslRefused(SaslAuthenticationFailed, code=SaslAuthenticationFailed.code):
    """A login that failed for a reason that only the node's own log is told."""

    def __init__(self, reason: str, told: str = "") -> None:
        """The client is `told` something else, or what is told of any login that fails."""
        super().__init__(told)
        self.reason = reason
