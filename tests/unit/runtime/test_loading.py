"""Loading a shard: everything is replayed in order, what cannot be read is passed over, the loop is not held."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pytest
from played import CODEC, PlayedPartition, Script

from kavka.coordinator.txn.codec import CODEC as CODEC_OF_TRANSACTIONS
from kavka.coordinator.txn.machine import TransactionCoordinator
from kavka.coordinator.txn.state import Transaction, entry
from kavka.metadata.image import EMPTY
from kavka.model.errors import CorruptMessage
from kavka.model.settings import broker_values
from kavka.protocol.schema import replace
from kavka.records.builder import BatchBuilder
from kavka.records.control import txn_marker_batch
from kavka.runtime.loading import Loader


def batch(*words, key=b"word", first=0, **settings):
    """A batch of words."""
    builder = BatchBuilder(base_offset=first, **settings)
    for word in words:
        builder.append(key, word.encode(), 1000)
    return builder.build()


def partition(*batches):
    """A partition that holds batches as they are."""
    port = PlayedPartition()
    port.batches = list(batches)
    port.log_end_offset = 100
    return port


@pytest.fixture
def load(play):
    """Loads a machine from a partition."""

    def run(port):
        machine = Script()

        async def work():
            return await Loader(port, machine, CODEC).run()

        return machine, play(work())

    return run


def test_an_empty_log_loads_nothing(load):
    machine, found = load(PlayedPartition())
    assert (machine.seen, found.records) == ([], 0)


def test_records_are_replayed_in_order_with_their_offsets(load):
    machine, found = load(partition(batch("a", "b"), batch("c", first=5, codec=3), batch("d", first=6, codec=4)))
    assert machine.seen == [(0, "a"), (1, "b"), (5, "c"), (6, "d")]
    assert found.records == 4


def test_a_log_larger_than_one_read_is_loaded_to_its_end(load, monkeypatch):
    monkeypatch.setattr("kavka.runtime.loading.READ_BYTES", 300)
    words = [f"{number:090}" for number in range(20)]
    machine, _ = load(partition(*(batch(word, first=number) for number, word in enumerate(words))))
    assert machine.words == words


def test_records_that_nobody_knows_are_passed_over_with_a_warning(load, caplog):
    with caplog.at_level(logging.WARNING):
        machine, found = load(partition(batch("a"), batch("?", key=b"what", first=1), batch("b", first=2)))
    assert machine.words == ["a", "b"]
    assert found.passed_over == 1
    assert "__log-0: skipping a record: no word at offset 1" in caplog.text


def test_a_record_that_the_machine_cannot_take_in_costs_only_itself(load, caplog):
    with caplog.at_level(logging.WARNING):
        machine, found = load(partition(batch("a", "poison", "b"), batch("c", first=3)))
    assert machine.words == ["a", "b", "c"]
    assert (found.records, found.passed_over) == (3, 1)
    assert "__log-0: skipping a record: the record at offset 1 cannot be taken in" in caplog.text


def test_a_transaction_of_an_unknown_status_costs_only_itself(play, caplog):
    def transaction(id_, status):
        found = Transaction(producer_id=7, producer_epoch=0, timeout_ms=1000, updated_ms=5)
        entry_ = entry(id_, found, 0)
        return CODEC_OF_TRANSACTIONS.encode(entry_._replace(value=replace(entry_.value, transaction_status=status)))

    builder = BatchBuilder()
    for id_, status in (("t", 0), ("u", 99), ("v", 4), ("w", 6), ("x", -1)):
        builder.append(*transaction(id_, status), 1000)
    machine = TransactionCoordinator(broker_values({}), EMPTY, new_producer_id=lambda: 1)

    async def work():
        return await Loader(partition(builder.build()), machine, CODEC_OF_TRANSACTIONS).run()

    with caplog.at_level(logging.WARNING):
        found = play(work())
    assert list(machine.state.transactions) == ["t", "v"]
    assert found.passed_over == 3
    assert "a transaction of unknown status 99 at offset 1" in caplog.text


def test_many_bad_records_do_not_flood_the_log(load, caplog):
    with caplog.at_level(logging.WARNING):
        load(partition(*(batch("?", key=b"what", first=number) for number in range(50))))
    assert len(caplog.records) == 11
    assert "skipped 50 records" in caplog.text


def test_a_damaged_batch_is_passed_over(load, caplog):
    bad = bytearray(batch("bad", first=1))
    bad[-1] ^= 1
    with caplog.at_level(logging.WARNING):
        machine, found = load(partition(batch("a"), bytes(bad), batch("b", first=2)))
    assert machine.words == ["a", "b"]
    assert found.passed_over == 1
    assert "the batch at offset 1 is damaged" in caplog.text


def test_a_compressed_batch_with_nonsense_inside_is_passed_over(load):
    bad = bytearray(batch("bad" * 100, first=1, codec=4))
    bad[61:65] = b"\0\0\0\0"
    from kavka.kernels.batches import crc32c

    bad[17:21] = crc32c(bytes(bad[21:])).to_bytes(4, "big")
    machine, found = load(partition(batch("a"), bytes(bad), batch("b", first=2)))
    assert machine.words == ["a", "b"]
    assert found.passed_over == 1


def test_bytes_that_are_no_batch_at_all_stop_the_load(play):
    port = partition(batch("a"))
    port.read_own = lambda offset, max_bytes: bytes(100)

    async def work():
        await Loader(port, Script(), CODEC).run()

    with pytest.raises(CorruptMessage):
        play(work())


def test_markers_end_transactions(load):
    commit = txn_marker_batch(
        commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=1
    )
    abort = txn_marker_batch(
        commit=False, producer_id=8, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=2
    )
    machine, _ = load(partition(batch("a", producer_id=7, transactional=True, base_sequence=0), commit, abort))
    assert machine.ended == [(7, True), (8, False)]


def test_others_have_their_turn_while_a_long_log_is_loaded(play, clock):
    class Slow(Script):
        def replay(self, record, offset, producer_id=-1):
            clock.advance(1)
            super().replay(record, offset, producer_id)

    seen = []

    async def work():
        machine = Slow()
        loading = asyncio.ensure_future(Loader(partition(batch(*["x"] * 500)), machine, CODEC).run())
        while not loading.done():
            seen.append(len(machine.seen))
            await asyncio.sleep(0)
        assert len(machine.seen) == 500

    play(work())
    assert max(later - earlier for earlier, later in itertools.pairwise(seen)) <= 64
