"""Replicas moved between log directories: nothing is lost or doubled, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from held import FaultyDisk, Held

from kavka.metadata.image.configs import ResourceType
from kavka.metadata.records.topics import PartitionChangeRecord
from kavka.model.clock import ManualClock
from kavka.model.errors import KafkaStorageError, NotController
from kavka.model.transition import Transition
from kavka.model.types import TopicPartition, Uuid
from kavka.records.batch import scan
from kavka.replica.loading import Loading, TwiceError
from kavka.replica.manager import ReplicaManager
from kavka.replica.moving import Moving
from kavka.replica.partition import Partition
from kavka.replica.placing import Placement
from kavka.replica.stopping import stop_cleanly
from kavka.replica.syncing import Syncer

SECOND = Uuid(b"s" * 16)
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def two(tmp_path: Path, disk: FaultyDisk, clock: ManualClock) -> Held:
    """The replicas of a node with two log directories, and a topic in the first."""
    held = Held(tmp_path / "data", disk, clock, SECOND)
    held.topic("orders", segment_bytes=1 << 20)
    return held


class Mover:
    """Moves what a node is told to move, and tells the controller."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.told: list[Placement] = []
        self.before_telling: Callable[[], None] = lambda: None

    async def _assign(self, placements: Sequence[Placement]) -> None:
        self.before_telling()
        self.told += placements
        for placement in placements:
            self.know(placement.directory_id)

    def know(self, directory_id: Uuid) -> None:
        """Have the metadata say where the replica lies."""
        topic = self.held.machine.image.topics.by_name["orders"]
        record = PartitionChangeRecord(partition_id=0, topic_id=topic.id, directories=[directory_id])
        self.held.write(Transition(None, (record,)))

    def until(self, reached: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
        async def go() -> None:
            syncer = Syncer(asyncio.get_running_loop())
            running = asyncio.ensure_future(Moving(self.held.replicas, syncer, self._assign, self.held.clock).run())
            try:
                while not reached():
                    assert not running.done(), running
                    meanwhile()
                    await asyncio.sleep(0.001)
            finally:
                running.cancel()
                await asyncio.wait([running])
                syncer.close()

        asyncio.run(asyncio.wait_for(go(), 20))


@pytest.fixture
def mover(two: Held, monkeypatch: pytest.MonkeyPatch) -> Mover:
    monkeypatch.setattr("kavka.replica.moving.AT_A_TIME", 400)
    monkeypatch.setattr("kavka.replica.moving.FEWEST_AT_A_TIME", 100)
    monkeypatch.setattr("kavka.replica.moving.TRY_AGAIN_SECONDS", 0.001)
    return Mover(two)


def target(held: Held) -> str:
    return held.replicas.dirs[1].path


def write(held: Held, partition: Partition, count: int) -> None:
    for _ in range(count):
        held.produce(partition, b"%06d" % partition.log_end_offset)


def numbers(partition: Partition) -> list[int]:
    """The offsets of a log, read back from its files; the log is as long as they say."""
    found: list[int] = []
    while (offset := found[-1] + 1 if found else partition.local_log_start_offset) < partition.log_end_offset:
        for batch in scan(partition.read_own(offset, 1 << 20)):
            found += range(batch.base_offset, batch.last_offset + 1)
    return found


def reload(held: Held, *, clean: bool = False) -> ReplicaManager:
    """A start on what is on disk now."""
    replicas = held.start(clean=clean)
    loading = Loading(replicas, held.disk, held.clock, lambda: next(held.names))
    assert asyncio.run(loading.run(held.machine.image, asyncio.Event()))
    return replicas


def test_a_replica_is_moved_while_it_is_written_to_and_those_who_use_it_notice_nothing(two: Held, mover: Mover) -> None:
    partition = two.replicas.find("orders", 0)
    write(two, partition, 50)
    two.replicas.futures.move(ORDERS, target(two))
    mover.until(lambda: two.replicas.futures.moved == 1, lambda: write(two, partition, 1))
    assert two.replicas.find("orders", 0) is partition
    assert partition.log.path == f"{target(two)}/orders-0"
    write(two, partition, 5)
    assert numbers(partition) == list(range(partition.high_watermark))
    assert mover.told == [Placement(SECOND, partition.topic_id, 0)]
    assert [directory.replicas for directory in two.replicas.dirs] == [0, 1]
    assert len(two.replicas.removals.deleted) == 1
    stop_cleanly(two.replicas, 1)
    again = reload(two, clean=True).find("orders", 0)
    assert (again.log.path, numbers(again)) == (partition.log.path, numbers(partition))


def test_a_move_goes_on_after_a_crash_where_it_was(two: Held, mover: Mover) -> None:
    partition = two.replicas.find("orders", 0)
    write(two, partition, 50)
    two.replicas.futures.move(ORDERS, target(two))
    (future,) = two.replicas.futures
    mover.until(lambda: future.log_end_offset > 20)
    if two.replicas.futures.moved == 0:
        copied = future.log_end_offset
        replicas = reload(two)
        (future,) = replicas.futures
        assert 0 < future.log_end_offset <= copied
    mover.until(lambda: two.replicas.futures.moved == 1)
    assert numbers(two.replicas.find("orders", 0)) == list(range(50))
    assert two.replicas.find("orders", 0).log.path.startswith(target(two))


def test_a_crash_between_the_two_renames_leaves_the_log_that_the_metadata_knows(
    two: Held, mover: Mover, disk: FaultyDisk
) -> None:
    partition = two.replicas.find("orders", 0)
    write(two, partition, 20)
    two.replicas.futures.move(ORDERS, target(two))
    disk.faults = {"rename": "data/orders-0"}
    mover.until(lambda: two.replicas.futures.moved == 1)
    disk.faults = {}
    assert all(Path(root, "orders-0").is_dir() for root in two.directories)
    again = reload(two).find("orders", 0)
    assert again.log.path.startswith(target(two))
    assert numbers(again) == list(range(20))
    assert not Path(two.root, "orders-0").exists()
    mover.know(Uuid(b"n" * 16))
    two.disk.mkdir(f"{two.root}/orders-0")
    with pytest.raises(TwiceError):
        reload(two)


def test_a_promise_that_was_not_kept_before_a_crash_is_no_reason_to_give_up_the_longer_log(
    two: Held, mover: Mover
) -> None:
    partition = two.replicas.find("orders", 0)
    write(two, partition, 20)
    two.replicas.futures.move(ORDERS, target(two))
    (future,) = two.replicas.futures

    def crash() -> None:
        write(two, partition, 10)
        raise NotController("the node ended here")

    mover.before_telling = crash
    mover.until(lambda: future.log_end_offset >= 20)
    mover.know(SECOND)
    mover.before_telling = lambda: None
    again = reload(two)
    assert again.find("orders", 0).log_end_offset == partition.log_end_offset
    mover.until(lambda: two.replicas.futures.moved == 1)
    assert numbers(again.find("orders", 0)) == list(range(partition.log_end_offset))


def test_a_future_log_whose_current_one_is_gone_takes_its_place(two: Held, mover: Mover) -> None:
    partition = two.replicas.find("orders", 0)
    write(two, partition, 20)
    two.replicas.futures.move(ORDERS, target(two))
    (future,) = two.replicas.futures
    mover.before_telling = lambda: (_ for _ in ()).throw(NotController("not now"))
    mover.until(lambda: future.lag == 0)
    two.disk.remove_tree(partition.log.path)
    assert numbers(reload(two).find("orders", 0)) == list(range(20))


def test_what_the_current_log_loses_the_future_one_loses_as_well(two: Held, mover: Mover) -> None:
    partition = two.replicas.find("orders", 0)
    write(two, partition, 30)
    two.replicas.futures.move(ORDERS, target(two))
    (future,) = two.replicas.futures
    mover.until(lambda: future.log_end_offset > 25)
    if two.replicas.futures.moved == 0:
        partition.high_watermark = 0
        partition.truncate(10, 0)
        partition.leader_epoch += 1
        write(two, partition, 3)
    mover.until(lambda: two.replicas.futures.moved == 1)
    assert numbers(partition) == list(range(partition.log_end_offset))
    assert partition.lineage == two.replicas.find("orders", 0).lineage


def test_a_log_that_starts_later_is_copied_from_there(two: Held, mover: Mover) -> None:
    partition = two.replicas.find("orders", 0)
    write(two, partition, 30)
    partition.delete_records(12)
    two.replicas.futures.move(ORDERS, target(two))
    mover.until(lambda: two.replicas.futures.moved == 1)
    assert (partition.log_start_offset, partition.log_end_offset) == (12, 30)
    assert numbers(partition) == list(range(12, 30))


def test_another_move_takes_the_place_of_the_first_and_moving_back_ends_it(two: Held, mover: Mover) -> None:
    two.replicas.futures.move(ORDERS, target(two))
    two.replicas.futures.move(ORDERS, target(two))
    assert len(two.replicas.futures) == 1
    two.replicas.futures.move(ORDERS, two.replicas.dirs[0].path)
    assert len(two.replicas.futures) == 0
    assert [directory.replicas for directory in two.replicas.dirs] == [1, 0]
    two.replicas.futures.move(ORDERS, target(two))
    two.delete("orders")
    assert len(two.replicas.futures) == 0
    assert len(two.replicas.removals.deleted) == 3


@pytest.mark.parametrize("index", [0, 1])
def test_a_disk_that_fails_amid_a_move_ends_it_and_the_other_directory_goes_on(
    two: Held, mover: Mover, disk: FaultyDisk, index: int
) -> None:
    two.replicas.dirs[0].has_metadata = False
    partition = two.replicas.find("orders", 0)
    write(two, partition, 30)
    two.replicas.futures.move(ORDERS, target(two))
    disk.faults = {"read" if index == 0 else "write": f"{two.replicas.dirs[index].path}/"}
    mover.until(lambda: not two.replicas.dirs[index].online)
    assert len(two.replicas.futures) == 0
    disk.faults = {}
    if index:
        write(two, partition, 1)
    else:
        with pytest.raises(KafkaStorageError):
            two.replicas.find("orders", 0)
    again = reload(two)
    mover.until(lambda: again.futures.moved == 1)
    assert numbers(again.find("orders", 0)) == list(range(30 + index))


def test_no_more_is_copied_than_is_allowed(two: Held, mover: Mover, clock: ManualClock) -> None:
    two.configure(ResourceType.BROKER, "", replica_alter_log_dirs_io_max_bytes_per_second=1000)
    partition = two.replicas.find("orders", 0)
    write(two, partition, 100)
    size = partition.size_bytes
    two.replicas.futures.move(ORDERS, target(two))
    began = clock.monotonic_ms()
    mover.until(lambda: two.replicas.futures.moved == 1, lambda: clock.advance(10))
    assert clock.monotonic_ms() - began >= (size - 1000) * 0.9


def test_the_controller_is_asked_until_it_has_heard(two: Held, mover: Mover) -> None:
    refusals = iter([NotController("elsewhere")] * 3)

    def refuse() -> None:
        for error in refusals:
            raise error

    mover.before_telling = refuse
    two.replicas.futures.move(ORDERS, target(two))
    mover.until(lambda: two.replicas.futures.moved == 1)
    assert len(mover.told) == 1
