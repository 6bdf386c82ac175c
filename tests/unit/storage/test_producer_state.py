from __future__ import annotations

import pytest

from kavka.kernels.batches import BatchInfo
from kavka.model.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from kavka.model.types import TopicPartition
from kavka.storage.producer_state import (
    MAX_EPOCH,
    MAX_SEQUENCE,
    AppendOrigin,
    BatchMeta,
    CompletedTransaction,
    EndTransactionMarker,
    PreparedAppend,
    ProducerEntry,
    ProducerStates,
)

CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION
TXN, CONTROL = 0x10, 0x20


def batch(pid=1, epoch=0, seq=0, count=1, attributes=0, timestamp=1000):
    return BatchInfo(
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=seq,
        last_offset_delta=count - 1,
        count=count,
        attributes=attributes,
        max_timestamp=timestamp,
    )


class World:
    """Producer states and the offset the next batch gets."""

    def __init__(self) -> None:
        self.states = ProducerStates(TopicPartition("t", 0))
        self.offset = 0

    def append(self, info, origin=CLIENT, marker=None, version=0):
        prepared = PreparedAppend()
        self.states.prepare(info, self.offset, origin, prepared, lambda: marker, version)
        self.offset += info.last_offset_delta + 1
        return self.states.commit(prepared)

    def end(self, pid=1, epoch=0, commit=True, coordinator=0, origin=COORDINATOR, version=0):
        return self.append(
            batch(pid, epoch, -1, attributes=TXN | CONTROL),
            origin,
            EndTransactionMarker(commit, coordinator, 2000),
            version,
        )


@pytest.fixture
def world():
    return World()


def test_a_producers_batches_continue_its_sequence(world):
    world.append(batch(seq=0, count=3))
    world.append(batch(seq=3))
    entry = world.states.get(1)
    assert (entry.last_sequence, entry.last_offset, entry.next_sequence) == (3, 3, 4)


@pytest.mark.parametrize("sequence", [0, 2, 4, 100])
def test_a_gap_or_a_step_back_is_out_of_order(world, sequence):
    world.append(batch(seq=0, count=3))
    before = world.states.get(1).copy()
    with pytest.raises(OutOfOrderSequenceNumber) as raised:
        world.append(batch(seq=sequence))
    assert raised.value.code == 45
    assert world.states.get(1) == before


def test_sequences_wrap_to_zero_after_the_largest(world):
    world.append(batch(seq=MAX_SEQUENCE - 1, count=2))
    world.append(batch(seq=0))
    assert world.states.get(1).last_sequence == 0


def test_a_batch_may_span_the_wrap(world):
    world.append(batch(seq=MAX_SEQUENCE, count=3))
    entry = world.states.get(1)
    assert entry.batches[-1] == BatchMeta(MAX_SEQUENCE, 1, 0, 2, 1000)
    assert entry.duplicate_of(batch(seq=MAX_SEQUENCE, count=3)) is not None
    world.append(batch(seq=2))


def test_an_unknown_producer_may_start_anywhere(world):
    world.append(batch(seq=77))
    assert world.states.get(1).last_sequence == 77


def test_a_new_epoch_starts_at_zero_and_forgets_the_old_batches(world):
    world.append(batch(epoch=0, seq=0, count=5))
    with pytest.raises(OutOfOrderSequenceNumber):
        world.append(batch(epoch=1, seq=5))
    world.append(batch(epoch=1, seq=0))
    assert len(world.states.get(1).batches) == 1


def test_an_old_epoch_is_fenced(world):
    world.append(batch(epoch=3))
    for origin in (CLIENT, COORDINATOR):
        with pytest.raises(InvalidProducerEpoch) as raised:
            world.append(batch(epoch=2, seq=1), origin)
        assert raised.value.code == 47


def test_what_is_replicated_is_taken_as_it_is(world):
    world.append(batch(epoch=3, seq=9), REPLICATION)
    world.append(batch(epoch=2, seq=50), REPLICATION)
    assert world.states.get(1).last_sequence == 50


def test_coordinators_write_without_sequences(world):
    world.append(batch(seq=-1, attributes=TXN), COORDINATOR)
    world.append(batch(seq=-1, attributes=TXN), COORDINATOR)
    assert world.states.get(1).last_offset == 1


def test_five_batches_are_remembered_for_duplicates(world):
    for number in range(7):
        world.append(batch(seq=number * 2, count=2, timestamp=1000 + number))
    entry = world.states.get(1)
    found = [entry.duplicate_of(batch(seq=number * 2, count=2)) for number in range(7)]
    assert found[:2] == [None, None]
    assert found[2] == BatchMeta(4, 5, 4, 5, 1002)
    assert all(found[2:])
    assert entry.duplicate_of(batch(seq=4, count=1)) is None
    assert entry.duplicate_of(batch(seq=4, count=2, epoch=1)) is None


