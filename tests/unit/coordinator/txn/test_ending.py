"""AddPartitionsToTxn and EndTxn: who may, when, and what follows."""

from __future__ import annotations

import pytest
from coordinator.txn.played import A0, A1, B0, START_MS, Coordinator

from kavka.coordinator.txn.requests import NOBODY, ProducerIdAndEpoch
from kavka.coordinator.txn.state import LAST_EPOCH, MAX_EPOCH
from kavka.model.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdNotFound,
)


def after(producer, by=1):
    return ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch + by)


def test_the_first_partition_opens_a_transaction_and_others_join_it():
    c = Coordinator()
    producer = c.init()
    c.now_ms += 5
    c.add(producer, A0)
    c.now_ms += 5
    c.add(producer, A1, B0)
    found = c.transaction()
    assert (found.status.label, found.partitions, found.started_ms) == ("Ongoing", {A0, A1, B0}, START_MS + 5)


def test_a_partition_that_is_in_the_transaction_already_is_not_written_again():
    c = Coordinator()
    producer = c.init()
    c.add(producer, A0, A1)
    written = len(c.log)
    c.add(producer, A1)
    assert len(c.log) == written


@pytest.mark.parametrize("call", [lambda c, *a, **k: c.add(*a, A0, **k), lambda c, *a, **k: c.end(*a, **k),
                                  lambda c, *a, **k: c.verify(*a, A0, **k)])  # fmt: skip
def test_only_the_present_producer_may(call):
    c = Coordinator()
    producer = c.init()
    with pytest.raises(InvalidRequest):
        call(c, producer, id_="")
    with pytest.raises(InvalidProducerIdMapping):
        call(c, producer, id_="unknown")
    with pytest.raises(InvalidProducerIdMapping):
        call(c, ProducerIdAndEpoch(7, 0))
    with pytest.raises(ProducerFenced):
        call(c, after(producer))


def test_verifying_says_which_partitions_are_in_the_transaction_and_adds_none():
    c = Coordinator()
    producer = c.init()
    c.add(producer, A0)
    written = len(c.log)
    assert c.verify(producer, A0, A1) == {A0: 0, A1: TransactionAbortable.code}
    assert len(c.log) == written


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_is_complete_when_its_markers_are_written(commit, version):
    c = Coordinator(2)
    producer = c.init()
    c.add(producer, A0, B0, version=version)
    reply = c.end(producer, commit, version=version)
    marked = producer if version == 0 else after(producer)
    assert reply == (NOBODY if version == 0 else marked)
    verb = "Commit" if commit else "Abort"
    assert c.status() == f"Prepare{verb}"
    for busy in (lambda: c.add(marked, A1), lambda: c.verify(marked, A0)):
        with pytest.raises(ConcurrentTransactions):
            busy()
    for how in (True, False):
        with pytest.raises(ConcurrentTransactions):
            c.end(producer, how, version=version)
    with pytest.raises(ConcurrentTransactions):
        c.init(known=marked)
    c.write_markers()
    assert c.status() == f"Complete{verb}"
    assert c.transaction().partitions == frozenset()
    assert c.markers == {A0: [(marked, commit)], B0: [(marked, commit)]}


def test_while_a_transaction_is_being_ended_the_producer_that_goes_on_at_version_2_has_to_wait():
    c = Coordinator()
    last = c.at_epoch(LAST_EPOCH)
    c.add(last, A0)
    goes_on = c.end(last)
    for busy in (lambda: c.add(goes_on, A1), lambda: c.end(goes_on, False)):
        with pytest.raises(ConcurrentTransactions):
            busy()
    c.write_markers()
    c.add(goes_on, A1)


def test_a_coordinator_that_dies_between_prepare_and_complete_is_followed_by_one_that_completes():
    c = Coordinator()
    producer = c.init()
    c.add(producer, A0)
    c.end(producer)
    c.fail_over()
    assert [one.partitions for one in c.due] == [{A0}]
    c.write_markers()
    c.fail_over()
    assert c.due == []
    assert c.status() == "CompleteCommit"


def test_markers_of_a_transaction_that_is_over_complete_nothing():
    c = Coordinator()
    producer = c.init()
    c.add(producer, A0)
    c.end(producer)
    (due,) = c.due
    c.write_markers()
    for producer_ in (due.producer, ProducerIdAndEpoch(3, 3)):
        with pytest.raises(InvalidTxnState):
            c.machine.complete("t", producer_, c.now_ms)
    with pytest.raises(InvalidTxnState):
        c.machine.complete("unknown", due.producer, c.now_ms)


def test_before_version_2_the_same_end_may_be_asked_for_again_and_the_other_not():
    c = Coordinator()
    producer = c.init()
    with pytest.raises(InvalidTxnState):
        c.end(producer, False, version=0)
    c.add(producer, A0, version=0)
    c.end(producer, True, version=0)
    c.write_markers()
    assert c.end(producer, True, version=0) == NOBODY
    with pytest.raises(InvalidTxnState):
        c.end(producer, False, version=0)
    with pytest.raises(ProducerFenced):
        c.end(after(producer), True, version=0)


