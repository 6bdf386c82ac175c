"""AddRaftVoter (key 80): add a voter to the metadata quorum (KIP-853)."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, UInt16, message, request, response, since


@message
class Listener:
    name: str
    host: str
    port: UInt16


@request(key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    cluster_id: str | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    ack_when_committed: Annotated[bool, since(1)] = True


@response(key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
