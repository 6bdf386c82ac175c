"""Snapshots: written, read back, and refused when damaged."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kavka.metadata.records import encode_record
from kavka.metadata.records.settings import ConfigRecord
from kavka.model.errors import KafkaStorageError
from kavka.model.types import Endpoint, Uuid
from kavka.quorum.snapshots import (
    SnapshotId,
    encode_snapshot,
    list_snapshots,
    read_snapshot,
    store_snapshot,
    unfinished_snapshots,
)
from kavka.quorum.voters import ControlState, ReplicaKey, Voter
from kavka.storage.disk import RealDisk

DISK = RealDisk()
CONTROL = ControlState(1, (Voter(ReplicaKey(1, Uuid(b"d" * 16)), (Endpoint("CONTROLLER", "h", 9093, ""),)),))
RECORDS = [
    ConfigRecord(resource_type=2, resource_name="a", name=f"k{number}", value="v" * 999) for number in range(3000)
]


def encoded(records=RECORDS):
    values = [encode_record(record, 0) for record in records]
    return encode_snapshot(values, epoch=3, log_timestamp=5, now_ms=7, control=CONTROL)


def same_state(image, other):
    return replace(image, offset=0, epoch=0) == replace(other, offset=0, epoch=0)


def test_what_is_written_is_read_back_over_several_batches(tmp_path):
    path = str(tmp_path)
    store_snapshot(DISK, path, SnapshotId(100, 3), encoded())
    snapshot = read_snapshot(DISK, f"{path}/00000000000000000100-0000000003.checkpoint")
    assert snapshot.records == RECORDS
    assert snapshot.control == CONTROL


@pytest.mark.parametrize("damage", ["flip", "cut", "no footer", "empty", "no header"])
def test_a_damaged_snapshot_is_refused(tmp_path, damage):
    data = bytearray(encoded(RECORDS[:3]))
    if damage == "flip":
        data[300] ^= 1
    elif damage == "cut":
        del data[-5:]
    elif damage == "no footer":
        del data[-75:]
    elif damage == "no header":
        del data[: 12 + int.from_bytes(data[8:12], "big")]
    else:
        data.clear()
    (tmp_path / "x.checkpoint").write_bytes(data)
    with pytest.raises(KafkaStorageError, match=r"x\.checkpoint"):
        read_snapshot(DISK, str(tmp_path / "x.checkpoint"))


def test_the_newest_come_first_and_others_files_do_not_count(tmp_path):
    names = ["00000000000000000005-0000000001", "00000000000000000100-0000000001", "00000000000000000100-0000000002"]
    for name in names:
        (tmp_path / f"{name}.checkpoint").touch()
    unfinished = "00000000000000000200-0000000002-123.checkpoint.part"
    for other in ("leader-epoch-checkpoint", unfinished, "00000000000000000005.log"):
        (tmp_path / other).touch()
    assert list_snapshots(DISK, str(tmp_path)) == [(100, 2), (100, 1), (5, 1)]
    assert list(unfinished_snapshots(DISK, str(tmp_path))) == [unfinished]


def make_snapshot(node, creating, *names, **limits):
    async def scenario():
        async with node.running(register=True, **limits) as loop:
            await creating(loop, *names)
            with ThreadPoolExecutor(1) as threads:
                id_ = await loop.snapshot(threads)
                assert await loop.snapshot(threads) is None  # nothing is new
            return loop.image, id_

    return asyncio.run(scenario())


def image_after_restart(node, **how):
    async def scenario():
        async with node.running(**how) as loop:
            return loop.image

    return asyncio.run(scenario())


def test_a_restart_from_a_snapshot_has_the_same_image(node, creating):
    before, id_ = make_snapshot(node, creating, "a", "b")
    assert id_ == (before.offset + 1, before.epoch)
    assert same_state(before, image_after_restart(node))


def test_records_after_the_snapshot_are_replayed_on_it(node, creating):
    make_snapshot(node, creating, "a")

    async def more():
        async with node.running(close=False) as loop:
            await creating(loop, "b")
            return loop.image

    after = asyncio.run(more())
    assert set(after.topics.by_name) == {"a", "b"}
    assert same_state(after, image_after_restart(node))


def test_old_segments_and_snapshots_go_but_the_last_two_stay(node, creating):
    for name in "abcd":
        make_snapshot(node, creating, name)
    snapshots = list_snapshots(DISK, node.log_dir)
    assert len(snapshots) == 2
    segments = sorted(name for name in os.listdir(node.log_dir) if name.endswith(".log"))
    assert int(segments[0].split(".")[0]) <= snapshots[-1].offset
    assert int(segments[0].split(".")[0]) > 0


def test_a_damaged_snapshot_is_passed_over_for_the_one_before(node, creating):
    make_snapshot(node, creating, "a")
    before, id_ = make_snapshot(node, creating, "b")
    path = f"{node.log_dir}/{id_.file_name}"
    os.chmod(path, 0o644)
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff\xff")
    assert same_state(before, image_after_restart(node))
    assert any("passed over" in note for note in node.report.notes)


def test_a_log_that_lost_its_beginning_goes_on_from_the_snapshot(node, creating):
    before, _ = make_snapshot(node, creating, "a")
    for name in os.listdir(node.log_dir):
        if name.endswith((".log", ".index", ".timeindex", ".snapshot")):
            os.unlink(f"{node.log_dir}/{name}")
    assert same_state(before, image_after_restart(node))


def test_without_any_sound_snapshot_the_node_does_not_start(node):
    os.unlink(f"{node.log_dir}/00000000000000000000-0000000000.checkpoint")
    with pytest.raises(KafkaStorageError, match="not formatted"):
        node.loop().start()


def test_enough_bytes_bring_a_snapshot_by_themselves(node, creating):
    async def scenario():
        async with node.running(register=True, max_bytes=8_000) as loop:
            for number in range(20):
                await creating(loop, *(f"t{number}-{other}" for other in range(10)))
            for _ in range(200):
                if list_snapshots(DISK, node.log_dir)[0].offset:
                    break
                await asyncio.sleep(0.01)
            return loop.image

    before = asyncio.run(scenario())
    assert list_snapshots(DISK, node.log_dir)[0].offset > 0
    assert same_state(before, image_after_restart(node))


def test_enough_time_brings_a_snapshot_too(node):
    async def scenario():
        async with node.running(register=True, interval_ms=20):
            for _ in range(200):
                if list_snapshots(DISK, node.log_dir)[0].offset:
                    return
                await asyncio.sleep(0.01)

    asyncio.run(scenario())
    assert list_snapshots(DISK, node.log_dir)[0].offset > 0
