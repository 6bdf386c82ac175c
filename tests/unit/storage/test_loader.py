from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kavka.kernels.batches import scan
from kavka.model.errors import KafkaStorageError
from kavka.storage.txn_index import AbortedTransaction

NOW = 1_700_000_000_000
ZERO = "0" * 20


def state(log):
    """All that a restart has to bring back."""
    return (
        log.log_start_offset,
        log.log_end_offset,
        log.epochs.entries,
        {e.producer_id: (e.producer_epoch, e.last_sequence, e.last_offset, e.txn_first_offset) for e in log.producers},
        log.producers.ongoing,
        [segment.base_offset for segment in log.segments],
        [segment.size for segment in log.segments],
        [segment.max_timestamp for segment in log.segments],
        log.aborted_transactions(0, 1 << 40),
        log.topic_id,
    )


def busy(kit):
    """A log with several segments, epochs, producers, transactions."""
    kit.create(segment_bytes=700, index_interval_bytes=100)
    for number in range(12):
        kit.append(pid=1, seq=number * 2, count=2, epoch=number // 4, timestamp=NOW + number)
    kit.append(pid=2, txn=True, epoch=3)
    kit.append(epoch=3)
    kit.end_txn(2, commit=False)
    kit.append(pid=3, txn=True, epoch=3)
    return kit


class TestAfterACleanStop:
    def test_everything_is_as_it_was(self, kit):
        busy(kit)
        before = state(kit.log)
        kit.log.close()
        report = kit.load(clean=True)
        assert state(kit.log) == before
        assert (report.notes, report.recovered_segments) == ([], 0)
        assert kit.log.recovery_point == kit.log.log_end_offset
        assert kit.offsets()

    def test_writing_goes_on(self, kit):
        busy(kit)
        kit.log.close()
        kit.load(clean=True)
        end = kit.log.log_end_offset
        assert kit.append(pid=1, seq=24).first_offset == end
        assert kit.append(pid=1, seq=24).duplicate

    def test_an_empty_log_is_an_empty_log(self, kit):
        kit.create()
        kit.log.close()
        assert kit.load(clean=True).notes == []
        assert kit.log.log_end_offset == 0

    def test_only_the_last_batch_of_a_producer_is_known_as_in_kafka(self, kit):
        kit.create()
        for sequence in range(3):
            kit.append(pid=1, seq=sequence)
        kit.log.close()
        kit.load(clean=True)
        assert kit.append(pid=1, seq=2).duplicate
        assert kit.append(pid=1, seq=3).first_offset == 3

    def test_without_any_snapshot_nothing_is_read(self, kit):
        kit.create()
        kit.append(pid=1)
        kit.log.close()
        (Path(kit.path) / f"{1:020d}.snapshot").unlink()
        kit.load(clean=True)
        assert len(kit.log.producers) == 0

    def test_a_torn_tail_is_recovered_all_the_same(self, kit):
        kit.create()
        kit.append(pid=1, count=2)
        kit.append(pid=1, seq=2)
        kit.log.close()
        with open(f"{kit.path}/{ZERO}.log", "ab") as file:
            file.write(b"torn")
        report = kit.load(clean=True)
        assert report.cut_bytes == 4
        assert kit.offsets() == [0, 1, 2]
        assert kit.log.producers.get(1).last_sequence == 2

    def test_a_damaged_topic_id_is_refused(self, kit):
        kit.create()
        kit.log.close()
        (Path(kit.path) / "partition.metadata").write_bytes(b"")
        with pytest.raises(KafkaStorageError, match=r"partition\.metadata"):
            kit.load(clean=True)

    def test_the_log_start_is_what_the_checkpoint_says(self, kit):
        kit.create()
        for _ in range(5):
            kit.append()
        kit.log.close()
        kit.load(clean=True, log_start_offset=3)
        assert kit.log.log_start_offset == 3
        assert kit.offsets() == [3, 4]
        assert kit.log.epochs.entries == ((0, 3),)

    def test_expired_producers_do_not_come_back(self, kit):
        kit.create(producer_id_expiration_ms=1000)
        kit.append(pid=1)
        kit.log.close()
        kit.now += 1000
        kit.load(clean=True)
        assert len(kit.log.producers) == 0


class TestAfterAnUncleanStop:
    def test_everything_is_found_again_from_the_batches(self, kit):
        busy(kit)
        before = state(kit.log)
        report = kit.load()
        assert state(kit.log) == before
        assert report.cut_bytes == 0
        assert report.recovered_segments == len(kit.log.segments)
        assert kit.log.recovery_point == 0

    def test_segments_below_the_recovery_point_are_trusted(self, kit):
        busy(kit)
        before = state(kit.log)
        kit.log.sync()
        point = kit.log.recovery_point
        report = kit.load(recovery_point=point)
        assert report.recovered_segments == 1
        assert state(kit.log) == before
        assert kit.log.recovery_point == point

    def test_a_torn_batch_is_cut_and_the_report_says_so(self, kit):
        kit.create()
        kit.append(pid=1, count=3)
        kit.append(pid=1, seq=3, count=2)
        path = Path(f"{kit.path}/{ZERO}.log")
        data = path.read_bytes()
        path.write_bytes(data[:-5])
        first = scan(data)[0].size
        report = kit.load()
        assert report.cut_bytes == len(data) - 5 - first
        assert "from offset 3 on" in report.notes[0]
        assert path.stat().st_size == first
        assert kit.log.producers.get(1).last_sequence == 2
        assert kit.append(pid=1, seq=3, count=2).first_offset == 3

    @pytest.mark.parametrize("clean", [False, True])
    def test_a_log_cut_inside_a_header_is_no_surprise_to_its_time_index(self, kit, clean):
        kit.create()
        kit.append(count=2)
        kit.log.close()
        path = Path(f"{kit.path}/{ZERO}.log")
        path.write_bytes(path.read_bytes()[:38])
        assert kit.load(clean=clean).cut_bytes == 38
        assert kit.log.log_end_offset == 0

    def test_a_flipped_bit_is_found_by_its_crc_and_what_follows_goes(self, kit):
        size = len(kit.batch())
        kit.create(segment_bytes=size * 2)
        for _ in range(6):
            kit.append()
        path = Path(f"{kit.path}/{2:020d}.log")
        data = bytearray(path.read_bytes())
        data[size + 65] ^= 1
        path.write_bytes(data)
        report = kit.load()
        assert kit.offsets() == [0, 1, 2]
        assert kit.bases() == [0, 2]
        assert report.removed_segments == 1
        assert "CRC" in report.notes[0]
        assert f"{4:020d}.log.deleted" in kit.names()
        assert kit.append().first_offset == 3

    def test_offsets_that_go_back_are_cut(self, kit):
        kit.create()
        kit.follow(kit.batch(base_offset=5, epoch=0))
        with open(f"{kit.path}/{ZERO}.log", "ab") as file:
            file.write(kit.batch(base_offset=3, epoch=0))
        report = kit.load()
        assert kit.log.log_end_offset == 6
        assert "offset 3 comes after 5" in report.notes[0]

    def test_a_batch_larger_than_a_chunk_is_read_whole(self, kit):
        kit.create(segment_bytes=1 << 24)
        kit.append()
        kit.append(value=random.Random(1).randbytes(3 << 20))
        kit.append()
        kit.load()
        assert kit.log.log_end_offset == 3

    def test_preallocated_zeros_are_cut(self, kit):
        kit.create(segment_bytes=1 << 16, preallocate=True)
        kit.append()
        report = kit.load()
        assert report.cut_bytes == (1 << 16) - len(kit.batch())
        assert kit.offsets() == [0]

    def test_epochs_that_were_never_written_are_found_in_the_batches(self, kit):
        busy(kit)
        assert "leader-epoch-checkpoint" not in kit.names()
        expected = kit.log.epochs.entries
        kit.load(recovery_point=kit.log.segments[-1].base_offset)
        assert kit.log.epochs.entries == expected

    def test_a_damaged_epoch_file_is_rebuilt(self, kit):
        for clean in (True, False):
            busy(kit)
            expected = kit.log.epochs.entries
            kit.log.close()
            (Path(kit.path) / "leader-epoch-checkpoint").write_text("0\n7\n1 2\n")
            report = kit.load(clean=clean, recovery_point=kit.log.log_end_offset)
            assert kit.log.epochs.entries == expected
            assert "rebuilt from the batches" in report.notes[0]
            shutil.rmtree(kit.path)

    def test_an_epoch_entry_past_the_end_is_dropped(self, kit):
        kit.create()
        kit.append(epoch=1)
        kit.log.epochs.assign(5, 1)
        kit.log.sync()
        kit.load(recovery_point=1)
        assert kit.log.epochs.entries == ((1, 0),)

    def test_an_epoch_file_older_than_a_truncation_does_not_win_over_the_batches(self, kit):
        kit.create()
        kit.append(epoch=0)
        kit.append(epoch=1)
        kit.log.sync()
        kit.log.truncate_to(0)
        kit.append(epoch=1)
        kit.load(recovery_point=kit.log.recovery_point)
        assert kit.log.epochs.entries == ((1, 0),)

    def test_producers_are_known_even_if_the_last_snapshot_is_past_the_end(self, kit):
        kit.create()
        kit.append(pid=1, count=3)
        kit.append(pid=1, seq=3, count=2)
        kit.log.close()
        path = Path(f"{kit.path}/{ZERO}.log")
        path.write_bytes(path.read_bytes()[: len(kit.batch(pid=1, count=3))])
        kit.load(clean=True)
        assert kit.log.log_end_offset == 3
        assert kit.log.producers.get(1).last_sequence == 2

    def test_a_segment_that_lost_its_end_takes_the_later_ones_along(self, kit):
        size = len(kit.batch())
        kit.create(segment_bytes=size * 2)
        for _ in range(6):
            kit.append()
        path = Path(f"{kit.path}/{2:020d}.log")
        path.write_bytes(path.read_bytes()[:size])
        report = kit.load()
        assert kit.offsets() == [0, 1, 2]
        assert "offsets 3 to 3 are missing" in report.notes[0]
        assert kit.append().first_offset == 3

    def test_a_compacted_log_may_have_gaps(self, kit):
        size = len(kit.batch())
        kit.create(segment_bytes=size * 2, compact=True)
        for _ in range(6):
            kit.append()
        path = Path(f"{kit.path}/{2:020d}.log")
        path.write_bytes(path.read_bytes()[:size])
        kit.load()
        assert kit.offsets() == [0, 1, 2, 4, 5]

    def test_a_torn_topic_id_is_as_if_it_was_never_written(self, kit):
        kit.create()
        (Path(kit.path) / "partition.metadata").write_bytes(b"version: 0\ntop")
        report = kit.load()
        assert kit.log.topic_id is None
        assert "removed" in report.notes[0]
        assert "partition.metadata" not in kit.names()

    def test_missing_and_damaged_snapshots_are_made_up_for(self, kit):
        busy(kit)
        before = state(kit.log)
        kit.log.sync()
        snapshots = sorted(Path(kit.path).glob("*.snapshot"))
        snapshots[-1].write_bytes(b"torn")
        for path in snapshots[:-1]:
            path.unlink()
        report = kit.load(recovery_point=kit.log.recovery_point)
        assert state(kit.log) == before
        assert any("snapshot" in note for note in report.notes)

    def test_missing_indexes_are_rebuilt_even_below_the_recovery_point(self, kit):
        for clean in (True, False):
            busy(kit)
            before = state(kit.log)
            kit.log.close()
            for path in Path(kit.path).glob("*index"):
                path.unlink()
            report = kit.load(clean=clean, recovery_point=kit.log.log_end_offset)
            assert state(kit.log) == before
            assert any("lacked an index" in note for note in report.notes)
            assert all(Path(f"{kit.path}/{base:020d}.index").exists() for base in kit.bases())
            shutil.rmtree(kit.path)

    def test_empty_indexes_are_only_slower(self, kit):
        busy(kit)
        kit.log.close()
        for path in Path(kit.path).glob("*.index"):
            path.write_bytes(b"")
        kit.load(clean=True)
        assert kit.offsets()[-1] == kit.log.log_end_offset - 1

    def test_aborted_transactions_are_indexed_again(self, kit):
        kit.create()
        kit.append(pid=1, txn=True)
        kit.log.roll(NOW)
        kit.end_txn(1, commit=False)
        kit.load()
        assert kit.log.aborted_transactions(0, 9) == [AbortedTransaction(1, 0, 1, 2)]

    def test_index_files_without_a_log_are_removed(self, kit):
        kit.create()
        kit.append()
        for kind in ("index", "timeindex", "txnindex"):
            (Path(kit.path) / f"{50:020d}.{kind}").write_bytes(b"")
        report = kit.load()
        assert len(report.notes) == 3
        assert not any(name.startswith(f"{50:020d}") for name in kit.names())

    def test_files_marked_deleted_are_removed(self, kit):
        kit.create()
        kit.append()
        (Path(kit.path) / f"{0:020d}.log.deleted").write_bytes(b"x")
        kit.load()
        assert not any(name.endswith(".deleted") for name in kit.names())

    def test_an_empty_directory_becomes_an_empty_log(self, kit):
        Path(kit.path).mkdir()
        kit.load(log_start_offset=7)
        assert (kit.log.log_start_offset, kit.log.log_end_offset) == (7, 7)
        assert kit.append().first_offset == 7

    def test_a_log_that_ends_before_its_start_is_emptied(self, kit):
        kit.create()
        kit.append(pid=1, count=5)
        report = kit.load(log_start_offset=10)
        assert (kit.log.log_start_offset, kit.log.log_end_offset) == (10, 10)
        assert len(kit.log.producers) == 0
        assert any("before its log start offset" in note for note in report.notes)
        assert kit.append().first_offset == 10
        kit.load(log_start_offset=10)
        assert kit.offsets() == [10]

    def test_a_directory_that_cannot_be_read_is_one_line(self, kit):
        with pytest.raises(KafkaStorageError, match="cannot load the log"):
            kit.load()

    def test_stray_snapshots_go_but_for_the_newest(self, kit):
        busy(kit)
        kit.log.close()
        newest = max(kit.log.producers.snapshots)
        for offset in (1, 3, 5):
            shutil.copy(f"{kit.path}/{newest:020d}.snapshot", f"{kit.path}/{offset:020d}.snapshot")
        kit.load(clean=True)
        assert set(kit.log.producers.snapshots) == (set(kit.bases()) | {newest}) - {0}

    def test_recovering_twice_changes_nothing_more(self, kit):
        busy(kit)
        with open(kit.log.segments[-1].file.path, "ab") as file:
            file.write(b"\0" * 30)
        kit.load()
        once = state(kit.log)
        report = kit.load()
        assert state(kit.log) == once
        assert report.cut_bytes == 0


def test_a_segment_that_was_cut_off_and_that_a_crash_brings_back_is_dropped(kit):
    kit.create(segment_bytes=1 << 20)
    for number in range(4):
        kit.append(value=b"%d" % number)
    kit.log.roll(kit.now)
    for number in range(4):
        kit.append(value=b"old %d" % number)
    kit.log.truncate_to(2)
    for number in range(4):
        kit.append(value=b"new %d" % number, epoch=1)
    kit.log.sync()
    for path in Path(kit.path).glob("*.deleted"):
        path.rename(path.with_suffix(""))
    kit.load(recovery_point=2)
    assert [record.value for record in kit.records()] == [b"0", b"1", b"new 0", b"new 1", b"new 2", b"new 3"]
    kit.log.close()
    kit.load(clean=True, recovery_point=6)
    assert kit.offsets() == list(range(6))
