"""Verification state: a transaction begins in a log only after its coordinator was asked, and nothing came between."""

from __future__ import annotations

import pytest

from kavka.model.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequenceNumber
from kavka.model.types import TopicPartition
from kavka.records.batch import scan
from kavka.records.builder import BatchBuilder
from kavka.records.control import txn_marker_batch
from kavka.storage.producer_state import AppendOrigin, PreparedAppend, ProducerStates
from kavka.storage.scan import read_marker

PRODUCER = 7


class Log:
    """Just the producers of a log."""

    def __init__(self):
        self.producers = ProducerStates(TopicPartition("t", 0))
        self.end = 0

    def append(self, data: bytes, origin=AppendOrigin.CLIENT, version=0):
        (batch,) = scan(data)
        prepared = PreparedAppend()
        self.producers.prepare(batch, self.end, origin, prepared, lambda: read_marker(data, batch), version)
        self.producers.commit(prepared)
        self.end += batch.last_offset_delta + 1

    def write(self, sequence=0, epoch=0, transactional=True):
        builder = BatchBuilder(
            producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )
        builder.append(None, b"x", 0)
        self.append(builder.build())

    def mark(self, epoch=0, version=0, commit=False):
        batch = txn_marker_batch(
            commit=commit, producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=0, timestamp=0
        )
        self.append(batch, AppendOrigin.COORDINATOR, version)

    def start(self, sequence=0, epoch=0, bumps_epoch=False, now_ms=0):
        return self.producers.start_verification(PRODUCER, epoch, sequence, bumps_epoch=bumps_epoch, now_ms=now_ms)

    def require(self, guard, epoch=0):
        self.producers.require_verified(PRODUCER, epoch, guard)


def test_what_was_verified_may_begin_and_what_follows_needs_no_asking():
    log = Log()
    guard = log.start()
    log.require(guard)
    log.write()
    assert log.start(1) is None
    log.require(None)
    log.write(1)


def test_without_a_guard_nothing_begins():
    log = Log()
    with pytest.raises(InvalidTxnState):
        log.require(None)


def test_an_answer_that_comes_after_a_marker_lets_nothing_in():
    log = Log()
    guard = log.start()
    log.mark()
    with pytest.raises(InvalidTxnState):
        log.require(guard)
    assert log.start() is not guard


def test_several_batches_wait_behind_one_guard():
    log = Log()
    assert log.start(0) is log.start(1)


@pytest.mark.parametrize("epoch", [1, 2])  # that of a transaction that was kept (KIP-939) is not the next one
def test_at_version_2_the_marker_of_the_last_transaction_does_not_end_what_the_next_has_begun(epoch):
    log = Log()
    log.write(epoch=0)
    guard = log.start(epoch=epoch, bumps_epoch=True)  # the producer goes on while the marker is on its way
    log.mark(epoch=1, version=2)
    log.require(guard, epoch=epoch)
    log.write(epoch=epoch)


def test_an_older_epoch_is_told_so():
    log = Log()
    log.write(epoch=3)
    for call in (lambda: log.start(epoch=2), lambda: log.require(None, epoch=2)):
        with pytest.raises(InvalidProducerEpoch):
            call()


def test_an_open_transaction_of_an_older_epoch_is_not_the_new_ones():
    log = Log()
    log.write(epoch=3)
    assert log.start(epoch=4) is not None


def test_a_batch_behind_the_first_that_waits_is_out_of_order():
    log = Log()
    log.start(5)
    log.start(3)
    with pytest.raises(OutOfOrderSequenceNumber):
        log.write(5)
    log.write(3)
    log.write(4)


def test_a_later_epoch_begins_its_own_count():
    log = Log()
    log.start(3, epoch=0)
    log.start(9, epoch=1)
    with pytest.raises(OutOfOrderSequenceNumber):
        log.write(10, epoch=1)
    log.write(9, epoch=1)


def test_at_version_2_a_producer_without_history_begins_with_0():
    log = Log()
    log.start(4, bumps_epoch=True)
    with pytest.raises(OutOfOrderSequenceNumber):
        log.write(4)


def test_what_was_never_answered_is_forgotten():
    log = Log()
    log.start(now_ms=0)
    log.producers.remove_expired(999, 1000)
    assert log.producers.verifications
    log.producers.remove_expired(1000, 1000)
    assert not log.producers.verifications