def test_a_transaction_is_open_from_its_first_batch_to_its_marker(world):
    world.append(batch(attributes=TXN))
    world.append(batch(seq=1, attributes=TXN))
    assert world.states.ongoing == {0: 1}
    assert world.states.first_unstable_offset() == 0
    assert world.end() == [(CompletedTransaction(1, 0, 2, False), 3)]
    assert world.states.ongoing == {}
    assert world.states.unreplicated == {0: 2}
    assert world.states.first_unstable_offset() == 0
    world.states.replicated(2)
    assert world.states.first_unstable_offset() == 0
    world.states.replicated(3)
    assert world.states.first_unstable_offset() is None


def test_the_stable_offset_after_a_transaction_is_the_next_open_ones_start(world):
    world.append(batch(pid=1, attributes=TXN))
    world.append(batch(pid=2, attributes=TXN))
    world.append(batch(pid=3, attributes=TXN))
    assert world.end(pid=1, commit=False) == [(CompletedTransaction(1, 0, 3, True), 1)]
    assert world.end(pid=3, commit=False) == [(CompletedTransaction(3, 2, 4, True), 1)]
    assert world.end(pid=2, commit=False) == [(CompletedTransaction(2, 1, 5, True), 6)]


def test_data_outside_an_open_transaction_is_refused(world):
    world.append(batch(attributes=TXN))
    with pytest.raises(InvalidTxnState) as raised:
        world.append(batch(seq=1))
    assert raised.value.code == 48


def test_a_marker_without_data_completes_nothing_but_fences(world):
    assert world.end(epoch=5) == []
    with pytest.raises(InvalidProducerEpoch):
        world.append(batch(epoch=4))


def test_an_old_coordinators_marker_is_fenced(world):
    world.end(coordinator=5)
    with pytest.raises(TransactionCoordinatorFenced) as raised:
        world.end(coordinator=4)
    assert raised.value.code == 52
    world.end(coordinator=4, origin=REPLICATION)


def test_a_marker_with_a_bumped_epoch_starts_the_sequence_anew(world):
    world.append(batch(attributes=TXN, count=3))
    world.end(epoch=1, version=2)
    entry = world.states.get(1)
    assert (entry.producer_epoch, entry.batches, entry.next_sequence) == (1, [], 0)
    world.append(batch(epoch=1, seq=0, attributes=TXN))


def test_a_marker_of_the_same_epoch_is_legacy_or_a_retry(world):
    world.append(batch(attributes=TXN))
    with pytest.raises(InvalidProducerEpoch):
        world.end(epoch=0, version=2)  # while the transaction is open only the bumped epoch may end it
    world.end(epoch=0, version=0)
    assert world.end(epoch=0, version=2) == []  # the retry of a marker that was written


def test_the_last_epoch_of_all_may_end_its_own_transaction(world):
    world.append(batch(epoch=MAX_EPOCH, attributes=TXN))
    assert len(world.end(epoch=MAX_EPOCH, version=2)) == 1


def test_an_emptied_marker_changes_nothing(world):
    world.append(batch(pid=9, attributes=TXN | CONTROL), REPLICATION, marker=None)
    assert len(world.states) == 0


def test_a_transaction_within_one_append_is_completed_by_it(world):
    prepared = PreparedAppend()
    states = world.states
    states.prepare(batch(attributes=TXN), 0, REPLICATION, prepared, lambda: None)
    states.prepare(
        batch(seq=-1, attributes=TXN | CONTROL), 1, REPLICATION, prepared, lambda: EndTransactionMarker(False, 0, 5)
    )
    assert states.commit(prepared) == [(CompletedTransaction(1, 0, 1, True), 2)]
    assert states.ongoing == {}


def test_preparing_changes_nothing_until_it_is_committed(world):
    world.append(batch())
    before = world.states.get(1).copy()
    world.states.prepare(batch(seq=1, attributes=TXN), 1, CLIENT, PreparedAppend(), lambda: None)
    assert world.states.get(1) == before
    assert world.states.ongoing == {}


def test_silent_producers_are_forgotten_unless_a_transaction_is_open(world):
    world.append(batch(pid=1, timestamp=1000))
    world.append(batch(pid=2, timestamp=1000, attributes=TXN))
    world.append(batch(pid=3, timestamp=1500))
    assert world.states.remove_expired(2000, 1000) == 1
    assert [entry.producer_id for entry in world.states] == [2, 3]


def test_restoring_finds_open_transactions_in_order_of_their_start(world):
    world.states.restore([ProducerEntry(1, 0, txn_first_offset=9), ProducerEntry(2, 0, txn_first_offset=4)])
    assert list(world.states.ongoing.items()) == [(4, 2), (9, 1)]
    assert world.states.first_unstable_offset() == 4
