"""Records that group others into one atomic change (KIP-868), and the one that only moves the log forward."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import record, tag


@record(key=23, versions="0", flexible="0+")
class BeginTransactionRecord:
    name: Annotated[str | None, tag(0)] = None


@record(key=24, versions="0", flexible="0+")
class EndTransactionRecord:
    pass


@record(key=25, versions="0", flexible="0+")
class AbortTransactionRecord:
    reason: Annotated[str | None, tag(0)] = None


@record(key=20, versions="0", flexible="0+")
class NoOpRecord:
    pass
