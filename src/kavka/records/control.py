"""Control records: what brokers and the quorum write between the data for one another."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from kavka.model.errors import InvalidRecord
from kavka.protocol.compiler import decode, encode
from kavka.protocol.schemas.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kavka.records.batch import Record
from kavka.records.builder import BatchBuilder

_KEY = Struct(">hh")  # version, type
_MARKER = Struct(">hi")  # version, coordinator epoch


class ControlType(IntEnum):
    """What a control record says."""

    UNKNOWN = -1  # one that a newer broker wrote: to be skipped
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_KNOWN: Final = frozenset(ControlType)


QuorumMessage = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord

_MESSAGES: Final[dict[ControlType, type[QuorumMessage]]] = {
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_TYPES: Final = {message: kind for kind, message in _MESSAGES.items()}
_MESSAGE_VERSION: Final = 0  # Kafka writes and reads all of them at this version


class TxnMarker(NamedTuple):
    """The end of a transaction in one partition."""

    commit: bool
    coordinator_epoch: int


def control_key(kind: ControlType) -> bytes:
    """The key of a control record."""
    return _KEY.pack(0, kind)


def control_type(key: bytes | None) -> ControlType:
    """The type that a control record's key names."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord(f"a control record's key has {_KEY.size} bytes, not {len(key or b'')}")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"a control record's key has version {version}")
    return ControlType(kind) if kind in _KNOWN else ControlType.UNKNOWN


def parse_txn_marker(record: Record) -> TxnMarker | None:
    """The marker in a control record, or None if the record is of another type."""
    kind = control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _MARKER.size:
        raise InvalidRecord(f"a transaction marker has {_MARKER.size} bytes, not {len(record.value or b'')}")
    version, coordinator_epoch = _MARKER.unpack_from(record.value)
    if version < 0:
        raise InvalidRecord(f"a transaction marker has version {version}")
    return TxnMarker(kind is ControlType.COMMIT, coordinator_epoch)


def parse_quorum_message(record: Record) -> QuorumMessage | None:
    """The quorum's message in a control record, or None if the record is of another type."""
    message = _MESSAGES.get(control_type(record.key))
    if message is None:
        return None
    if record.value is None:
        raise InvalidRecord(f"a {message.__name__} without a value")
    return decode(message, record.value, _MESSAGE_VERSION)


def quorum_batch(messages: Sequence[QuorumMessage], *, base_offset: int, leader_epoch: int, timestamp: int) -> bytes:
    """A control batch of the quorum's messages."""
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=leader_epoch, control=True)
    for message in messages:
        builder.append(control_key(_TYPES[type(message)]), encode(message, _MESSAGE_VERSION), timestamp)
    return builder.build()


def txn_marker_batch(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch that ends a producer's transaction in a partition."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    builder.append(control_key(kind), _MARKER.pack(0, coordinator_epoch), timestamp)
    return builder.build()
