"""The metadata log on disk: what a leader writes, what a follower takes over, what snapshots leave of it."""

from __future__ import annotations

import os

import pytest

from kavka.metadata.records import encode_record
from kavka.metadata.records.transactions import NoOpRecord
from kavka.model.errors import KafkaStorageError
from kavka.model.types import Endpoint, Uuid
from kavka.quorum.metadata_log import MetadataLog
from kavka.quorum.snapshots import Snapshot, SnapshotId, encode_snapshot, store_snapshot
from kavka.quorum.voters import ControlState, ReplicaKey, Voter, kraft_version_record, voters_record
from kavka.raft.voters import VoterSet
from kavka.records.batch import scan
from kavka.storage.disk import RealDisk

DISK = RealDisk()
NOOP = encode_record(NoOpRecord(), 0)
VOTERS = tuple(Voter(ReplicaKey(n, Uuid(bytes([n]) * 16)), (Endpoint("C", "h", n, ""),)) for n in (1, 2, 3))


@pytest.fixture
def log(tmp_path):
    opened = MetadataLog(DISK, str(tmp_path / "one"))
    opened.open(0)
    yield opened
    opened.close()


@pytest.fixture
def other(tmp_path):
    opened = MetadataLog(DISK, str(tmp_path / "two"))
    opened.open(0)
    yield opened
    opened.close()


def reopened(log, **how):
    log.close()
    log.open(0, **how)
    return log


def bytes_of(log, offset=0):
    piece = log.read(offset, 1 << 20)
    return piece.file.read_at(piece.position, piece.length)


def snapshot_at(log, offset, epoch, control=None):
    id_ = SnapshotId(offset, epoch)
    store_snapshot(
        DISK, log.path, id_, encode_snapshot([NOOP], epoch=epoch, log_timestamp=9, now_ms=9, control=control)
    )
    return id_


def test_an_empty_log_knows_nothing(log):
    assert (log.start_offset, log.end_offset, log.last_epoch, log.latest_snapshot) == (0, 0, 0, None)
    assert log.history(VoterSet(VOTERS)).voters == VoterSet(VOTERS)
    assert log.take_snapshot_records() is None


def test_epochs_end_where_the_next_begins(log):
    log.append([NOOP] * 3, 1, 5)
    log.append([NOOP] * 2, 4, 5)
    assert log.last_epoch == 4
    assert log.end_offset_for_epoch(4) == (5, 4)
    assert log.end_offset_for_epoch(9) == (5, 4)  # later than all: the end
    assert log.end_offset_for_epoch(3) == (3, 1)
    assert log.end_offset_for_epoch(1) == (3, 1)
    assert log.end_offset_for_epoch(0) == (0, 0)


def test_the_voters_are_those_of_the_last_record(log):
    log.append_control([kraft_version_record(1), voters_record(VOTERS[:1])], 1, 5)
    log.append([NOOP], 1, 5)
    changes = log.append_control([voters_record(VOTERS)], 1, 6)
    assert [change.offset for change in changes] == [3]
    history = reopened(log).history(VoterSet())
    assert history.voters == VoterSet(VOTERS)
    assert history.voters_offset == 3
    assert history.kraft_version == 1
    assert history.at(2) == (1, VoterSet(VOTERS[:1]))


def test_a_follower_takes_over_what_the_leader_has(log, other):
    log.append_control([kraft_version_record(1), voters_record(VOTERS)], 1, 5)
    log.append([NOOP] * 4, 2, 5)
    changes = other.append_fetched(bytes_of(log), 2, 5)
    assert [change.offset for change in changes] == [0, 1]
    assert (other.end_offset, other.last_epoch) == (6, 2)
    assert list(other.replay(0, 6)) == list(log.replay(0, 6))


def test_a_follower_refuses_what_does_not_continue_its_log(log, other, caplog):
    log.append([NOOP], 1, 5)
    log.append([NOOP], 1, 5)
    other.append_fetched(bytes_of(log, 1), 1, 5)
    assert other.end_offset == 0
    assert "sent offset 1, expected 0" in caplog.text


def test_a_follower_takes_only_whole_and_sound_batches(log, other, caplog):
    log.append([NOOP], 1, 5)
    log.append([NOOP], 1, 5)
    data = bytes_of(log)
    other.append_fetched(data[:-5], 1, 5)
    assert other.end_offset == 1
    first = scan(data)[0].size
    damaged = bytearray(data[first:])
    damaged[-1] ^= 1
    other.append_fetched(bytes(damaged), 1, 5)
    assert other.end_offset == 1
    assert "sent corrupt records" in caplog.text


