"""The shards of a topic: who has a key, and what happens as leadership comes and goes."""

from __future__ import annotations

import asyncio

import pytest
from played import CODEC, Forcing, PlayedPartition, Script, surroundings, turns

from kavka.metadata.delta import apply
from kavka.metadata.image import EMPTY
from kavka.metadata.records.topics import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from kavka.model.errors import CoordinatorLoadInProgress, KafkaStorageError, NotCoordinator
from kavka.model.transition import Transition
from kavka.model.types import Uuid
from kavka.records.builder import BatchBuilder
from kavka.runtime.shards import Shards, java_hash, partition_of

TOPIC_ID = Uuid(bytes(15) + b"\x09")
NODE = 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("my-consumer-group", 1513705513),
        ("polygenelubricants", -(2**31)),
        ("žluťoučký", -1512236005),
        ("\U0001f426", 1772425),
    ],
)
def test_the_hash_is_javas(text, expected):
    assert java_hash(text) == expected


def test_the_partition_of_a_key_is_kafkas():
    assert partition_of("polygenelubricants", 50) == 0  # whose absolute value Java does not have
    assert partition_of("my-consumer-group", 50) == 13
    assert all(0 <= partition_of(f"g{number}", 7) < 7 for number in range(100))


class Replicas:
    """The partitions of this node."""

    def __init__(self) -> None:
        self.node_id = NODE
        self.partitions: dict[int, PlayedPartition] = {}

    def held(self, topic: str, index: int, /) -> PlayedPartition | None:
        return self.partitions.get(index)


class World:
    """The shards of a topic `__log`, and its metadata."""

    def __init__(self, clock, partitions=3):
        self.replicas = Replicas()
        self.force = Forcing()
        self.machines: list[Script] = []
        self.shards = Shards("__log", 5, self.replicas, self.new_machine, CODEC, surroundings(clock, force=self.force))
        self.image = EMPTY
        self.replicas.partitions = {index: PlayedPartition(index) for index in range(partitions)}

    def new_machine(self, image):
        self.machines.append(Script())
        return self.machines[-1]

    def change(self, *records):
        """Commit a change of the metadata."""
        self.image, delta = apply(self.image, records, self.image.offset + 1, 1)
        for _ in self.shards.apply(self.image, delta):
            pass

    def create(self, *leaders):
        """Create the topic with the leaders of its partitions."""
        self.change(
            TopicRecord(name="__log", topic_id=TOPIC_ID),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=TOPIC_ID,
                    replicas=[1, 2],
                    isr=[1, 2],
                    removing_replicas=[],
                    adding_replicas=[],
                    leader=leader,
                    leader_epoch=0,
                    partition_epoch=0,
                )
                for index, leader in enumerate(leaders)
            ),
        )

    def lead(self, index, leader):
        """Give a partition another leader."""
        self.change(PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID, leader=leader))

    def key_of(self, index):
        """A key of a partition."""
        return next(key for key in map(str, range(1000)) if self.shards.partition_of(key) == index)


@pytest.fixture
def world(play, clock):
    """Runs a scenario in which the shards are loaded."""

    def run(scenario):
        async def whole():
            world = World(clock)
            running = asyncio.ensure_future(world.shards.run())
            await turns()
            try:
                await scenario(world)
            finally:
                running.cancel()

        play(whole())

    return run


async def look(shard):
    """What a shard has seen."""
    return await shard.submit(lambda machine, now_ms: Transition(machine.words))


def test_before_there_is_a_topic_nothing_is_coordinated_and_the_default_count_decides(world):
    async def scenario(world):
        assert {world.shards.partition_of(str(key)) for key in range(100)} == set(range(5))
        with pytest.raises(NotCoordinator):
            world.shards.of("group")

    world(scenario)


def test_only_partitions_that_this_node_leads_are_coordinated_here(world):
    async def scenario(world):
        world.create(1, 2, 1)
        await turns()
        assert len(list(world.shards)) == 2
        assert await look(world.shards.of(world.key_of(0))) == []
        with pytest.raises(NotCoordinator):
            world.shards.of(world.key_of(1))

    world(scenario)


def test_until_it_is_loaded_a_shard_says_so(world):
    async def scenario(world):
        world.create(1)
        shard = world.shards.of("any")
        with pytest.raises(CoordinatorLoadInProgress):
            await look(shard)
        assert world.shards.loading == 1
        await turns()
        assert await look(shard) == []
        assert world.shards.loading == 0

    world(scenario)


def test_the_same_replica_that_leads_again_is_loaded_again(world):
    async def scenario(world):
        world.create(1)
        await turns()
        first = world.shards.of("any")
        world.replicas.partitions[0].led_since = 2
        world.lead(0, 1)
        await turns()
        assert world.shards.of("any") is not first
        with pytest.raises(NotCoordinator):
            await look(first)
        assert await look(world.shards.of("any")) == []

    world(scenario)


def test_the_same_leader_in_a_new_epoch_goes_on(world):
    async def scenario(world):
        world.create(1)
        await turns()
        first = world.shards.of("any")
        world.lead(0, 1)
        assert world.shards.of("any") is first

    world(scenario)


