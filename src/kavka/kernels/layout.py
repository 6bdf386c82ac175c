"""What the twins of a kernel share: the shapes of their answers, their constants and their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.model.types import FileSlice, Uuid

Buffer = bytes | bytearray | memoryview

HEADER_SIZE: Final = 61  # of a batch
LOG_OVERHEAD: Final = 12  # base offset and length: what the length does not count
PREFIX_SIZE: Final = 17  # up to and including magic: what the CRC does not cover, but for the CRC itself

TRUNCATED: Final = "the batch goes beyond the end of the data"
WRONG_SIZE: Final = "the size is smaller than a batch can be"
WRONG_MAGIC: Final = "the magic byte is none that exists"
OLD_MAGIC: Final = "the message format is older than v2"
WRONG_CRC: Final = "the CRC does not match"

BAD_RECORD: Final = "a record's fields do not fill its size"
BYTES_LEFT: Final = "bytes follow the batch's last record"
RECORDS_MISSING: Final = "the batch has fewer records than its header says"

NO_KEY: Final = 1  # why a record is rejected
BAD_TIME: Final = 2
MAX_REJECTED: Final = 1000
"""So many records of a batch are told to be rejected; that there are more is only counted."""

Header = tuple[str, bytes | None]
RecordFields = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]
"""Offset, timestamp, key, value, headers."""

Topic = str | Uuid
"""A topic by name, or by id from Produce 13 and Fetch 13."""

ProduceTopic = tuple[Topic, list[tuple[int, memoryview | None]]]
"""Topic and its (partition, records)."""

ATTRIBUTES_LOW_BYTE = 22
"""Where in a batch its codec, and whether it is part of a transaction, stand."""
CODEC_MASK = 0x07
"""The part of that byte that is the codec."""

ProduceFields = tuple[str | None, int, int, list[ProduceTopic]]
"""Transactional id, acks, timeout in ms, topics."""

FetchPartition = tuple[int, int, int, int, int, int, Uuid, int]
"""Partition, current leader epoch, fetch offset, last fetched epoch, log start offset, max bytes, replica directory id,
high watermark; a field that the version lacks has Kafka's default."""


class FetchFields(NamedTuple):
    """A fetch request; a field that the version lacks has Kafka's default."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[Topic, list[FetchPartition]]]
    forgotten: list[tuple[Topic, list[int]]]
    rack_id: str
    cluster_id: str | None


NodeEndpoint = tuple[int, str, int, str | None]
"""Node id, host, port, rack."""

ProducedPartition = (
    tuple[int, int, int, int, int]
    | tuple[int, int, int, int, int, Sequence[tuple[int, str | None]], str | None, tuple[int, int] | None]
)
"""Partition, error code, base offset, log append time, log start offset; then, if there is more to say,
(batch index, message) of bad records, error message, (leader id, leader epoch)."""

Records = bytes | bytearray | memoryview | FileSlice | None

FetchedPartition = (
    tuple[int, int, int, int, int, Sequence[tuple[int, int]] | None, int, Records]
    | tuple[
        int,
        int,
        int,
        int,
        int,
        Sequence[tuple[int, int]] | None,
        int,
        Records,
        tuple[int, int] | None,
        tuple[int, int] | None,
        tuple[int, int] | None,
    ]
)
"""Partition, error code, high watermark, last stable offset, log start offset, (producer id, first offset) of aborted
transactions, preferred read replica, records; then, if there is more to say, diverging (epoch, end offset),
current (leader id, leader epoch), snapshot (end offset, epoch)."""

INLINE_RECORDS: Final = 4096
"""Records in memory up to this size are copied into the response; larger ones, and files, are pieces of it."""

MAX_PRODUCED: Final = 10_000
"""How many topics and partitions a Produce may name: more than fit into a producer's request with a batch for each."""
MAX_FETCHED: Final = 40_000
"""How many topics and partitions a Fetch may name, those to forget included: it is read at once."""
MAX_TAGS: Final = 100
"""The most tagged fields that a struct of Produce, of Fetch or of a request's header may have; Kafka knows two."""

NEVER: Final = 255

FLEXIBLE_FROM: Final = bytes(
    # by API key: the first version with tagged fields in its request header (header version 2)
    [9, 12, 6, 9, NEVER, NEVER, NEVER, NEVER, 8, 6]  # 0: Produce, Fetch, ListOffsets, Metadata, ...
    + [3, 6, 4, 4, 4, 5, 3, NEVER, 3, 5]  # 10: FindCoordinator, ...; 17 is SaslHandshake
    + [4, 2, 2, 4, 3, 3, 3, 1, 3, 2]  # 20: DeleteTopics, ...
    + [2, 2, 4, 2, 2, 2, 2, 2, 2, 2]  # 30: CreateAcls, ...
    + [2, 2, 2, 2, 1, 0, 0, NEVER, 1, 1]  # 40: ExpireDelegationToken, ...; 47 is OffsetDelete
    + [0, 0, 0, 1, 1]  # 50: DescribeUserScramCredentials, ...
    + [0] * 39  # 55 to 93: every API since DescribeQuorum
)

KEY_SIDE: Final = 0
VALUE_SIDE: Final = 1
SCHEMA_HEADERS: Final = (b"__key_schema_id", b"__value_schema_id")
"""The headers that name the schema of a record's key, and of its value."""
FRAME_BY_ID_BYTES: Final = 5
FRAME_BY_GUID_BYTES: Final = 17
MAX_UNKNOWN_FRAMES: Final = 100
"""About how many schemas that nobody knows yet a walk through a batch tells at once."""
