"""What a leader writes first."""

from __future__ import annotations

from kavka.controller.bootstrap import bootstrap_records
from kavka.metadata.records.settings import ConfigRecord, FeatureLevelRecord
from kavka.metadata.records.transactions import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord


def level(name, value):
    return FeatureLevelRecord(name=name, feature_level=value)


def test_a_new_cluster_starts_as_one_that_kafka_4_3_formatted(empty):
    assert empty.log == [
        BeginTransactionRecord(name="Bootstrap records"),
        level("metadata.version", 30),
        level("eligible.leader.replicas.version", 1),
        level("group.version", 1),
        level("share.version", 1),
        level("streams.version", 1),
        level("transaction.version", 2),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        EndTransactionRecord(),
    ]
    assert not empty.image.in_transaction


def test_a_cluster_that_was_there_needs_nothing(empty):
    before = len(empty.log)
    empty.write(empty.machine.activate(bootstrap_records(), 0))
    assert len(empty.log) == before


def test_what_another_leader_left_open_is_aborted(empty):
    before = empty.image
    empty.machine.replay([BeginTransactionRecord(), level("group.version", 0)], 99, 1)
    empty.write(empty.machine.activate(bootstrap_records(), 0))
    assert isinstance(empty.log[-1], AbortTransactionRecord)
    assert empty.image.features == before.features


def test_a_bootstrap_that_was_cut_off_begins_again(ledgers):
    cut = ledgers()
    machine = cut.fresh()
    machine.replay([BeginTransactionRecord(), level("metadata.version", 30)], 1, 1)
    records = machine.activate(bootstrap_records(), 0).records
    machine.replay(records, 1 + len(records), 1)
    assert isinstance(records[0], AbortTransactionRecord)
    assert machine.image.features.levels == cut.image.features.levels


def test_releases_before_metadata_transactions_write_none(ledgers):
    assert ledgers(metadata_version=12).log == [level("metadata.version", 12)]
