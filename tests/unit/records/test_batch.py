"""Reading records, with the builders of aiokafka and kafka-python as witnesses."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder

from kavka.kernels.batches import scan
from kavka.model.errors import CorruptMessage, InvalidRecord, MessageTooLarge
from kavka.records.batch import Record, record_fields, records
from kavka.records.builder import build_batch

TIME = 1_700_000_000_000
RECORDS = [
    Record(0, TIME, b"key", b"value"),
    Record(1, TIME + 5, None, b"no key", (("h", b"1"), ("h", b"2"), ("ü", None))),
    Record(2, TIME - 9, b"tombstone", None),
    Record(3, TIME, b"", b""),
    Record(4, TIME + 1, b"long", bytes(range(256)) * 100),
]
WITHOUT_SNAPPY = [0, 1, 3, 4]  # kafka-python's needs a library of its own


@pytest.mark.parametrize(
    ("builder", "codec"),
    [(AioBuilder, codec) for codec in range(5)] + [(KafkaBuilder, codec) for codec in WITHOUT_SNAPPY],
)
def test_what_other_clients_build_is_read(builder: Any, codec: int) -> None:
    batch = builder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for record in RECORDS:
        batch.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    data = b"before" + bytes(batch.build())
    (info,) = scan(data, 6)
    assert info.codec == codec
    assert list(records(data, info)) == RECORDS


def test_the_bare_fields_are_the_same_records() -> None:
    data = build_batch(RECORDS)
    (info,) = scan(data)
    assert [Record(*fields) for fields in record_fields(data, info)] == RECORDS


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_inflates_too_far_is_refused(codec: int) -> None:
    data = build_batch([Record(0, TIME, None, bytes(1_000_000))], codec=codec)
    (info,) = scan(data)
    assert info.size < 60_000
    with pytest.raises(MessageTooLarge):
        records(data, info, max_bytes=999_999)


def test_a_payload_of_another_codec_is_corrupt() -> None:
    data = bytearray(build_batch(RECORDS))
    data[22] |= 4
    (info,) = scan(data, check_crc=False)
    with pytest.raises(CorruptMessage):
        records(data, info)


def test_a_wrong_count_is_invalid() -> None:
    for count in (0, 4, 6, 0x7FFFFFFF):
        data = bytearray(build_batch(RECORDS))
        data[57:61] = count.to_bytes(4, "big")
        (info,) = scan(data, check_crc=False)
        with pytest.raises(InvalidRecord):
            records(data, info)
