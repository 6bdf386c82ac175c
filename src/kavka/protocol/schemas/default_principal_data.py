"""Who asked, as a broker writes it into the envelope around a client's request."""

from __future__ import annotations

from kavka.protocol.schema import data


@data(versions="0", flexible="0+")
class DefaultPrincipalData:
    type: str
    name: str
    token_authenticated: bool
