"""What a broker demands of the batches that clients produce: Kafka's rules, its order of them and its error codes.

A batch is judged by its records, as Kafka does: they are walked through, decompressed if need be, and the header has to
say what they are; a largest timestamp that is not theirs is corrected. No record becomes an object for it. What is
decompressed is bounded, and can be judged a part at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kavka.kernels.batches import (
    HEADER_SIZE,
    TRUNCATED,
    BatchInfo,
    Limits,
    RecordScan,
    accept,
    scan,
    scan_prefix,
    set_log_append_time,
)
from kavka.kernels.layout import NO_KEY
from kavka.model.errors import (
    CorruptMessage,
    InvalidRecord,
    KafkaError,
    MessageTooLarge,
    UnknownServerError,
    UnsupportedCompressionType,
)
from kavka.records.batch import record_fields
from kavka.records.builder import BatchBuilder, recoded, restamped
from kavka.records.framing import Frames, KnownSchemas, Refused, SchemaRules, SchemasNotKnown, Unknown
from kavka.records.rejections import RecordsRejected, TimestampsRejected
from kavka.wire.compression import CODECS, LZ4, ZSTD, chunks, compressor, is_unlinked_lz4

Buffer = bytes | bytearray | memoryview
Validated = tuple[Buffer, list[BatchInfo]]
"""The bytes to append, and the header of the batch that they are."""

LOG_APPEND_TIME: Final = "LogAppendTime"
CREATE_TIME: Final = "CreateTime"
UNLIMITED: Final = (1 << 63) - 1
MAX_DECOMPRESSED_BYTES: Final = 64 << 20
"""What a produced batch may hold, unless the node is told otherwise."""
_ANY_RATIO_BYTES: Final = 16 << 20
_MAX_RATIO: Final = 1000
"""Above 16 MiB a batch may be so many times larger than what was sent; below, equal records may compress as they do."""
_PIECE_BYTES: Final = 128 << 10  # of records that are not compressed, if each is looked into
_STEP_BYTES: Final = 4 << 10  # the least that a step of decompression counts
_RECORD_WORTH: Final = 16  # what walking through a record that is not compressed counts,
_PLAIN_SHIFT: Final = 6  # and each of its bytes: they are summed at many times the speed
_PACKING: Final = 8  # so many times the bytes that are compressed anew count
_RENUMBERED: Final = 10_000  # so many records, of so many bytes, are built anew if their offsets are not 0, 1, 2, ...
_RENUMBERED_BYTES: Final = 1 << 20
_TARGETS: Final = {"uncompressed": 0, **CODECS}
_ZSTD_SINCE: Final = 7  # Produce version (KIP-110)


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
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    schemas: SchemaRules | None = None
    """What schemas the records have to have."""
    as_it_came: bool = field(init=False)
    """Whether an uncompressed batch that breaks no rule of the kernel's is appended as it came."""
    limits: Limits = field(init=False, compare=False)
    """What the kernel asks of a batch."""

    def __post_init__(self) -> None:
        limits = Limits(self.max_message_bytes, self.after_max_ms, self.before_max_ms, self.compact)
        object.__setattr__(self, "limits", limits)
        as_it_came = self.timestamp_type == CREATE_TIME and self.compression_type in ("producer", "uncompressed")
        as_it_came &= self.schemas is None
        object.__setattr__(self, "as_it_came", as_it_came)


def validate(data: Buffer | None, rules: ProduceRules, now_ms: int, api_version: int = 13) -> Validated:
    """What to append of the records a client sent to a partition, and its one batch; raises what the client is told.

    The answer is the data itself unless its largest timestamp is wrong, or the topic wants others or another codec.
    Schemas are asked for elsewhere, before this: records whose schemas were not are refused for now.
    """
    if rules.as_it_came and data is not None:
        info = accept(data, 0, -1, now_ms, rules.limits)
        if info is not None and not info.codec:
            return data, [info]
    if rules.schemas is not None:
        raise SchemasNotKnown("it is not known yet whether the schemas of the records are registered")
    validation = Validation(data, rules, now_ms, api_version)
    validation.run(UNLIMITED)
    return validation.result()


