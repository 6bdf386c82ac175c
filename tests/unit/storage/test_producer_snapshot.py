from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.model.errors import KafkaStorageError
from kavka.storage.producer_snapshot import decode_snapshot, encode_snapshot
from kavka.storage.producer_state import MAX_SEQUENCE, BatchMeta, ProducerEntry

ENTRY = ProducerEntry(7, 2, 3, 1000, 40, [BatchMeta(1, 2, 38, 39, 900), BatchMeta(3, 5, 41, 43, 1000)])


def test_only_the_last_batch_is_kept_as_kafka_does():
    (entry,) = decode_snapshot(encode_snapshot([ENTRY]))
    assert entry == ProducerEntry(7, 2, 3, 1000, 40, [BatchMeta(3, 5, 41, 43, 1000)])
    assert entry.next_sequence == 6


def test_the_layout_is_kafkas():
    data = encode_snapshot([ENTRY])
    assert data[:2] == b"\0\1"
    assert int.from_bytes(data[6:10], "big") == 1
    assert len(data) == 10 + 46
    assert int.from_bytes(data[10:18], "big") == 7


def test_a_snapshot_without_producers_is_valid():
    assert decode_snapshot(encode_snapshot([])) == []


def test_a_producer_without_batches_keeps_its_epoch():
    (entry,) = decode_snapshot(encode_snapshot([ProducerEntry(7, 2, 3, 1000)]))
    assert entry == ProducerEntry(7, 2, 3, 1000)
    assert entry.next_sequence == 0


def test_a_batch_across_the_sequence_wrap_comes_back():
    (entry,) = decode_snapshot(
        encode_snapshot([ProducerEntry(1, 0, batches=[BatchMeta(MAX_SEQUENCE, 1, 10, 12, 5)], last_timestamp=5)])
    )
    assert entry.batches == [BatchMeta(MAX_SEQUENCE, 1, 10, 12, 5)]


@given(st.data())
def test_any_damage_is_noticed(data):
    sound = encode_snapshot([ENTRY])
    if data.draw(st.booleans()):
        damaged = sound[: data.draw(st.integers(0, len(sound) - 1))]
    else:
        at = data.draw(st.integers(0, len(sound) - 1))
        damaged = sound[:at] + bytes([sound[at] ^ data.draw(st.integers(1, 255))]) + sound[at + 1 :]
    with pytest.raises(KafkaStorageError):
        decode_snapshot(damaged)
