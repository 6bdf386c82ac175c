"""Several log directories: where replicas go, and what a disk that fails takes with it."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest
from followed import Replicated
from held import FaultyDisk, Held

from kavka.metadata.image.configs import ResourceType
from kavka.model.clock import ManualClock
from kavka.model.errors import KafkaStorageError, NotLeaderOrFollower
from kavka.model.types import Uuid
from kavka.records.builder import BatchBuilder
from kavka.replica.checkpoints import Checkpoints
from kavka.replica.dirs import choose, cordon, offline_ids
from kavka.replica.loading import Loading
from kavka.replica.partition import Partition
from kavka.replica.placing import Placement, Placing
from kavka.replica.syncing import Syncer
from kavka.storage import files

SECOND, THIRD = Uuid(b"s" * 16), Uuid(b"t" * 16)


@pytest.fixture
def three(tmp_path: Path, disk: FaultyDisk, clock: ManualClock) -> Held:
    """The replicas of a node with three log directories, the first of which has the metadata log."""
    return Held(tmp_path / "data", disk, clock, SECOND, THIRD)


def paths(held: Held, topic: str) -> list[str]:
    """Where the partitions of a topic lie, by the names of their directories."""
    found = (held.replicas.find(topic, index) for index in held.machine.image.topics.by_name[topic].partitions)
    return [Path(held.replicas.directory_of(partition).path).name for partition in found]


def test_replicas_go_to_the_directory_with_the_fewest(three: Held) -> None:
    three.topic("orders", 7)
    assert sorted(paths(three, "orders")) == ["data"] * 3 + ["data-2"] * 2 + ["data-3"] * 2


def test_no_replica_goes_to_a_cordoned_directory_unless_all_are(three: Held) -> None:
    dirs = three.replicas.dirs
    three.configure(ResourceType.BROKER, "1", cordoned_log_dirs=f"{dirs[0].path},{dirs[2].path}")
    three.topic("orders", 3)
    assert paths(three, "orders") == ["data-2"] * 3
    cordon(dirs, ["*"])
    first, second, _ = dirs
    assert [choose(dirs)] == [first]
    first.fail("unplugged")
    assert [choose(dirs)] == [second]


@pytest.mark.parametrize("kind", ["write", "read", "sync", "replace"])
def test_a_disk_that_refuses_anything_takes_its_own_directory_offline(three: Held, disk: FaultyDisk, kind: str) -> None:
    three.topic("orders", 3)
    partitions = [three.replicas.find("orders", index) for index in range(3)]
    lost = next(partition for partition in partitions if "data-2" in partition.log.path)
    for partition in partitions:
        three.produce(partition)
    disk.faults = {kind: "data-2"}
    with pytest.raises(KafkaStorageError):
        refuse(three, lost, kind)
    if kind == "replace":
        three.replicas.check_dirs()
    assert offline_ids(three.replicas.dirs) == [SECOND]
    with pytest.raises(KafkaStorageError, match="offline log directory"):
        three.replicas.find("orders", lost.topic_partition.partition)
    with pytest.raises(KafkaStorageError, match="offline log directory"):
        lost.log.read(0, 100, 1)
    for partition in partitions:
        if partition is not lost:
            three.produce(partition)
    three.topic("later", 4)
    assert set(paths(three, "later")) == {"data", "data-3"}


def test_what_follows_a_refused_write_is_no_gap_in_its_producers_sequence(three: Held, disk: FaultyDisk) -> None:
    """Else an idempotent producer would number anew what is on its way, and another replica may have that already."""
    three.topic("orders", 3)
    partitions = [three.replicas.find("orders", index) for index in range(3)]
    (lost,) = (partition for partition in partitions if "data-2" in partition.log.path)
    three.topic("later", 3)
    (beside,) = (p for p in three.replicas if "data-2" in p.log.path and p is not lost)
    append(three, lost, 0)
    append(three, beside, 0)
    disk.faults = {"write": lost.log.path}
    with pytest.raises(KafkaStorageError):
        append(three, lost, 1)
    disk.faults = {}
    for partition in (lost, beside):
        with pytest.raises(KafkaStorageError):
            three.replicas.find(*partition.topic_partition)
        with pytest.raises(NotLeaderOrFollower):
            append(three, partition, 2)


def append(held: Held, partition: Partition, sequence: int) -> None:
    """Append one record of an idempotent producer."""
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=sequence)
    builder.append(b"k", b"v", held.clock.now_ms())
    partition.append(memoryview(builder.build()), -1, held.clock.now_ms(), 13)


def test_what_the_disk_refused_while_it_was_the_only_one_is_forgotten(three: Held, disk: FaultyDisk) -> None:
    three.topic("alone", 3)
    partition = next(partition for partition in three.replicas if Path(partition.log.path).parent.name == "data")
    disk.faults = {"write": "data/"}
    with pytest.raises(KafkaStorageError):
        three.produce(partition)
    disk.faults = {}
    Replicated(three)
    three.replicas.check_dirs()
    assert offline_ids(three.replicas.dirs) == []
    assert three.produce(partition).first_offset == 0


@pytest.mark.parametrize(("kind", "code"), [("write", errno.EMFILE), ("read", errno.ENFILE), ("read", errno.ENOENT)])
def test_too_many_open_files_or_a_deleted_segment_is_no_fault_of_the_disk(
    three: Held, disk: FaultyDisk, kind: str, code: int
) -> None:
    three.topic("orders", 3)
    partition = three.replicas.find("orders", 0)
    three.produce(partition)

    def meet(met: str, path: str) -> None:
        if met == kind:
            raise OSError(code, os.strerror(code), path)

    disk.before = meet
    with pytest.raises(KafkaStorageError, match=os.strerror(code)):
        refuse(three, partition, kind)
    assert offline_ids(three.replicas.dirs) == []
    disk.before = lambda kind, path: None
    assert three.produce(partition).first_offset == 1


def refuse(held: Held, partition, kind: str) -> None:
    """Have the disk refuse one thing of a partition's directory."""
    if kind == "write":
        held.produce(partition)
    elif kind == "read":
        partition.log.read(0, 10, 1)
    elif kind == "sync":
        partition.log.sync()
    else:
        checkpoints: Checkpoints = held.replicas.checkpoints
        if len(asyncio.run(checkpoints.write(files.HIGH_WATERMARKS))) == 1:
            raise KafkaStorageError("a checkpoint could not be written")


