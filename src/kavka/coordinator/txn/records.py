"""Records of `__transaction_state`: one per transactional id, with the whole state of its transaction."""

from __future__ import annotations

from struct import Struct
from typing import Annotated, Final

from kavka.coordinator.record import Record, Unknown
from kavka.model.errors import KafkaError
from kavka.protocol.compiler import decode
from kavka.protocol.primitives import Buffer
from kavka.protocol.schema import Int8, Int16, Int32, Int64, message, record, since, tag

_PREFIX: Final = Struct(">h")
_KIND: Final = 0
_VERSIONS: Final = (0, 1)


@record(key=0, versions="0", flexible="none")
class TransactionLogKey:
    transactional_id: str


@message
class PartitionsSchema:
    topic: str
    partition_ids: list[Int32]


@record(key=0, versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: Int64
    previous_producer_id: Annotated[Int64, since(1), tag(0)] = -1
    next_producer_id: Annotated[Int64, since(1), tag(1)] = -1
    producer_epoch: Int16
    next_producer_epoch: Annotated[Int16, since(1), tag(3)] = -1
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Annotated[Int16, since(1), tag(2)] = 0


def decode_transaction(key: Buffer | None, value: Buffer | None) -> Record | Unknown:
    """The record in a key and a value of the log; never raises."""
    if key is None or len(key) < _PREFIX.size:
        return Unknown("a record without a key")
    (kind,) = _PREFIX.unpack_from(key)
    if kind != _KIND:
        return Unknown(f"a record of unknown type {kind}")
    if value is not None and len(value) < _PREFIX.size:
        return Unknown("a transaction whose record has no version")
    version = 0 if value is None else _PREFIX.unpack_from(value)[0]
    if version not in _VERSIONS:
        return Unknown(f"a transaction of unknown version {version}")
    try:
        found = decode(TransactionLogKey, key, 0, _PREFIX.size)
        if value is None:
            return Record(found)
        return Record(found, decode(TransactionLogValue, value, version, _PREFIX.size), version)
    except KafkaError as error:
        return Unknown(f"a transaction that cannot be read: {error}")
