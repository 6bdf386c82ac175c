"""The record of a classic group: all of it, written when a generation gets its assignment or the group empties."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int32, Int64, message, record, since


@record(key=2, versions="0", flexible="none")
class GroupMetadataKey:
    group: str


@message
class MemberMetadata:
    member_id: str
    group_instance_id: Annotated[str | None, since(3), IGNORABLE] = None
    client_id: str
    client_host: str
    rebalance_timeout: Annotated[Int32, since(1), IGNORABLE] = -1
    session_timeout: Int32
    subscription: bytes
    assignment: bytes


@record(key=2, versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: str
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Annotated[Int64, since(2), IGNORABLE] = -1
    members: list[MemberMetadata]


RECORDS = ((GroupMetadataKey, GroupMetadataValue),)