@pytest.mark.parametrize(
    ("state", "retry", "commit", "expected"),
    [
        ("Empty", True, False, ProducerFenced),
        ("Empty", False, False, "bump"),
        ("Empty", True, True, ProducerFenced),
        ("Empty", False, True, InvalidTxnState),
        ("CompleteAbort", True, False, "same"),
        ("CompleteAbort", False, False, "bump"),
        ("CompleteAbort", True, True, InvalidTxnState),
        ("CompleteAbort", False, True, InvalidTxnState),
        ("CompleteCommit", True, False, InvalidTxnState),
        ("CompleteCommit", False, False, "bump"),
        ("CompleteCommit", True, True, "same"),
        ("CompleteCommit", False, True, InvalidTxnState),
    ],
)
def test_at_version_2_a_retry_is_known_by_its_epoch(state, retry, commit, expected):
    c = Coordinator()
    c.init()
    producer = c.init()
    if state != "Empty":
        c.add(producer, A0)
        producer = c.end(producer, state == "CompleteCommit")
        c.write_markers()
    assert c.status() == state
    asks = after(producer, -1) if retry else producer
    if isinstance(expected, type):
        with pytest.raises(expected):
            c.end(asks, commit)
    elif expected == "same":
        assert c.end(asks, commit) == producer
        assert c.due == []
    else:
        assert c.end(asks, commit) == after(producer)
        c.write_markers()
        assert c.status() == "CompleteAbort"


def test_the_last_epoch_ends_with_a_new_producer_id_and_a_retry_learns_of_it():
    c = Coordinator()
    last = c.at_epoch(LAST_EPOCH)
    c.add(last, A0)
    assert c.end(last) == (1001, 0)
    c.fail_over()
    c.write_markers()
    assert c.markers[A0] == [((1000, MAX_EPOCH), True)]
    assert c.end(last) == (1001, 0)
    c.add(ProducerIdAndEpoch(1001, 0), A0)
    with pytest.raises(InvalidProducerIdMapping):
        c.end(last)


def test_fencing_the_last_epoch_does_not_need_one_that_there_is_not():
    c = Coordinator()
    c.add(c.at_epoch(LAST_EPOCH), A0)
    with pytest.raises(ConcurrentTransactions):
        c.init()
    c.write_markers()
    assert c.markers[A0] == [((1000, MAX_EPOCH), False)]
    assert c.init() == (1001, 1)


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced():
    c = Coordinator()
    producer = c.init(timeout_ms=30_000)
    c.add(producer, A0)
    c.advance(30_000)
    assert c.status() == "Ongoing"
    c.advance(10_001)
    assert c.status() == "PrepareAbort"
    c.write_markers()
    with pytest.raises(InvalidTxnState):
        c.end(producer, True)
    with pytest.raises(ProducerFenced):
        c.add(producer, A0)
    assert c.init(known=producer) == after(producer), "it may go on, as nobody else has taken over"


def test_before_version_2_a_commit_after_the_timeout_is_fenced():
    c = Coordinator(1)
    producer = c.init(timeout_ms=30_000)
    c.add(producer, A0, version=0)
    c.advance(50_000)
    c.write_markers()
    with pytest.raises(ProducerFenced):
        c.end(producer, True, version=0)


def test_what_is_prepared_never_times_out():
    c = Coordinator()
    producer = c.init(timeout_ms=1)
    c.add(producer, A0)
    c.end(producer)
    c.advance(900_000)
    assert c.status() == "PrepareCommit"


def test_an_abort_that_needs_a_producer_id_waits_for_one():
    c = Coordinator()
    c.add(c.at_epoch(LAST_EPOCH), A0)
    c.ids_are_there = False
    c.advance(100_000)
    assert c.status() == "Ongoing"
    with pytest.raises(CoordinatorLoadInProgress):
        c.end(ProducerIdAndEpoch(1000, LAST_EPOCH))
    c.ids_are_there = True
    c.advance(10_000)
    assert c.status() == "PrepareAbort"


def test_many_late_transactions_are_aborted_in_steps():
    c = Coordinator()
    for number in range(1200):
        c.add(c.init(f"t{number}", timeout_ms=1), A0, id_=f"t{number}")
    c.advance(10_000)
    assert len(c.due) == 1200


def test_an_id_that_nobody_uses_is_forgotten_but_never_in_a_transaction():
    c = Coordinator()
    week_ms = 604_800_000
    c.init("idle")
    c.init("other")
    open_ = c.init("open")
    c.add(open_, A0, id_="open")
    c.end(open_, id_="open")
    c.advance(week_ms - 3_600_001)
    c.init("other")
    c.advance(2 * 3_600_000)
    with pytest.raises(TransactionalIdNotFound):
        c.status("idle")
    assert c.status("open") == "PrepareCommit"
    assert c.init("other") == (1001, 2)
    c.fail_over()
    with pytest.raises(TransactionalIdNotFound):
        c.status("idle")


def test_describing_needs_an_id():
    with pytest.raises(InvalidRequest):
        Coordinator().status("")


def test_the_record_of_version_0_has_no_room_for_what_came_later():
    c = Coordinator(0)
    producer = c.init()
    c.add(producer, A0, version=0)
    c.end(producer, version=0)
    c.write_markers()
    assert all(value[:2] == b"\0\0" for _, value in c.log)
    c.upgrade(2)
    c.init()
    assert c.log[-1][1][:2] == b"\0\1"


def test_a_delayed_end_ends_the_next_transaction_before_version_2_and_nothing_at_version_2():
    """KAFKA-17754: the anomaly that KIP-890 is about."""
    for version in (0, 2):
        c = Coordinator()
        producer = c.init()
        c.add(producer, A0, version=version)
        now = c.end(producer, version=version)
        c.write_markers()
        now = now if version == 2 else producer
        c.add(now, B0, version=version)  # the next transaction has begun when the first commit comes once more
        if version == 0:
            c.end(producer, version=version)
            assert c.status() == "PrepareCommit"
        else:
            with pytest.raises(ProducerFenced):
                c.end(producer, version=version)
            assert c.status() == "Ongoing"
