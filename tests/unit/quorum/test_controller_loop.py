"""The controller on a real metadata log: committing, publishing, starting again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kavka.metadata.image import EMPTY
from kavka.model.errors import NotController, TopicAlreadyExists
from kavka.model.transition import Transition
from kavka.storage.disk import RealDisk, RealFile


def same_state(image, other):
    return replace(image, offset=0, epoch=0) == replace(other, offset=0, epoch=0)


def test_a_fresh_node_starts_with_the_features_of_the_release(node):
    async def scenario():
        async with node.running() as loop:
            return loop.image, loop.kraft_version

    image, kraft_version = asyncio.run(scenario())
    assert image.features.metadata_version == 30
    assert image.features.levels["transaction.version"] == 2
    assert image.configs.of_all_brokers == {"min.insync.replicas": "1"}
    assert kraft_version == 1
    assert image.offset == 11  # as a Kafka 4.3 node: three control records, then nine of the bootstrap


def test_a_reply_comes_after_its_change_is_published(node, creating):
    seen = []

    async def scenario():
        async with node.running(register=True) as loop:
            loop.subscribe(lambda image, delta: seen.append((image, delta)))
            await creating(loop, "a")
            assert "a" in loop.image.topics.by_name
            assert [topic.name for topic in seen[-1][1].created_topics.values()] == ["a"]
            assert seen[-1][0] is loop.image

    asyncio.run(scenario())


def test_the_machine_decides_on_what_is_written_but_not_yet_committed(node, creating):
    async def scenario():
        async with node.running(register=True) as loop:
            first, second = await asyncio.gather(creating(loop, "a"), creating(loop, "a"))
            assert first["a"].partitions == 1
            assert isinstance(second["a"], TopicAlreadyExists)

    asyncio.run(scenario())


class CountedFile(RealFile):
    """A file that counts how often it is forced to the device."""

    def sync(self):
        self._disk.forced += self.path.endswith(".log")
        super().sync()


class CountingDisk(RealDisk):
    """A disk of such files."""

    forced = 0

    def file(self, path):
        return CountedFile(self, path)

    def create(self, path):
        super().create(path).close()
        return self.file(path)


def test_many_changes_share_a_forcing_of_the_log(nodes, tmp_path, creating):
    node = nodes(tmp_path, CountingDisk())

    async def scenario():
        async with node.running(register=True) as loop:
            node.disk.forced = 0
            await asyncio.gather(*(creating(loop, f"t{number}") for number in range(100)))
            assert len(loop.image.topics.by_name) == 100
            return node.disk.forced

    assert 1 <= asyncio.run(scenario()) <= 4


def test_a_read_waits_for_what_was_written_before_it(node, creating):
    async def scenario():
        async with node.running(register=True) as loop:
            writing = asyncio.ensure_future(creating(loop, "a"))
            await asyncio.sleep(0)
            read = await loop.submit(lambda machine, _: Transition("a" in machine.image.topics.by_name))
            assert read is True
            assert "a" in loop.image.topics.by_name
            await writing

    asyncio.run(scenario())


def test_an_error_of_the_machine_reaches_the_caller_and_changes_nothing(node):
    async def scenario():
        async with node.running() as loop:
            before = loop.image

            def refuse(machine, now_ms):
                raise TopicAlreadyExists("no")

            with pytest.raises(TopicAlreadyExists):
                await loop.submit(refuse)
            assert loop.image is before

    asyncio.run(scenario())


def test_a_refusal_by_what_is_not_committed_waits_for_it(node, creating):
    async def scenario():
        async with node.running(register=True) as loop:
            writing = asyncio.ensure_future(creating(loop, "a"))
            await asyncio.sleep(0)

            def refuse(machine, now_ms):
                raise TopicAlreadyExists("a" if "a" in machine.image.topics.by_name else "something else")

            with pytest.raises(TopicAlreadyExists, match=r"^a$"):
                await loop.submit(refuse)
            assert "a" in loop.image.topics.by_name
            await writing

    asyncio.run(scenario())


def test_after_the_end_nothing_is_taken(node):
    async def scenario():
        async with node.running() as loop:
            pass
        with pytest.raises(NotController):
            await loop.submit(lambda machine, _: Transition(None))

    asyncio.run(scenario())


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_has_the_same_image_and_a_later_epoch(node, creating, clean):
    async def first():
        async with node.running(register=True, close=clean) as loop:
            await creating(loop, "a", "b.c", partitions=3, configs={"retention.ms": "5"})
            await loop.submit(lambda machine, _: machine.delete_topics([machine.image.topics.by_name["a"].id]))
            return loop.image

    async def second():
        async with node.running(clean=clean) as loop:
            return loop.image

    before, after = asyncio.run(first()), asyncio.run(second())
    assert same_state(before, after)
    assert after.epoch == before.epoch + 1
    assert after.offset == before.offset + 1  # the leader change
    assert node.report.notes == []


def test_a_torn_tail_is_cut_and_all_committed_records_stay(node, creating):
    async def first():
        async with node.running(register=True, close=False) as loop:
            await creating(loop, "a")
            return loop.image

    before = asyncio.run(first())
    with open(f"{node.log_dir}/{0:020d}.log", "ab") as file:
        file.write(b"\x00" * 7 + b"\x20\x00\x00\x01\x00torn")

    async def second():
        async with node.running() as loop:
            return loop.image

    assert same_state(before, asyncio.run(second()))
    assert "cut" in node.report.notes[0]


def test_large_publications_are_run_in_slices(node, creating):
    """A subscriber with much to do does not keep the loop from others."""
    turns = 0

    def slow(image, delta):
        for _ in delta.created_topics:
            deadline = asyncio.get_running_loop().time() + 0.002
            while asyncio.get_running_loop().time() < deadline:
                pass
            yield

    async def ticking():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario():
        async with node.running(register=True) as loop:
            loop.subscribe(slow)
            ticker = asyncio.ensure_future(ticking())
            await creating(loop, *(f"t{number}" for number in range(50)))
            ticker.cancel()

    asyncio.run(scenario())
    assert turns >= 5


def test_the_quorum_describes_itself(node):
    async def scenario():
        async with node.running() as loop:
            status = loop.status()
            assert (status.leader_id, status.leader_epoch, status.observers) == (1, 1, ())
            assert status.high_watermark == status.voters[0].log_end_offset == loop.image.offset + 1
            assert status.voters[0].directory_id == node.dirs.metadata_directory_id
            assert [voter.key.id for voter in status.nodes] == [1]
            assert status.nodes[0].endpoints[0].listener == "CONTROLLER"

    asyncio.run(scenario())


def test_the_image_is_empty_until_something_is_committed(node):
    loop = node.loop()
    loop.start()
    assert loop.image is EMPTY
    loop.close()
