"""What a node does to its logs by itself; a disk that fails is told of and tried again."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kavka.replica.housekeeping import Housekeeping
from kavka.replica.syncing import Syncer

SEGMENT = 100


@pytest.fixture
def keep(held):
    """Do pieces of housekeeping, one after the other."""

    def do(*names):
        async def go():
            syncer = Syncer(asyncio.get_running_loop())
            try:
                house = Housekeeping(held.replicas, syncer, held.clock)
                for name in names:
                    if isinstance(name, int):
                        held.clock.advance(name)
                    else:
                        await getattr(house, name)()
            finally:
                syncer.close()
                await asyncio.sleep(0)
                await asyncio.sleep(0)

        asyncio.run(go())

    return do


def segments(held, count=5, **configs):
    """A partition with sealed segments and an empty active one."""
    partition = held.topic("orders", internal_segment_bytes=SEGMENT, **configs)
    for _ in range(count):
        held.produce(partition, bytes(20))
    partition.log.roll(held.clock.now_ms())
    assert len(partition.log.segments) == count + 1
    return partition


def names(held, pattern="orders-0/*.log*"):
    return sorted(path.name for path in held.root.glob(pattern))


def test_old_segments_go_and_their_files_after_the_delay(held, keep):
    partition = segments(held, retention_ms=1000, file_delete_delay_ms=5000)
    keep(2000, "retain")
    assert (len(partition.log.segments), partition.log.log_start_offset) == (1, 5)
    assert sum(name.endswith(".deleted") for name in names(held)) == 5
    keep(5000, "retain")
    assert len(names(held)) == 1
    assert names(held, "orders-0/*.deleted") == []


def test_files_are_removed_away_from_the_loop(held, keep):
    segments(held, retention_ms=1000, file_delete_delay_ms=0)
    loop_thread, where = threading.get_ident(), set()
    unlink = held.disk.unlink
    keep(2000)
    held.replicas.disk = type(
        "Disk", (), {"unlink": lambda _, path: where.add(threading.get_ident()) or unlink(path)}
    )()
    keep("retain")
    assert where
    assert loop_thread not in where


def test_what_a_reader_has_pinned_stays_readable_until_it_is_read(held, keep):
    partition = segments(held, retention_ms=1000, file_delete_delay_ms=0)
    piece = partition.log.read(0, 1000, 5)
    piece.file.pin()
    before = piece.file.read_at(0, piece.length)
    keep(2000, "retain")
    assert len(names(held)) == 1
    assert piece.file.read_at(0, piece.length) == before
    piece.file.unpin()


def test_rolled_segments_are_forced_and_the_active_one_only_after_flush_ms(held, keep):
    rolled = segments(held)
    timed = held.topic("timed", flush_ms=3000)
    held.produce(timed)
    keep("flush", 2000, "flush")
    assert (rolled.log.recovery_point, timed.log.recovery_point) == (5, 0)
    keep("flush", 3000, "flush")
    assert timed.log.recovery_point == 1


def test_the_time_of_flush_ms_begins_anew_after_each_flush(held, keep):
    partition = held.topic("timed", flush_ms=3000)
    beside = held.topic("beside").log
    house = []

    async def go():
        syncer = Syncer(asyncio.get_running_loop())
        keeping = Housekeeping(held.replicas, syncer, held.clock)
        for step in range(8):
            if step % 4 == 0:
                held.produce(partition)
            await keeping.flush()
            forced = asyncio.get_running_loop().create_future()
            syncer.sync([beside], forced.set_result)
            await forced
            house.append(partition.log.recovery_point)
            held.clock.advance(1000)
        syncer.close()

    asyncio.run(go())
    assert house == [0, 0, 0, 1, 1, 1, 1, 2]


def test_deleted_logs_are_removed_after_their_delay_and_leftovers_at_once(held, keep):
    held.topic("orders", file_delete_delay_ms=1000)
    held.delete()
    (held.root / "left-0.0-delete").mkdir()
    held.replicas.removals.leftovers.append(str(held.root / "left-0.0-delete"))
    keep("remove_deleted")
    assert names(held, "left*") == []
    assert len(names(held, "orders-0.*-delete")) == 1
    keep(1000, "remove_deleted")
    assert names(held, "orders*") == []
    assert not held.replicas.removals.deleted


@pytest.mark.parametrize("kind", ["read", "rename", "write", "remove", "sync"])
def test_a_disk_that_fails_stops_no_housekeeping(held, keep, kind, caplog):
    segments(held, retention_ms=1000, file_delete_delay_ms=0)
    other = held.topic("other", internal_segment_bytes=SEGMENT, retention_ms=1000, file_delete_delay_ms=0)
    held.produce(other, bytes(20))
    other.log.roll(held.clock.now_ms())
    held.topic("gone", file_delete_delay_ms=0)
    held.delete("gone")
    held.disk.faults = {kind: "orders-0"}
    keep("flush", 2000, "retain", "retain", "expire_producers", "remove_deleted")
    assert other.log.log_start_offset == 1
    assert names(held, "gone*") == []


def test_a_piece_of_work_that_fails_is_done_again_at_its_next_time(held, caplog):
    done = []

    class Failing(Housekeeping):
        async def flush(self):
            done.append(True)
            raise ZeroDivisionError

    async def go():
        keeping = Failing(held.replicas, None, held.clock)
        task = asyncio.ensure_future(keeping.run())
        await asyncio.sleep(0)
        while len(done) < 2:
            await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(go(), 10))
    assert "ZeroDivisionError" in caplog.text