def test_what_an_earlier_leader_left_uncommitted_is_heard_of_when_it_is_committed(world):
    async def scenario(world):
        world.create(1)
        await turns()
        await world.shards.of("any").submit(lambda machine, now_ms: Transition("ok", ("a",)))
        partition = world.replicas.partitions[0]
        partition.high_watermark, partition.led_since = 0, 2
        world.lead(0, 1)
        await turns()
        waits = asyncio.ensure_future(look(world.shards.of("any")))
        await turns()
        assert not waits.done()
        partition.commit()
        assert await waits == ["a"]

    world(scenario)


def test_metadata_that_comes_while_loading_is_told_afterwards(world):
    async def scenario(world):
        world.create(1)
        world.change(TopicRecord(name="orders", topic_id=Uuid(bytes(15) + b"\x0a")))
        assert world.machines[0].metadata == []
        await turns()
        assert [image.offset for image in world.machines[0].metadata] == [world.image.offset - 1, world.image.offset]

    world(scenario)


def test_a_new_leader_sees_what_the_old_one_wrote(world):
    async def scenario(world):
        world.create(1)
        await turns()
        shard = world.shards.of("any")
        await shard.submit(lambda machine, now_ms: Transition(None, ("a", "b")))
        world.lead(0, 2)
        with pytest.raises(NotCoordinator):
            world.shards.of("any")
        with pytest.raises(NotCoordinator):
            await look(shard)
        world.lead(0, 1)
        await turns()
        assert await look(world.shards.of("any")) == ["a", "b"]

    world(scenario)


def test_a_change_that_leaves_the_leader_leaves_the_shard(world):
    async def scenario(world):
        world.create(1)
        await turns()
        shard = world.shards.of("any")
        world.change(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1]))
        assert world.shards.of("any") is shard

    world(scenario)


def test_a_deleted_topic_is_coordinated_no_more(world):
    async def scenario(world):
        world.create(1, 1)
        await turns()
        world.change(RemoveTopicRecord(topic_id=TOPIC_ID))
        assert list(world.shards) == []

    world(scenario)


def test_after_a_failed_write_the_shard_is_loaded_from_what_the_log_has(world, clock):
    async def scenario(world):
        world.create(1)
        await turns()
        shard = world.shards.of("any")
        await shard.submit(lambda machine, now_ms: Transition(None, ("a",)))
        world.replicas.partitions[0].refuses = KafkaStorageError("full")
        with pytest.raises(NotCoordinator):
            await shard.submit(lambda machine, now_ms: Transition(None, ("lost",)))
        with pytest.raises(CoordinatorLoadInProgress):
            await look(shard)
        world.replicas.partitions[0].refuses = None
        await asyncio.sleep(0.2)
        assert await look(shard) == ["a"]
        assert await shard.submit(lambda machine, now_ms: Transition(len(machine.seen), ("b",))) == 1

    world(scenario)


def test_a_log_that_cannot_be_read_is_tried_again(world):
    async def scenario(world):
        port = world.replicas.partitions[0]
        await_read, port.log_end_offset, port.high_watermark = port.read_own, 1, 1

        def fail(offset, max_bytes):
            raise KafkaStorageError("the disk")

        port.read_own = fail
        world.create(1)
        await turns()
        shard = world.shards.of("any")
        with pytest.raises(NotCoordinator):
            await look(shard)
        port.read_own = await_read
        await asyncio.sleep(6)
        assert await look(shard) == []

    world(scenario)


def test_closing_tells_all_and_coordinates_nothing(world):
    async def scenario(world):
        world.create(1, 1)
        await turns()
        shards = list(world.shards)
        world.shards.close()
        for shard in shards:
            with pytest.raises(NotCoordinator):
                await look(shard)

    world(scenario)


def test_what_was_led_before_the_start_is_loaded(world, clock):
    async def scenario(world):
        world.create(1, 2, 1)
        other = World(clock)
        running = asyncio.ensure_future(other.shards.run())
        other.shards.start(world.image)
        await turns(5)
        assert await look(other.shards.of(other.key_of(2))) == []
        running.cancel()

    world(scenario)


def test_one_can_wait_for_a_shard_that_is_to_come(world, clock):
    async def scenario(world):
        waiting = asyncio.ensure_future(world.shards.serves("any", 1000))
        await turns()
        world.create(1)
        assert await waiting
        assert await look(world.shards.of("any")) == []
        began = clock.now_ms()
        assert await world.shards.serves("any", 1000)
        assert clock.now_ms() == began
        world.lead(0, 2)
        assert not await world.shards.serves("any", 1000)
        assert clock.now_ms() - began == 1000

    world(scenario)


def test_records_that_were_passed_over_are_counted(world):
    async def scenario(world):
        port = world.replicas.partitions[0]
        for key in (b"word", b"what", b"what"):
            builder = BatchBuilder()
            builder.append(key, b"a", 1)
            port.append_own(builder.build(), 1)
        world.create(1)
        await turns()
        assert await look(world.shards.of("any")) == ["a"]
        assert world.shards.passed_over == 2

    world(scenario)


def test_a_key_belongs_to_who_leads_its_partition_in_an_image(world):
    async def scenario(world):
        assert world.shards.leader_in(EMPTY, "any") == -1
        world.create(2, 1, 3)
        assert [world.shards.leader_in(world.image, world.key_of(index)) for index in range(3)] == [2, 1, 3]

    world(scenario)
