"""Which connections may ask about delegation tokens: those where who asks is proved, and not by a token itself."""

from __future__ import annotations

from typing import Final

from kavka.broker.context import Context
from kavka.model.errors import DelegationTokenRequestNotAllowed
from kavka.net.session import ANONYMOUS

USER: Final = "User"
UNKNOWN_MS: Final = -1
"""The time that is told of a token where the request for it was refused at once."""


def require_proof(ctx: Context) -> None:
    """Raise DelegationTokenRequestNotAllowed on a connection that must not ask; a broker that sends on has looked."""
    session = ctx.session
    proves = session.security_protocol != "PLAINTEXT" and (session.security_protocol, session.principal) != (
        "SSL",
        ANONYMOUS,
    )
    if session.token_authenticated or not (proves or ctx.forwarded):
        raise DelegationTokenRequestNotAllowed


def parts(principal: str) -> tuple[str, str]:
    """The type and the name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name
