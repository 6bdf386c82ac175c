"""Records of ACLs, SCRAM credentials and delegation tokens."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int8, Int32, Int64, record


@record(key=18, versions="0", flexible="0+")
class AccessControlEntryRecord:
    id: Uuid
    resource_type: Int8
    resource_name: str
    pattern_type: Int8
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@record(key=19, versions="0", flexible="0+")
class RemoveAccessControlEntryRecord:
    id: Uuid


@record(key=11, versions="0", flexible="0+")
class UserScramCredentialRecord:
    name: str
    mechanism: Int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: Int32


@record(key=22, versions="0", flexible="0+")
class RemoveUserScramCredentialRecord:
    name: str
    mechanism: Int8


@record(key=10, versions="0", flexible="0+")
class DelegationTokenRecord:
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: str


@record(key=26, versions="0", flexible="0+")
class RemoveDelegationTokenRecord:
    token_id: str
