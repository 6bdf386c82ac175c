"""The APIs of transactions: every outcome is one error code, in words that the version of the request knows."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from coordinator.txn.played import A0, Coordinator

from kavka.broker.handlers.add_offsets_to_txn import add_offsets_to_txn
from kavka.broker.handlers.add_partitions_to_txn import add_partitions_to_txn
from kavka.broker.handlers.describe_transactions import describe_transactions
from kavka.broker.handlers.end_txn import end_txn
from kavka.broker.handlers.init_producer_id import init_producer_id
from kavka.broker.handlers.list_transactions import list_transactions
from kavka.broker.handlers.txn_offset_commit import txn_offset_commit
from kavka.broker.handlers.write_txn_markers import write_txn_markers
from kavka.coordinator.txn.requests import ProducerIdAndEpoch
from kavka.model.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidRegularExpression,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    TransactionAbortable,
)
from kavka.model.types import TopicPartition
from kavka.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from kavka.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kavka.protocol.schemas.describe_transactions import DescribeTransactionsRequest
from kavka.protocol.schemas.end_txn import EndTxnRequest
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest
from kavka.protocol.schemas.list_transactions import ListTransactionsRequest
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kavka.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kavka.protocol.schemas.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kavka.runtime.transactions import SpareIds, Transactions

FENCED, OLD_FENCED = 90, 47


class InstantShards:
    """The shard of all ids, whose log is a list; or none, or one that is being loaded."""

    def __init__(self):
        self.played = Coordinator()
        self.error = None

    def of(self, key):
        return self

    def __iter__(self):
        return iter([self])

    async def submit(self, decide):
        if self.error is not None:
            raise self.error
        found = decide(self.played.machine, self.played.now_ms)
        return self.played.carry_out(found)


@pytest.fixture
def shards():
    return InstantShards()


@pytest.fixture
def transactions(shards):
    async def new_id():
        return 1

    return Transactions(shards, SpareIds(new_id))


@pytest.fixture
def producer(shards):
    """The second producer of the id `t`, in service."""
    shards.played.init()
    return shards.played.init()


def init(id_="t", timeout_ms=60_000, **more):
    return InitProducerIdRequest(transactional_id=id_, transaction_timeout_ms=timeout_ms, **more)


# -- InitProducerId -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_has_one_producer_with_growing_epochs(ask, transactions, version):
    answers = [ask(init_producer_id, init(), version, None, transactions) for _ in range(2)]
    assert [(answer.error_code, answer.producer_id, answer.producer_epoch) for answer in answers] == [
        (0, 1000, 0),
        (0, 1000, 1),
    ]


@pytest.mark.parametrize(
    ("asked", "version", "code"),
    [
        (init(timeout_ms=0), 5, 50),
        (init(timeout_ms=900_001), 5, 50),
        (init(enable2_pc=True), 6, 53),
        (init(keep_prepared_txn=True), 6, 35),
        (init(producer_id=1000, producer_epoch=0), 4, FENCED),
        (init(producer_id=1000, producer_epoch=0), 3, OLD_FENCED),
    ],
)
def test_what_init_producer_id_refuses(ask, transactions, producer, asked, version, code):
    answer = ask(init_producer_id, asked, version, None, transactions)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


@pytest.mark.parametrize(("error", "code"), [(NotCoordinator(), 16), (CoordinatorLoadInProgress(), 14)])
def test_a_coordinator_that_is_elsewhere_or_not_ready_says_so(ask, shards, transactions, error, code):
    shards.error = error
    assert ask(init_producer_id, init(), 5, None, transactions).error_code == code
    described = ask(describe_transactions, DescribeTransactionsRequest(transactional_ids=["t"]), 0, transactions)
    assert described.transaction_states[0].error_code == code


def test_an_open_transaction_is_aborted_before_the_next_producer_begins(ask, shards, transactions, producer):
    shards.played.add(producer, A0)
    assert ask(init_producer_id, init(), 5, None, transactions).error_code == 51
    shards.played.write_markers()
    assert ask(init_producer_id, init(), 5, None, transactions).error_code == 0


# -- AddPartitionsToTxn -------------------------------------------------------------------------------------


def adding(producer, *partitions, id_="t", version=3, verify_only=False):
    topics: dict[Any, Any] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    rows = [AddPartitionsToTxnTopic(name=name, partitions=there) for name, there in topics.items()]
    if version < 4:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=id_,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=rows,
        )
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=id_, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch,
        verify_only=verify_only, topics=rows,
    )  # fmt: skip
    return AddPartitionsToTxnRequest(transactions=[transaction])


@pytest.fixture
def add(ask, loop, transactions):
    loop.topic("a", partitions=2)
    loop.topic("__consumer_offsets", partitions=1)

    def call(producer, *partitions, version=3, **more):
        request = adding(producer, *(partitions or [("a", 0)]), version=version, **more)
        answer = ask(add_partitions_to_txn, request, version, transactions, loop)
        topics = answer.results_by_topic_v3_and_below if version < 4 else answer.results_by_transaction[0].topic_results
        return {
            (topic.name, row.partition_index): row.partition_error_code
            for topic in topics
            for row in topic.results_by_partition
        }

    return call


@pytest.mark.parametrize("version", range(6))
def test_partitions_become_part_of_a_transaction(add, shards, producer, version):
    assert add(producer, ("a", 0), ("a", 1), version=version) == {("a", 0): 0, ("a", 1): 0}
    found = shards.played.transaction()
    assert (found.partitions, found.client_version) == (
        {TopicPartition("a", 0), TopicPartition("a", 1)},
        2 if version >= 4 else 0,
    )


def test_one_partition_that_is_not_there_keeps_the_others_out(add, shards, producer):
    wanted = (("a", 0), ("a", 5), ("none", 0), ("__consumer_offsets", 0))
    assert add(producer, *wanted) == dict(zip(wanted, (55, 3, 3, 29), strict=True))
    assert shards.played.status() == "Empty"
    assert add(producer, ("__consumer_offsets", 0), version=4) == {("__consumer_offsets", 0): 0}


@pytest.mark.parametrize(("version", "code"), [(0, OLD_FENCED), (1, OLD_FENCED), (2, FENCED), (5, FENCED)])
def test_who_was_fenced_adds_nothing(add, producer, version, code):
    old = ProducerIdAndEpoch(producer.producer_id, 0)
    assert set(add(old, version=version).values()) == {code}


@pytest.mark.parametrize(("id_", "code"), [("", 42), ("unknown", 49)])
def test_an_id_that_is_none_adds_nothing(add, producer, id_, code):
    assert set(add(producer, id_=id_).values()) == {code}
    assert set(add(producer, id_=id_, version=4, verify_only=True).values()) == {code}


def test_verifying_says_which_partitions_are_part(add, producer):
    add(producer, ("a", 0))
    assert add(producer, ("a", 0), ("a", 1), version=4, verify_only=True) == {("a", 0): 0, ("a", 1): 120}


# -- AddOffsetsToTxn ------------------------------------------------------------------------------------------


class Groups:
    """The groups of a node, as far as transactions ask them."""

    def __init__(self):
        self.error = None
        self.committed = []

    def offsets_partition(self, group_id):
        return 17

    async def commit_transactional_offsets(self, request, producer_id, producer_epoch, check):
        if self.error is not None:
            raise self.error
        check()
        self.committed.append((request, producer_id, producer_epoch))
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=0)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


@pytest.mark.parametrize("version", range(5))
def test_a_groups_offsets_become_part_of_a_transaction(ask, shards, transactions, producer, version):
    request = AddOffsetsToTxnRequest(transactional_id="t", producer_id=1000, producer_epoch=1, group_id="g")
    assert ask(add_offsets_to_txn, request, version, transactions, Groups()).error_code == 0
    assert shards.played.transaction().partitions == {TopicPartition("__consumer_offsets", 17)}
    old = AddOffsetsToTxnRequest(transactional_id="t", producer_id=1000, producer_epoch=0, group_id="g")
    code = ask(add_offsets_to_txn, old, version, transactions, Groups()).error_code
    assert code == (FENCED if version >= 2 else OLD_FENCED)


# -- TxnOffsetCommit -----------------------------------------------------------------------------------------


class Asked:
    """Verification that says what it is told to."""

    def __init__(self, error=None):
        self.error = error
        self.versions = []

    async def offsets(self, transactional_id, producer, topic, index, version):
        self.versions.append((transactional_id, producer, topic, index, version))
        if self.error is not None:
            raise self.error
        return lambda: None


def committing(*topics, group="g"):
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group,
        producer_id=1000,
        producer_epoch=1,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="m")
                ],
            )
            for name, index in topics
        ],
    )


@pytest.fixture
def commit(ask, loop):
    loop.topic("a", partitions=1)

    def call(request, version=5, groups=None, verification=None):
        answer = ask(txn_offset_commit, request, version, groups or Groups(), verification or Asked(), loop)
        return {
            (topic.name, row.partition_index): row.error_code for topic in answer.topics for row in topic.partitions
        }

    return call


@pytest.mark.parametrize("version", range(6))
def test_offsets_are_verified_and_committed_for_their_producer(commit, version):
    groups, verification = Groups(), Asked()
    found = commit(committing(("a", 0), ("a", 9), ("none", 0)), version, groups, verification)
    assert found == {("a", 0): 0, ("a", 9): 3, ("none", 0): 3}
    assert verification.versions == [("t", (1000, 1), "__consumer_offsets", 17, version)]
    ((request, *producer),) = groups.committed
    assert producer == [1000, 1]
    assert [
        (topic.name, [partition.committed_offset for partition in topic.partitions]) for topic in request.topics
    ] == [("a", [5])]


@pytest.mark.parametrize(
    ("error", "version", "code"),
    [
        (CoordinatorLoadInProgress(), 1, 15),
        (CoordinatorLoadInProgress(), 2, 14),
        (NotCoordinator(), 5, 16),
        (NetworkException(), 5, 14),
        (TransactionAbortable(), 5, 120),
    ],
)
def test_what_concerns_the_whole_commit_is_said_of_every_partition(commit, error, version, code):
    assert commit(committing(("a", 0)), version, verification=Asked(error)) == {("a", 0): code}
    groups = Groups()
    groups.error = error
    assert commit(committing(("a", 0)), version, groups) == {("a", 0): code}


def test_offsets_need_a_group(commit):
    assert commit(committing(("a", 0), group="")) == {("a", 0): 24}


# -- EndTxn ------------------------------------------------------------------------------------------------------


def ending(epoch=1, id_="t", producer_id=1000, committed=True):
    return EndTxnRequest(transactional_id=id_, producer_id=producer_id, producer_epoch=epoch, committed=committed)


@pytest.mark.parametrize("version", range(6))
def test_from_version_5_on_the_end_brings_a_new_epoch(ask, shards, transactions, producer, version):
    shards.played.add(producer, A0, version=2 if version >= 5 else 0)
    answer = ask(end_txn, ending(), version, transactions)
    expected = (0, 1000, 2) if version >= 5 else (0, -1, -1)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == expected
    with pytest.raises(ConcurrentTransactions):
        ask(end_txn, ending(), version, transactions)


@pytest.mark.parametrize(
    ("asked", "version", "code"),
    [
        (ending(id_=""), 5, 42),
        (ending(id_="unknown"), 5, 49),
        (ending(producer_id=3), 5, 49),
        (ending(epoch=0), 5, FENCED),
        (ending(epoch=0), 2, FENCED),
        (ending(epoch=0), 1, OLD_FENCED),
        (ending(), 5, 48),
        (ending(committed=False), 4, 48),
    ],
)
def test_what_end_txn_refuses(ask, transactions, producer, asked, version, code):
    try:
        found = ask(end_txn, asked, version, transactions).error_code
    except Exception as error:  # the dispatcher makes a response of it
        found = error.code
    assert found == code


# -- WriteTxnMarkers ----------------------------------------------------------------------------------------------


class Writer:
    """Writes markers to whoever is not `b`."""

    def __init__(self):
        self.written = []

    async def write(self, partition, marker):
        await asyncio.sleep(0)
        if partition.topic == "b":
            raise NotEnoughReplicas
        if partition.topic == "c":
            raise ValueError("a fault")
        self.written.append((partition, marker))


@pytest.mark.parametrize("version", [1, 2])
def test_each_marker_is_written_to_each_partition(ask, version):
    writer = Writer()
    topics = [WritableTxnMarkerTopic(name=name, partition_indexes=[0, 1]) for name in "abc"]
    marker = WritableTxnMarker(
        producer_id=7, producer_epoch=3, transaction_result=True, topics=topics, coordinator_epoch=4,
        transaction_version=2,
    )  # fmt: skip
    (answer,) = ask(write_txn_markers, WriteTxnMarkersRequest(markers=[marker]), version, writer).markers
    assert answer.producer_id == 7
    assert {topic.name: [row.error_code for row in topic.partitions] for topic in answer.topics} == {
        "a": [0, 0], "b": [19, 19], "c": [-1, -1],
    }  # fmt: skip
    assert [marker for _, marker in writer.written] == [(7, 3, True, 4, 2 if version == 2 else 0)] * 2


def test_no_markers_are_no_answer(ask):
    assert ask(write_txn_markers, WriteTxnMarkersRequest(markers=[]), 1, Writer()).markers == []


# -- DescribeTransactions, ListTransactions -------------------------------------------------------------------------


def test_a_transaction_is_shown_with_its_partitions(ask, shards, transactions, producer):
    shards.played.add(producer, A0)
    request = DescribeTransactionsRequest(transactional_ids=["t", "", "none"])
    shown, empty, none = ask(describe_transactions, request, 0, transactions).transaction_states
    assert (shown.error_code, shown.transaction_state, shown.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (shown.producer_id, shown.producer_epoch, shown.transaction_start_time_ms) == (
        1000, 1, shards.played.now_ms,
    )  # fmt: skip
    assert [(topic.topic, topic.partitions) for topic in shown.topics] == [("a", [0])]
    assert (empty.error_code, none.error_code) == (42, 105)


@pytest.fixture
def list_ids(ask, shards, transactions):
    opened = shards.played.init("open")
    shards.played.add(opened, A0, id_="open")
    shards.played.init("idle")

    def call(version=2, states=(), producers=(), **more):
        request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producers), **more)
        answer = ask(list_transactions, request, version, transactions)
        assert answer.error_code == 0
        return sorted(state.transactional_id for state in answer.transaction_states), answer.unknown_state_filters

    return call


def test_transactions_are_found_by_state_producer_age_and_pattern(list_ids, shards):
    assert list_ids() == (["idle", "open"], [])
    assert list_ids(states=["Ongoing"]) == (["open"], [])
    assert list_ids(states=["Ongoing", "Open"]) == (["open"], ["Open"])
    assert list_ids(states=["Open"]) == ([], ["Open"])
    assert list_ids(producers=[1001]) == (["idle"], [])
    assert list_ids(version=0) == (["idle", "open"], [])
    assert list_ids(transactional_id_pattern="o.*") == (["open"], [])
    assert list_ids(transactional_id_pattern="o") == ([], [])
    assert list_ids(transactional_id_pattern="") == (["idle", "open"], [])
    assert list_ids(duration_filter=10**15) == ([], [])


def test_a_pattern_that_is_none_is_refused(list_ids):
    with pytest.raises(InvalidRegularExpression):
        list_ids(transactional_id_pattern="(")


def test_nothing_is_listed_while_some_ids_are_being_loaded(list_ids, shards):
    shards.error = CoordinatorLoadInProgress()
    with pytest.raises(CoordinatorLoadInProgress):
        list_ids()
    shards.error = NotCoordinator()
    assert list_ids() == ([], [])