def test_a_disk_that_hangs_holds_up_only_those_who_wait_for_it(three: Held, disk: FaultyDisk) -> None:
    three.topic("orders", 3)
    logs = {Path(partition.log.path).parent.name: partition.log for partition in three.replicas}
    for partition in three.replicas:
        three.produce(partition)
    go_on = threading.Event()
    disk.before = lambda kind, path: kind == "sync" and "data-2" in path and go_on.wait()

    async def test() -> None:
        loop = asyncio.get_running_loop()
        syncer = Syncer(loop)
        one, all_of_them = loop.create_future(), loop.create_future()
        syncer.sync(logs.values(), all_of_them.set_result)
        syncer.sync([logs["data-3"]], one.set_result)
        assert await one == {}
        assert not all_of_them.done()
        go_on.set()
        assert await all_of_them == {}
        syncer.close()

    asyncio.run(asyncio.wait_for(test(), 10))
    assert {log.recovery_point for log in logs.values()} == {1}


def test_the_only_disk_of_a_node_alone_is_kept_whatever_it_refuses(held: Held, disk: FaultyDisk) -> None:
    partition = held.topic("orders")
    disk.faults = {"write": ""}
    with pytest.raises(KafkaStorageError):
        held.produce(partition)
    disk.faults = {}
    assert held.produce(partition).first_offset == 0


def test_a_node_alone_keeps_the_directory_of_its_metadata_log(three: Held, disk: FaultyDisk) -> None:
    three.topic("orders", 3)
    disk.faults = {"write": "data/"}
    with pytest.raises(KafkaStorageError):
        three.produce(three.replicas.find("orders", 0))
    assert offline_ids(three.replicas.dirs) == []
    three.replicas.take_offline(three.replicas.dirs[0], "pulled out")
    with pytest.raises(KafkaStorageError, match="the metadata log lies in it"):
        offline_ids(three.replicas.dirs)


def test_the_controller_is_told_of_lost_replicas_that_it_does_not_know_the_place_of(three: Held) -> None:
    told: list[Placement] = []

    async def assign(placements) -> None:
        told.extend(placements)

    three.topic("orders", 3)
    lost = next(partition for partition in three.replicas if "data-3" in partition.log.path)
    losses: list[bool] = []
    three.replicas.on_loss(lambda: losses.append(True))
    three.replicas.take_offline(three.replicas.dirs[2], "pulled out")
    asyncio.run(Placing(three.replicas, assign).tell())
    assert Placement(THIRD, lost.topic_id, lost.topic_partition.partition) in told
    assert len(told) == 3
    assert losses == [True]


def test_a_directory_that_cannot_be_listed_at_the_start_is_offline_alone(three: Held, disk: FaultyDisk) -> None:
    three.topic("orders", 3)
    for partition in list(three.replicas):
        partition.log.close()
    disk.faults = {"list": "data-2"}
    replicas = three.start()
    loading = Loading(replicas, disk, three.clock, lambda: next(three.names))
    assert asyncio.run(loading.run(three.machine.image, asyncio.Event()))
    assert offline_ids(replicas.dirs) == [SECOND]
    assert len(replicas) == 2
