"""Control records: what the batches say that are not for consumers."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, Int64, UInt16, data, message, since


@data(versions="0", flexible="none")
class ControlRecordTypeSchema:
    type: Int16


@data(versions="0", flexible="none")
class EndTxnMarker:
    coordinator_epoch: Int32


@message
class LeaderChangeVoter:
    voter_id: Int32
    voter_directory_id: Annotated[Uuid, since(1)] = Uuid.ZERO


@data(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    version: Int16
    leader_id: Int32
    voters: list[LeaderChangeVoter]
    granting_voters: list[LeaderChangeVoter]


@data(versions="0", flexible="0+")
class SnapshotHeaderRecord:
    version: Int16
    last_contained_log_timestamp: Int64


@data(versions="0", flexible="0+")
class SnapshotFooterRecord:
    version: Int16


@data(versions="0", flexible="0+")
class KRaftVersionRecord:
    version: Int16
    kraft_version: Int16


@message
class Endpoint:
    name: str
    host: str
    port: UInt16


@message
class KRaftVersionFeature:
    min_supported_version: Int16
    max_supported_version: Int16


@message
class Voter:
    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: list[Endpoint]
    kraft_version_feature: KRaftVersionFeature


@data(versions="0", flexible="0+")
class VotersRecord:
    version: Int16
    voters: list[Voter]
