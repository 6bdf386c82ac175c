"""What a broker demands of the batches that clients produce: Kafka's rules, its order of them and its error codes.

The header decides: sizes, CRC, counts, flags, timestamps. Records are decoded only where a rule is about records:
a compacted topic's keys, a limit on how old a timestamp may be, another codec than the producer's. Kafka walks
through the records of every batch; here a batch that lies about its inside passes, and its readers see what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kavka.kernels.batches import HEADER_SIZE, TRUNCATED, BatchInfo, accept, scan, scan_prefix, set_log_append_time
from kavka.model.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from kavka.records.batch import Header, record_fields
from kavka.records.builder import NO_TIMESTAMP, BatchBuilder, restamped
from kavka.wire.compression import CODECS, LZ4, ZSTD, is_unlinked_lz4

Buffer = bytes | bytearray | memoryview
Fields = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]
RecordError = tuple[int, str]
"""The index of a record in its batch, and what is wrong with it."""

Validated = tuple[Buffer, list[BatchInfo]]
"""The bytes to append, and the header of the batch that they are."""

LOG_APPEND_TIME: Final = "LogAppendTime"
CREATE_TIME: Final = "CreateTime"
UNLIMITED: Final = (1 << 63) - 1
_TARGETS: Final = {"uncompressed": 0, **CODECS}
_ZSTD_SINCE: Final = 7  # Produce version (KIP-110)


class RecordsRejected(InvalidRecord, code=InvalidRecord.code):
    """Some of the batch's records break a rule of the topic."""

    def __init__(self, message: str = "", record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class TimestampsRejected(InvalidTimestamp, code=InvalidTimestamp.code):
    """Some of the batch's records have a timestamp outside of the topic's bounds."""

    def __init__(self, message: str = "", record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


@dataclass(frozen=True, slots=True)
class ProduceRules:
    """What a topic's configuration says about the batches produced to it."""

    max_message_bytes: int
    timestamp_type: str = CREATE_TIME
    compression_type: str = "producer"
    compression_level: int | None = None
    compact: bool = False
    before_max_ms: int = UNLIMITED
    after_max_ms: int = UNLIMITED
    header_decides: bool = field(init=False)
    """Whether a batch with a sound header is appended as it came."""

    def __post_init__(self) -> None:
        header_decides = (
            self.timestamp_type == CREATE_TIME
            and self.compression_type == "producer"
            and not self.compact
            and self.before_max_ms == UNLIMITED
        )
        object.__setattr__(self, "header_decides", header_decides)


def validate(data: Buffer | None, rules: ProduceRules, now_ms: int, api_version: int = 13) -> Validated:
    """What to append of the records a client sent to a partition, and its one batch; raises what the client is told.

    The answer is the data itself unless the topic wants other timestamps or another codec.
    """
    if rules.header_decides and data is not None:
        info = accept(data, 0, -1, rules.max_message_bytes, now_ms, rules.after_max_ms)
        if info is not None:
            if info.codec:
                _check_codec(data, info, api_version)
            return data, [info]
    data, info = _examine(data, rules.max_message_bytes, api_version)
    codec = info.codec
    _check_codec(data, info, api_version)
    target = codec if rules.compression_type == "producer" else _TARGETS[rules.compression_type]
    append_time = now_ms if rules.timestamp_type == LOG_APPEND_TIME else None
    if info.is_log_append_time and (append_time is not None or info.max_timestamp == NO_TIMESTAMP):
        raise InvalidTimestamp("a producer may not set LogAppendTime")
    if not rules.compact and target == codec:
        if append_time is not None:
            return _appended(data, append_time)
        if not _needs_look(info, rules, now_ms):
            return data, [info]
    fields = _decode(data, info)
    _check_records(fields, rules, now_ms if append_time is None else None)
    if target != codec:
        return _recoded(fields, info, target, rules, append_time)
    if append_time is not None:
        return _appended(data, append_time)
    return _restamped(data, info, max(timestamp for _, timestamp, *_ in fields))


def _needs_look(info: BatchInfo, rules: ProduceRules, now_ms: int) -> bool:
    """Whether the header alone cannot tell that every timestamp is within the topic's bounds."""
    latest = now_ms + rules.after_max_ms
    return (
        info.max_timestamp > latest
        or info.base_timestamp > latest
        or rules.before_max_ms < now_ms
        or info.is_log_append_time
    )


def _examine(data: Buffer | None, max_message_bytes: int, api_version: int) -> tuple[Buffer, BatchInfo]:
    """The batch in data that is not simply sound, or the first error that Kafka would see in it."""
    data = b"" if data is None else data
    view = memoryview(data)
    infos, valid, reason = scan_prefix(view, check_crc=False)
    if not infos and reason in (None, TRUNCATED):
        raise InvalidRecord("there is no whole record batch")
    if reason not in (None, TRUNCATED):
        scan(view, valid, check_crc=False)  # raises: this is where the fault is
    if len(infos) > 1:
        raise InvalidRecord(f"a partition's records are one batch, not {len(infos)}")
    info = infos[0]
    if info.codec == ZSTD and api_version < _ZSTD_SINCE:
        raise UnsupportedCompressionType(f"zstd is not allowed in Produce version {api_version}")
    if info.base_offset != 0:
        raise InvalidRecord(f"a produced batch has base offset 0, not {info.base_offset}")
    if info.size > max_message_bytes:
        raise _too_large(info.size, max_message_bytes)
    if info.size < len(view):
        data = view[: info.size]  # an incomplete batch behind it is dropped, as Kafka does
    scan(data)
    if info.last_offset_delta < 0 or info.count <= 0 or info.count != info.last_offset_delta + 1:
        raise InvalidRecord(f"{info.count} records do not have the offsets 0 to {info.last_offset_delta}")
    if info.is_control:
        raise InvalidRecord("clients may not write control records")
    if info.producer_id != -1 and info.base_sequence < 0:
        raise InvalidRecord(f"producer {info.producer_id} sent sequence number {info.base_sequence}")
    if info.codec > ZSTD:
        raise InvalidRecord(f"there is no codec {info.codec}")
    return data, info


def _check_codec(data: Buffer, info: BatchInfo, api_version: int) -> None:
    codec = info.codec
    if codec == ZSTD and api_version < _ZSTD_SINCE:
        raise UnsupportedCompressionType(f"zstd is not allowed in Produce version {api_version}")
    if codec == LZ4 and not is_unlinked_lz4(memoryview(data)[HEADER_SIZE : HEADER_SIZE + 8]):
        raise InvalidRecord("the records are no lz4 frame of independent blocks, which Kafka's clients need")


def _decode(data: Buffer, info: BatchInfo) -> list[Fields]:
    try:
        return record_fields(data, info)
    except CorruptMessage as error:  # the CRC is right: sending it again would not help
        raise InvalidRecord(str(error)) from None


def _check_records(fields: list[Fields], rules: ProduceRules, now_ms: int | None) -> None:
    """Check every record's key, and its timestamp unless the broker's replaces it (no `now_ms`)."""
    errors: list[RecordError] = []
    bad_time = False
    compact, oldest, latest = rules.compact, 0, 0
    if now_ms is not None:
        oldest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    for index, (_, timestamp, key, _, _) in enumerate(fields):
        if compact and key is None:
            errors.append((index, "a compacted topic takes no record without a key"))
        elif now_ms is None or timestamp == NO_TIMESTAMP:
            continue
        elif timestamp < oldest or timestamp > latest:
            errors.append((index, f"timestamp {timestamp} is not in {oldest} to {latest}"))
            bad_time = True
    if not errors:
        return
    message = f"{len(errors)} of {len(fields)} records are rejected; the first: {errors[0][1]}"
    if bad_time:
        raise TimestampsRejected(message, tuple(errors))
    raise RecordsRejected(message, tuple(errors))


def _appended(data: Buffer, append_time: int) -> Validated:
    data = bytearray(data)
    set_log_append_time(data, 0, append_time)
    return data, scan(data, check_crc=False)


def _restamped(data: Buffer, info: BatchInfo, newest: int) -> Validated:
    if newest == info.max_timestamp and not info.is_log_append_time:
        return data, [info]
    data = restamped(data, info, newest)
    return data, scan(data, check_crc=False)


def _recoded(
    fields: list[Fields], info: BatchInfo, codec: int, rules: ProduceRules, append_time: int | None
) -> Validated:
    builder = BatchBuilder(
        codec=codec,
        level=rules.compression_level,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        base_sequence=info.base_sequence,
        transactional=info.is_transactional,
        log_append_time=append_time,
    )
    for _, timestamp, key, value, headers in fields:
        builder.append(key, value, timestamp, headers)
    data = builder.build()
    if len(data) > rules.max_message_bytes:
        raise _too_large(len(data), rules.max_message_bytes)
    return data, scan(data, check_crc=False)


def _too_large(size: int, limit: int) -> KafkaError:
    return MessageTooLarge(f"the batch has {size} bytes, the topic takes {limit}")