class Validation:
    """A batch that is judged when it is told to `run`, a part at a time if it is compressed.

    If its records have to have schemas, it may stop in `unknown`, and goes on when it is `told` of them.
    """

    __slots__ = (
        "_api_version",
        "_begun",
        "_chunks",
        "_data",
        "_error",
        "_frames",
        "_info",
        "_now_ms",
        "_packed",
        "_packed_bytes",
        "_packer",
        "_plain",
        "_rules",
        "_scan",
        "_target",
        "_walked",
        "done",
    )

    def __init__(
        self,
        data: Buffer | None,
        rules: ProduceRules,
        now_ms: int,
        api_version: int = 13,
        known: KnownSchemas | None = None,
    ) -> None:
        self._data = b"" if data is None else data
        self._rules = rules
        self._now_ms = now_ms
        self._api_version = api_version
        self._error: KafkaError | None = None
        self._frames = None if known is None else Frames(known)
        self._walked = False
        self._begun = False
        self._plain = False
        """Whether it is uncompressed, and appended as it came."""
        self.done = False

    def _begin(self) -> int:
        """Look at the header, and at records that are not compressed; how many decompressed bytes that is worth."""
        data, rules, api_version = self._data, self._rules, self._api_version
        self._begun = True
        info = accept(data, 0, -1, self._now_ms, rules.limits)
        if info is not None and not info.codec and rules.as_it_came:
            self._info = info
            self._plain = self.done = True
            return info.count * _RECORD_WORTH + (info.size >> _PLAIN_SHIFT)
        if info is None or not info.codec:
            data, info = _examine(data, rules.max_message_bytes, api_version)
        codec = info.codec
        payload = memoryview(data)[HEADER_SIZE : info.size]
        if codec == ZSTD and api_version < _ZSTD_SINCE:
            raise UnsupportedCompressionType(f"zstd is not allowed in Produce version {api_version}")
        if codec == LZ4 and not is_unlinked_lz4(payload[:8]):
            raise UnknownServerError("the records are no lz4 frame of independent blocks, which Kafka's clients need")
        self._data = data
        self._info = info
        self._target = codec if rules.compression_type == "producer" else _TARGETS[rules.compression_type]
        self._packer = None if self._target == codec else compressor(self._target, rules.compression_level)
        self._packed: list[Buffer] = []
        self._packed_bytes = HEADER_SIZE
        self._scan = RecordScan(info.count, info.base_timestamp, info.is_log_append_time, info.max_timestamp)
        timed = rules.timestamp_type == CREATE_TIME
        self._scan.require(self._now_ms, rules.before_max_ms, rules.after_max_ms, rules.compact, timed)
        self._chunks = self._unpacked()
        return info.size >> _PLAIN_SHIFT

    def _unpacked(self) -> Iterator[Buffer]:
        """The records, decompressed; in pieces if each of them is to be looked into."""
        info = self._info
        payload = memoryview(self._data)[HEADER_SIZE : info.size]
        if not info.codec and self._frames is not None:
            return (payload[at : at + _PIECE_BYTES] for at in range(0, len(payload), _PIECE_BYTES))
        limit = UNLIMITED
        if info.codec:
            limit = min(self._rules.max_decompressed_bytes, max(_ANY_RATIO_BYTES, _MAX_RATIO * info.size))
        return chunks(info.codec, payload, limit)

    @property
    def unknown(self) -> Unknown | None:
        """The schemas that have to be known before it can go on."""
        return None if self._frames is None or self.done else self._frames.unknown

    def told(self, found: Refused | KafkaError) -> None:
        """Go on with what was found about the schemas, or be refused."""
        assert self._frames is not None
        try:
            self.done = not self._frames.told(found)
        except KafkaError as error:
            self._error = error
            self.done = True
        if not self.done:
            self._chunks = self._unpacked()

    def run(self, budget: int) -> int:
        """Go on for about so many decompressed bytes, or to the end (`done`); what is left of the budget."""
        if not self._begun:
            try:
                budget -= self._begin()
            except KafkaError as error:
                self._error = error
                self.done = True
        if self.done:
            return budget
        try:
            for chunk in self._chunks:
                budget -= max(len(chunk), _STEP_BYTES)
                if not self._walked:
                    budget -= self._walk(chunk)
                if self._frames is not None:
                    self._frames.feed(chunk)
                if budget <= 0:
                    return 0
            if not self._walked:
                self._scan.finish()
                if self._packer is not None:
                    self._pack(self._packer.flush())
                self._walked = True
            if self._frames is not None and not self._scan.rejections:
                self._frames.finish()
                if self._frames.unknown is not None:
                    return budget
        except CorruptMessage as error:  # what does not decompress is no error of the client's to Kafka
            self._error = UnknownServerError(str(error))
        except KafkaError as error:
            self._error = error
        self.done = True
        return budget

    def _walk(self, chunk: Buffer) -> int:
        """Judge a part of the records; what that is worth beside its bytes."""
        self._scan.feed(chunk)
        if self._packer is None:
            return 0
        self._pack(self._packer.compress(chunk))
        return len(chunk) * _PACKING

    def _pack(self, part: Buffer) -> None:
        """Keep what is compressed anew, but no more than a batch may have."""
        self._packed_bytes += len(part)
        if self._packed_bytes <= self._rules.max_message_bytes:
            self._packed.append(part)

    def result(self) -> Validated:
        """What to append, once it is done; raises why there is nothing."""
        if self._error is not None:
            raise self._error
        data, info = self._data, self._info
        if self._plain:
            return data, [info]
        walk = self._scan
        if walk.rejections:
            raise _rejection(walk, info)
        append_time = self._now_ms if self._rules.timestamp_type == LOG_APPEND_TIME else None
        if self._packer is not None:
            return self._recoded(append_time)
        if info.codec and not walk.consecutive:
            raise UnknownServerError("the records of a compressed batch do not have the offsets 0, 1, 2 and so on")
        if append_time is not None:
            stamped = bytearray(data)
            set_log_append_time(stamped, 0, append_time)
            return stamped, scan(stamped, check_crc=False)
        if walk.max_timestamp == info.max_timestamp and not info.is_log_append_time:
            return data, [info]
        data = restamped(data, info, walk.max_timestamp)
        return data, scan(data, check_crc=False)

    def _recoded(self, append_time: int | None) -> Validated:
        info, walk, limit = self._info, self._scan, self._rules.max_message_bytes
        size = self._packed_bytes
        _check_rewritable(info, walk)
        if walk.consecutive and not info.is_log_append_time:
            if size > limit:
                raise _too_large(size, limit)
            data = recoded(info, self._target, b"".join(self._packed), walk.max_timestamp, append_time)
        else:
            data = self._rebuilt(append_time)
            if len(data) > limit:
                raise _too_large(len(data), limit)
        return data, scan(data, check_crc=False)

    def _rebuilt(self, append_time: int | None) -> bytes:
        """A batch of the same records with the offsets 0, 1, 2 and so on, and the timestamps that readers saw."""
        info = self._info
        try:
            if info.count > _RENUMBERED:
                raise MessageTooLarge
            fields = record_fields(self._data, info, _RENUMBERED_BYTES)
        except MessageTooLarge:
            raise InvalidRecord(f"{info.count} records would have to be numbered anew, which is done for few") from None
        builder = BatchBuilder(
            codec=self._target,
            level=self._rules.compression_level,
            producer_id=info.producer_id,
            producer_epoch=info.producer_epoch,
            base_sequence=info.base_sequence,
            transactional=info.is_transactional,
            log_append_time=append_time,
        )
        for _, timestamp, key, value, headers in fields:
            builder.append(key, value, timestamp, headers)
        return builder.build()


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
    if info.codec > ZSTD:
        raise UnknownServerError(f"there is no codec {info.codec}")
    if info.last_offset_delta < 0 or info.count <= 0 or info.count != info.last_offset_delta + 1:
        raise InvalidRecord(f"{info.count} records do not have the offsets 0 to {info.last_offset_delta}")
    if info.is_control:
        raise InvalidRecord("clients may not write control records")
    if info.producer_id >= 0 and info.base_sequence < 0:
        raise InvalidRecord(f"producer {info.producer_id} sent sequence number {info.base_sequence}")
    return data, info


