"""InitProducerId with a transactional id: epochs, fencing, and going on after errors."""

from __future__ import annotations

import pytest
from coordinator.txn.played import A0, Coordinator

from kavka.coordinator.txn.requests import ProducerIdAndEpoch
from kavka.coordinator.txn.state import LAST_EPOCH, NEVER
from kavka.model.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)


def test_a_new_id_begins_at_epoch_0_and_each_instance_gets_the_next():
    c = Coordinator()
    first = c.init()
    assert first == (1000, 0)
    assert c.init() == (1000, 1)
    assert c.status() == "Empty"
    assert c.init("other") == (1001, 0)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ({"id_": ""}, InvalidRequest),
        ({"timeout_ms": 0}, InvalidTransactionTimeout),
        ({"timeout_ms": 900_001}, InvalidTransactionTimeout),
        ({"two_phase_commit": True}, TransactionalIdAuthorizationFailed),
        ({"keep_prepared": True}, UnsupportedVersion),
    ],
)
def test_what_may_not_be_asked_for_changes_nothing(call, error):
    c = Coordinator()
    with pytest.raises(error):
        c.init(**call)
    assert c.log == []


def test_without_a_producer_id_at_hand_the_client_asks_again():
    c = Coordinator()
    c.ids_are_there = False
    with pytest.raises(CoordinatorLoadInProgress):
        c.init()
    c.ids_are_there = True
    assert c.init() == (1000, 0)


@pytest.mark.parametrize(("version", "after"), [(0, 2), (1, 2), (2, 2)])
def test_an_open_transaction_is_aborted_first(version, after):
    c = Coordinator(version)
    old = c.init()
    c.add(old, A0, version=version)
    with pytest.raises(ConcurrentTransactions):
        c.init()
    assert c.status() == "PrepareAbort"
    with pytest.raises(ConcurrentTransactions):
        c.init()
    c.write_markers()
    assert c.markers[A0] == [((1000, 1), False)]  # the markers carry an epoch that fences the old producer
    assert c.status() == "CompleteAbort"
    assert c.init() == (1000, after)
    with pytest.raises(ProducerFenced):
        c.add(old, A0)


def test_a_producer_goes_on_after_an_error_with_its_next_epoch():
    c = Coordinator()
    producer = c.init()
    assert c.init(known=producer) == (1000, 1)
    assert c.init(known=producer) == (1000, 1), "the answer may have been lost"
    assert c.init(known=(1000, 1)) == (1000, 2)


def test_whoever_was_replaced_cannot_go_on():
    c = Coordinator()
    old = c.init()
    c.init()
    with pytest.raises(ProducerFenced):
        c.init(known=old)
    with pytest.raises(ProducerFenced):
        c.init(known=(77, 0))


def test_after_a_new_coordinator_a_retry_is_fenced_because_no_log_remembers_the_last_epoch():
    c = Coordinator()
    producer = c.init()
    c.init(known=producer)
    c.fail_over()
    with pytest.raises(ProducerFenced):
        c.init(known=producer)


def test_an_id_that_nobody_knows_any_more_is_begun_anew():
    c = Coordinator()
    assert c.init(known=(55, 7)) == (1000, 0)


def test_when_the_epochs_are_used_up_there_is_a_new_producer_id():
    c = Coordinator()
    c.at_epoch(LAST_EPOCH - 1)
    assert c.init() == (1000, LAST_EPOCH)
    assert c.init() == (1001, 0)
    assert c.transaction().previous_producer_id == 1000


def test_going_on_from_the_last_epoch_twice_gives_the_same_new_producer():
    c = Coordinator()
    c.at_epoch(LAST_EPOCH)
    assert c.init(known=(1000, LAST_EPOCH)) == (1001, 0)
    assert c.init(known=(1000, LAST_EPOCH)) == (1001, 0)
    with pytest.raises(ProducerFenced):
        c.init(known=(1000, LAST_EPOCH - 1))


TWO_PHASES = {"transaction_two_phase_commit_enable": "true"}


def test_a_transaction_of_two_phases_has_no_timeout():
    c = Coordinator(**TWO_PHASES)
    producer = c.init(timeout_ms=-1, two_phase_commit=True)
    assert c.transaction().timeout_ms == NEVER
    c.add(producer, A0)
    c.advance(10 * 24 * 3_600_000)
    assert c.status() == "Ongoing"


def test_a_prepared_transaction_is_kept_for_the_next_instance_which_ends_it():
    c = Coordinator(**TWO_PHASES)
    old = c.init(two_phase_commit=True)
    c.add(old, A0)
    new, ongoing = c.initialize(two_phase_commit=True, keep_prepared=True)
    assert (new, ongoing) == ((1000, 1), old)
    with pytest.raises(ProducerFenced):
        c.end(old)
    c.fail_over()
    assert c.initialize(two_phase_commit=True, keep_prepared=True) == ((1000, 2), old)
    with pytest.raises(ProducerFenced):
        c.end(new)
    assert c.end(ProducerIdAndEpoch(1000, 2)) == (1000, 3)
    c.write_markers()
    assert c.markers[A0] == [((1000, 1), True)]
    assert c.end(ProducerIdAndEpoch(1000, 2)) == (1000, 3)
    c.add(ProducerIdAndEpoch(1000, 3), A0)


def test_without_an_open_transaction_nothing_is_kept():
    c = Coordinator(**TWO_PHASES)
    assert c.initialize(two_phase_commit=True, keep_prepared=True) == ((1000, 0), (-1, -1))


def test_a_kept_transaction_can_be_aborted_by_who_does_not_keep_it():
    c = Coordinator(**TWO_PHASES)
    c.add(c.init(two_phase_commit=True), A0)
    kept, _ = c.initialize(two_phase_commit=True, keep_prepared=True)
    with pytest.raises(ConcurrentTransactions):
        c.init(two_phase_commit=True)
    c.write_markers()
    assert c.init(two_phase_commit=True) > kept
    with pytest.raises(ProducerFenced):
        c.end(kept)


def test_transactions_are_kept_only_at_version_2():
    c = Coordinator(1, **TWO_PHASES)
    with pytest.raises(UnsupportedVersion):
        c.init(keep_prepared=True)
