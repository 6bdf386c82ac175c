"""UpdateRaftVoter (key 82): a voter updates its endpoints and version range (KIP-853)."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, UInt16, fresh, message, request, response, tag


@message
class Listener:
    name: str
    host: str
    port: UInt16


@message
class KRaftVersionFeature:
    min_supported_version: Int16
    max_supported_version: Int16


@request(key=82, versions="0", flexible="0+")
class UpdateRaftVoterRequest:
    cluster_id: str | None
    current_leader_epoch: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    kraft_version_feature: KRaftVersionFeature


@message
class CurrentLeader:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: str
    port: Int32


@response(key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    current_leader: Annotated[CurrentLeader, tag(0)] = fresh()