def _check_rewritable(info: BatchInfo, walk: RecordScan) -> None:
    """Refuse what Kafka's own builder of batches does not take, though its log would."""
    if walk.negative:
        raise UnknownServerError("a record has a negative timestamp")
    if info.is_transactional and info.producer_id == -1:
        raise UnknownServerError("transactional records without a producer id")
    if info.producer_id != -1 and (info.producer_epoch == -1 or info.base_sequence < 0):
        raise UnknownServerError(f"producer {info.producer_id} has no epoch, or no sequence number")


def _rejection(walk: RecordScan, info: BatchInfo) -> KafkaError:
    """What a client is told of records that break the topic's rules."""
    late = "a producer may not set LogAppendTime" if info.is_log_append_time else "the timestamp is out of bounds"
    errors = tuple(
        (index, "a compacted topic takes no record without a key" if kind == NO_KEY else late)
        for index, kind in walk.rejected
    )
    message = f"{walk.rejections} of {info.count} records are rejected; the first: {errors[0][1]}"
    if any(kind != NO_KEY for _, kind in walk.rejected):
        return TimestampsRejected(message, errors)
    return RecordsRejected(message, errors)


def _too_large(size: int, limit: int) -> KafkaError:
    return MessageTooLarge(f"the batch has {size} bytes, the topic takes {limit}")
