"""Any calls, timeouts and fail-overs: what must hold of every transaction holds.

One open transaction per id, epochs only grow, no transaction is complete before its markers are written, decided ends
are never changed, and the log alone makes the same state again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from coordinator.txn.played import A0, A1, B0, Coordinator
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.coordinator.txn.requests import NOBODY, ProducerIdAndEpoch
from kavka.coordinator.txn.state import LAST_EPOCH, MAY_FOLLOW, PREPARED, TransactionStatus
from kavka.model.errors import KafkaError

IDS = st.sampled_from(["t", "u"])
PARTITIONS = st.lists(st.sampled_from([A0, A1, B0]), min_size=1, max_size=3, unique=True)
WHO = st.integers(0, 5)
"""Which of the producers that there have been, counted from the newest."""
VERSIONS = st.sampled_from([0, 2, 2])

CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("init"), IDS, st.sampled_from([None, 0, 1, 2]), st.booleans(), st.booleans()),
        st.tuples(st.just("add"), IDS, WHO, PARTITIONS, VERSIONS),
        st.tuples(st.just("end"), IDS, WHO, st.booleans(), VERSIONS),
        st.tuples(st.just("write_markers")),
        st.tuples(st.just("advance"), st.sampled_from([1_000, 20_000, 70_000, 700_000_000])),
        st.tuples(st.just("fail_over")),
        st.tuples(st.just("upgrade"), st.sampled_from([1, 2])),
        st.tuples(st.just("ids"), st.booleans()),
    ),
    max_size=40,
)


class Play:
    """Calls by producers that were, are, or never have been."""

    def __init__(self, epoch):
        self.c = Coordinator(transaction_two_phase_commit_enable="true")
        self.producers = {"t": [ProducerIdAndEpoch(7, 7)], "u": [ProducerIdAndEpoch(8, 0)]}
        if epoch:  # near the end of the epochs
            self.producers["t"].append(self.c.at_epoch(epoch))

    def who(self, id_, number):
        known = self.producers[id_]
        return known[-1 - number % len(known)]

    def init(self, id_, known, two_phases, keep):
        found = self.c.init(
            id_, known=NOBODY if known is None else self.who(id_, known), two_phase_commit=two_phases,
            keep_prepared=keep,
        )  # fmt: skip
        self.producers[id_].append(found)

    def add(self, id_, who, partitions, version):
        self.c.add(self.who(id_, who), *partitions, id_=id_, version=version)

    def end(self, id_, who, commit, version):
        found = self.c.end(self.who(id_, who), commit, id_=id_, version=version)
        if found != NOBODY:
            self.producers[id_].append(found)

    def write_markers(self):
        self.c.write_markers()

    def advance(self, ms):
        self.c.advance(ms)

    def fail_over(self):
        self.c.fail_over()

    def upgrade(self, version):
        self.c.upgrade(version)

    def ids(self, there):
        self.c.ids_are_there = there


@settings(max_examples=400, deadline=None)
@given(CALLS, st.sampled_from([0, LAST_EPOCH - 2, LAST_EPOCH - 1]))
def test_what_holds_of_every_transaction(calls, epoch):
    play = Play(epoch)
    for name, *values in calls:
        with suppress(KafkaError):
            getattr(play, name)(*values)
    check_history(play.c)
    check_replay(play.c)


def check_history(c):
    last: dict[Any, Any] = {}
    for id_, found in c.written():
        before = last.get(id_)
        last[id_] = found
        if found is None or before is None:
            assert found is None or found.status is TransactionStatus.EMPTY
            continue
        kept = found.status is before.status is TransactionStatus.ONGOING
        assert before.status in MAY_FOLLOW[found.status] or kept
        assert (found.producer_id, found.producer_epoch) >= (before.producer_id, before.producer_epoch)
        if found.status in PREPARED:
            assert found.partitions == before.partitions
        if found.status in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT):
            marker = (before.producer_id, before.producer_epoch), before.status is TransactionStatus.PREPARE_COMMIT
            for partition in before.partitions:
                assert marker in c.markers[partition], f"{id_} was complete without a marker in {partition}"
    for written in c.markers.values():
        ends: dict[Any, Any] = {}
        for producer, commit in written:
            assert ends.setdefault(producer, commit) == commit or _before_2(c, producer)


def _before_2(c, producer):
    """Whether a producer's transactions share an epoch, as before version 2: then only their order tells them apart."""
    return any(
        found is not None and found.client_version < 2 and (found.producer_id, found.producer_epoch) == producer
        for _, found in c.written()
    )


def check_replay(c):
    state, due = c.machine.state, sorted(one.transactional_id for one in c.due)
    c.fail_over()
    assert c.machine.state == state
    assert sorted(one.transactional_id for one in c.due) == due
    assert state.ongoing == {id_ for id_, one in state.transactions.items() if one.status is TransactionStatus.ONGOING}
