"""Starting with what is on disk: logs of topics, of no topic, damaged ones, and a stop in between."""

from __future__ import annotations

import asyncio

import pytest

from kavka.metadata.image.cluster import UNASSIGNED
from kavka.metadata.image.configs import ResourceType
from kavka.metadata.records.topics import PartitionChangeRecord
from kavka.model.errors import KafkaStorageError
from kavka.model.transition import Transition
from kavka.model.types import TopicPartition, Uuid
from kavka.replica.dirs import LogDir
from kavka.replica.loading import Loading, TwiceError
from kavka.replica.stopping import stop_cleanly
from kavka.storage import files
from kavka.storage.dirs import take_clean_shutdown


def load(held, *, clean=False, stop=False):
    """Load what a stopped or crashed node has left; whether it came to the end."""
    replicas = held.start(clean=clean)

    async def go():
        stopping = asyncio.Event()
        if stop:
            stopping.set()
        loading = Loading(replicas, held.disk, held.clock, lambda: next(held.names))
        return await loading.run(held.machine.image, stopping)

    return asyncio.run(go())


def names(held):
    return sorted(path.name for path in held.root.iterdir() if path.is_dir())


def stop(held):
    stop_cleanly(held.replicas, 1)


@pytest.mark.parametrize("clean", [False, True])
def test_logs_are_found_led_and_continued(held, clean):
    held.topic("orders", 2, retention_ms=5)
    for index in (0, 1, 1):
        held.produce(held.replicas.find("orders", index))
    if clean:
        stop(held)
    assert load(held, clean=clean)
    partition = held.replicas.find("orders", 1)
    assert (partition.leads, partition.high_watermark, partition.log.config.retention_ms) == (True, 2, 5)
    assert held.produce(partition).first_offset == 2


def test_the_log_start_of_the_checkpoint_is_kept(held):
    partition = held.topic("orders")
    held.produce(partition, b"a", b"b", b"c")
    partition.delete_records(2)
    stop(held)
    assert load(held, clean=True)
    assert held.replicas.find("orders", 0).log.log_start_offset == 2


def test_a_log_of_no_topic_is_set_aside_and_gone_after_the_next_start(held):
    held.topic("orders")
    held.topic("gone")
    stop(held)
    held.write(held.machine.delete_topics([held.machine.image.topics.by_name["gone"].id]))
    path = held.root / "gone-0"
    if not path.exists():  # the replicas have followed: as if they had been down
        held.disk.rename(held.replicas.removals.deleted[0].log.path, str(path))
    assert load(held, clean=True)
    (stray,) = held.root.glob("gone-0.*-stray")
    assert load(held, clean=True)
    assert held.replicas.removals.leftovers == [str(stray)]


def test_a_log_of_another_topic_of_the_same_name_is_not_taken_for_this_ones(held):
    held.produce(held.topic("orders"), b"old")
    stop(held)
    held.disk.rename(str(held.root / "orders-0"), str(held.root / "kept"))
    held.delete()
    held.topic("orders")
    held.disk.remove_tree(str(held.root / "orders-0"))
    held.disk.rename(str(held.root / "kept"), str(held.root / "orders-0"))
    assert load(held, clean=True)
    assert held.replicas.find("orders", 0).log.log_end_offset == 0
    assert list(held.root.glob("orders-0.*-stray"))


@pytest.mark.parametrize("place", range(22))
def test_a_log_whose_topic_id_is_damaged_is_not_replaced_by_an_empty_one(held, caplog, place):
    held.produce(held.topic("orders"), b"kept")
    stop(held)
    path = held.root / "orders-0" / "partition.metadata"
    sound = path.read_bytes()
    damaged = bytearray(sound)
    damaged[-22 + place] = ord("B" if damaged[-22 + place] == ord("A") else "A")
    path.write_bytes(damaged)
    for clean in (True, False):
        assert load(held, clean=clean)
        assert names(held) == ["orders-0"]
        with pytest.raises(KafkaStorageError):
            held.replicas.find("orders", 0)
    assert "partition.metadata is damaged" in caplog.text
    path.unlink()
    assert load(held, clean=True)
    assert held.replicas.find("orders", 0).log.log_end_offset == 1


def test_a_partition_that_is_nowhere_is_created(held):
    held.topic("orders", 2)
    stop(held)
    held.disk.remove_tree(str(held.root / "orders-1"))
    assert load(held, clean=True)
    assert held.replicas.find("orders", 1).leads


def test_a_log_that_cannot_be_loaded_is_left_alone_and_the_others_serve(held, caplog):
    held.topic("orders", 2)
    held.produce(held.replicas.find("orders", 0))
    stop(held)
    held.disk.faults = {"read": "orders-0/"}
    assert load(held, clean=True)
    held.disk.faults = {}
    with pytest.raises(KafkaStorageError):
        held.replicas.find("orders", 0)
    assert held.replicas.find("orders", 1).leads
    assert "replica orders-0 is offline" in caplog.text
    assert names(held) == ["orders-0", "orders-1"]


