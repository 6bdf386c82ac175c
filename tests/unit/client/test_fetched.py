"""From fetched bytes to the records a consumer sees."""

from __future__ import annotations

import pytest

from kavka.client.fetched import AbortedTransaction, ConsumerRecord, FetchedPartition
from kavka.model.errors import CorruptMessage, MessageTooLarge
from kavka.model.types import TopicPartition
from kavka.records.batch import Record
from kavka.records.builder import build_batch
from kavka.records.control import txn_marker_batch

TP = TopicPartition("orders", 3)


def batch(first: int, *values: bytes, producer: int = -1, codec: int = 0) -> bytes:
    records = [Record(first + index, 1000 + index, b"k", value) for index, value in enumerate(values)]
    transactional = producer >= 0
    numbers = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    return build_batch(records, codec=codec, transactional=transactional, **numbers)


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    return txn_marker_batch(
        commit=commit, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=offset
    )


def fetched(data: bytes, position: int = 0, aborted: list[AbortedTransaction] | None = None) -> FetchedPartition:
    return FetchedPartition(TP, position, memoryview(data), aborted=aborted)


def values(partition: FetchedPartition) -> list[bytes | None]:
    return [record.value for records, _ in partition.batches() for record in records]


@pytest.mark.parametrize("codec", range(5))
def test_records_come_with_topic_partition_offset_and_time(codec: int) -> None:
    [(records, after)] = fetched(batch(7, b"a", b"b", codec=codec), 7).batches()
    assert records == [
        ConsumerRecord("orders", 3, 7, 1000, b"k", b"a"),
        ConsumerRecord("orders", 3, 8, 1001, b"k", b"b"),
    ]
    assert after == 9


def test_records_before_the_position_are_left_out() -> None:
    assert values(fetched(batch(0, b"a", b"b", b"c") + batch(3, b"d"), position=2)) == [b"c", b"d"]


def test_a_batch_that_ends_before_the_position_is_passed_over() -> None:
    assert values(fetched(batch(0, b"a") + batch(1, b"b"), position=1)) == [b"b"]


def test_a_batch_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    partition = fetched(batch(0, b"a") + batch(1, b"b" * 100)[:-1])
    assert values(partition) == [b"a"]
    assert partition.next_offset == 1


def test_a_fetch_that_holds_no_whole_batch_is_an_error_and_not_an_endless_wait() -> None:
    with pytest.raises(MessageTooLarge, match="offset 5"):
        fetched(batch(5, b"a" * 100)[:-1], position=5)


def test_damage_is_told_after_the_records_before_it() -> None:
    damaged = bytearray(batch(0, b"a") + batch(1, b"b"))
    damaged[-1] ^= 1
    partition = fetched(bytes(damaged))
    batches = partition.batches()
    assert next(batches)[0][0].value == b"a"
    with pytest.raises(CorruptMessage, match="orders-3 at offset 1"):
        next(batches)


def test_the_position_moves_over_control_batches() -> None:
    partition = fetched(batch(0, b"a", producer=9) + marker(1, 9, commit=True))
    assert [(len(records), after) for records, after in partition.batches()] == [(1, 1), (0, 2)]
    assert partition.next_offset == 2


def test_records_of_an_aborted_transaction_are_hidden_up_to_its_marker() -> None:
    data = (
        batch(0, b"aborted", producer=9)
        + batch(1, b"plain")
        + batch(2, b"other", producer=8)
        + batch(3, b"aborted too", producer=9)
        + marker(4, 9, commit=False)
        + batch(5, b"next", producer=9)
    )
    assert values(fetched(data, aborted=[AbortedTransaction(9, 0)])) == [b"plain", b"other", b"next"]


def test_an_abort_that_begins_later_hides_nothing_before_it() -> None:
    data = (
        batch(0, b"first", producer=9)
        + marker(1, 9, commit=True)
        + batch(2, b"second", producer=9)
        + marker(3, 9, commit=False)
    )
    assert values(fetched(data, aborted=[AbortedTransaction(9, 2)])) == [b"first"]


def test_without_an_aborted_list_everything_is_seen() -> None:
    data = batch(0, b"a", producer=9) + marker(1, 9, commit=False)
    assert values(fetched(data)) == [b"a"]
    assert values(fetched(data, aborted=[])) == [b"a"]