def test_a_batch_of_a_later_epoch_than_the_leaders_is_left(log, other):
    log.append([NOOP], 1, 5)
    log.append([NOOP], 7, 5)
    other.append_fetched(bytes_of(log), 6, 5)
    assert other.end_offset == 1


def test_replaying_stops_where_it_is_told_to(log):
    for epoch in (1, 2, 3):
        log.append([NOOP, NOOP], epoch, 5)
    portions = list(log.replay(2, 4))
    assert [(len(portion.records), portion.offset, portion.epoch) for portion in portions] == [(2, 3, 2)]


def test_control_records_move_the_offset_and_bring_no_records(log):
    log.append_control([voters_record(VOTERS)], 1, 5)
    assert [(portion.records, portion.offset) for portion in log.replay(0, 1)] == [([], 0)]


def test_what_is_not_known_to_be_on_the_disk_is_cut_when_it_fails(log):
    log.append([NOOP], 1, 5)
    log.log.sync()
    log.append([NOOP], 1, 5)
    log.reopen(6)
    assert (log.end_offset, log.durable_offset) == (1, 1)


def test_an_installed_snapshot_replaces_the_log(log):
    log.append([NOOP] * 3, 1, 5)
    control = ControlState(1, VOTERS)
    id_ = snapshot_at(log, 100, 7, control)
    changes = log.start_from(id_, Snapshot(control, [NoOpRecord()], 9), 5)
    assert changes[0].offset == 99
    assert (log.start_offset, log.end_offset, log.last_epoch, log.latest_snapshot) == (100, 100, 7, (100, 7))
    assert log.take_snapshot_records() == ([NoOpRecord()], 99, 7, 9)
    log.append([NOOP], 8, 5)
    assert reopened(log).end_offset == 101
    assert log.history(VoterSet()).voters == VoterSet(VOTERS)
    assert log.take_snapshot_records() == ([NoOpRecord()], 99, 7, 9)


def test_a_crash_between_snapshot_and_truncation_is_mended_at_the_start(log):
    log.append([NOOP] * 3, 1, 5)
    snapshot_at(log, 100, 7)
    assert reopened(log).end_offset == 100
    assert log.last_epoch == 7


def test_an_unfinished_download_is_removed_at_the_start(log):
    path = f"{log.path}/00000000000000000100-0000000007-abc.checkpoint.part"
    DISK.write_file(path, b"half")
    reopened(log)
    assert not os.path.exists(path)


def test_a_log_cut_at_its_start_needs_its_snapshot(log):
    for epoch in (1, 2):
        log.append([NOOP] * 50, epoch, 5)
        log.roll(5)
    id_ = snapshot_at(log, 50, 1)
    log.has_snapshot(id_, 100, 5)
    assert log.start_offset == 50
    os.unlink(log.path_of(id_))
    with pytest.raises(KafkaStorageError, match="no sound snapshot"):
        reopened(log)


def test_older_snapshots_go_when_they_are_too_old_or_too_much(log):
    for epoch in (1, 2, 3):
        log.append([NOOP] * 50, epoch, 5)
        log.roll(5)
    for offset, epoch in ((50, 1), (100, 2)):
        log.has_snapshot(snapshot_at(log, offset, epoch), 150, 5)
    assert log.snapshots == [(100, 2), (50, 1)]
    modified = DISK.modified_ms(log.path_of(SnapshotId(50, 1)))
    log.clean(150, 1 << 30, 1000, modified + 1000)
    assert len(log.snapshots) == 2
    log.clean(150, -1, -1, modified + 10_000)
    assert len(log.snapshots) == 2
    log.clean(150, 1 << 30, 1000, modified + 1001)
    assert log.snapshots == [(100, 2)]
    assert log.start_offset == 100
    log.has_snapshot(snapshot_at(log, 150, 3), 150, 5)
    log.clean(150, 100, -1, 5)
    assert log.snapshots == [(150, 3)]


def test_only_what_is_written_after_the_snapshot_counts(log):
    log.append([NOOP] * 50, 1, 5)
    before = log.log.size_bytes
    assert log.bytes_after_snapshot() == before
    log.append([NOOP] * 50, 1, 5)
    after = log.log.size_bytes - before
    log.has_snapshot(snapshot_at(log, 50, 1), 100, 5)
    assert log.bytes_after_snapshot() == after
    log.roll(5)
    log.append([NOOP] * 50, 1, 5)
    assert log.bytes_after_snapshot() == 2 * after
    assert reopened(log).bytes_after_snapshot() == 2 * after