def test_a_log_that_could_not_be_recovered_is_recovered_by_a_later_start(held):
    held.topic("orders", 2)
    for index in (0, 1, 1):
        held.produce(held.replicas.find("orders", index))
    (path,) = (held.root / "orders-1").glob("*.log")
    torn = path.read_bytes()
    path.write_bytes(torn[:-1] + bytes([torn[-1] ^ 1]))  # of the right length, as a crash may leave it
    held.disk.faults = {"read": "orders-1/"}
    assert load(held)
    held.disk.faults = {}
    assert not held.replicas.usable(TopicPartition("orders", 1))
    stop(held)
    clean = take_clean_shutdown(held.disk, str(held.root)) is not None
    assert load(held, clean=clean)
    assert held.replicas.find("orders", 0).log.log_end_offset == 1
    assert held.replicas.find("orders", 1).log.log_end_offset == 1


def test_a_log_that_was_half_created_is_created_by_the_next_start(held):
    held.disk.faults = {"create": "orders-0/00000000000000000000.log"}
    held.topic("other")
    with pytest.raises(KafkaStorageError):
        held.topic("orders")
    held.disk.faults = {}
    stop(held)
    clean = take_clean_shutdown(held.disk, str(held.root)) is not None
    assert load(held, clean=clean)
    assert held.produce(held.replicas.find("orders", 0)).first_offset == 0


def test_a_directory_of_no_topic_that_cannot_be_moved_stops_nothing(held):
    held.topic("orders")
    stop(held)
    (held.root / "stranger-0").mkdir()
    held.disk.faults = {"rename": "stranger"}
    assert load(held, clean=True)
    assert held.replicas.find("orders", 0).leads
    assert held.replicas.dirs[0].online


def test_directories_marked_for_deletion_wait_for_housekeeping(held):
    held.topic("orders")
    held.delete()
    assert load(held)
    assert held.replicas.removals.leftovers == [str(held.root / names(held)[0])]


def test_a_stop_while_loading_creates_nothing_over_what_is_not_loaded_yet(held):
    held.topic("orders", 3)
    for index in range(3):
        held.produce(held.replicas.find("orders", index))
    assert not load(held, stop=True)
    assert len(held.replicas) < 3
    assert names(held) == ["orders-0", "orders-1", "orders-2"]
    assert load(held)
    assert [held.replicas.find("orders", index).log.log_end_offset for index in range(3)] == [1, 1, 1]


def test_dynamic_defaults_are_in_force_from_the_start(held):
    held.topic("orders")
    held.configure(ResourceType.BROKER, "", log_retention_ms=9)
    stop(held)
    assert load(held, clean=True)
    assert held.replicas.find("orders", 0).log.config.retention_ms == 9


def test_a_damaged_checkpoint_only_costs_time(held, caplog):
    held.produce(held.topic("orders"))
    stop(held)
    (held.root / files.RECOVERY_POINTS).write_text("garbage")
    assert load(held)
    assert held.replicas.find("orders", 0).log.log_end_offset == 1
    assert "going on without it" in caplog.text


def with_second_directory(held):
    """As `load`, with another directory beside the first."""
    second = held.root.parent / f"{held.root.name}-second"
    second.mkdir(exist_ok=True)
    replicas = held.start(clean=True)
    replicas.dirs.append(LogDir(held.disk, str(second), Uuid(b"s" * 16), clean=True))

    async def go():
        loading = Loading(replicas, held.disk, held.clock, lambda: next(held.names))
        return await loading.run(held.machine.image, asyncio.Event())

    return second, go


def test_a_log_that_may_lie_in_a_lost_directory_is_not_created_anew(held):
    held.topic("orders", 2)
    stop(held)
    second, go = with_second_directory(held)
    held.disk.rename(str(held.root / "orders-1"), str(second / "orders-1"))
    held.disk.faults = {"list": str(second)}
    assert asyncio.run(go())
    assert [directory.online for directory in held.replicas.dirs] == [True, False]
    assert held.replicas.find("orders", 0).leads
    with pytest.raises(KafkaStorageError, match="which is offline"):
        held.replicas.find("orders", 1)
    assert not (held.root / "orders-1").exists()


def test_a_log_that_is_there_twice_stops_the_start_unless_the_metadata_knows_which_is_right(held):
    topic_id = held.topic("orders").topic_id
    stop(held)
    second, go = with_second_directory(held)
    (second / "orders-0").mkdir()
    assert asyncio.run(go())
    assert held.replicas.find("orders", 0).log.path == f"{held.root}/orders-0"
    assert [path.name.startswith("orders-0.") for path in second.iterdir()] == [True]

    record = PartitionChangeRecord(partition_id=0, topic_id=topic_id, directories=[UNASSIGNED])
    held.write(Transition(None, (record,)))
    stop(held)
    second, go = with_second_directory(held)
    (second / "orders-0").mkdir()
    with pytest.raises(TwiceError, match="orders-0 is in"):
        asyncio.run(go())
