"""The quorum of one voter: epochs, batches, and a disk that fails."""

from __future__ import annotations

import asyncio
import errno
import os
from dataclasses import replace

import pytest

from kavka.kernels.batches import scan
from kavka.metadata.image import ConfigResource
from kavka.metadata.records import encode_record
from kavka.metadata.records.settings import ConfigRecord
from kavka.metadata.records.topics import RemoveTopicRecord
from kavka.metadata.records.transactions import NoOpRecord
from kavka.model.errors import KafkaStorageError, UnknownServerError
from kavka.model.transition import Transition
from kavka.model.types import Endpoint, Uuid
from kavka.quorum.state import QuorumState, read_quorum_state, write_quorum_state
from kavka.raft.messages import Vote
from kavka.raft.voters import ReplicaKey
from kavka.storage.disk import RealDisk, RealFile


async def live(node, *batches, **how):
    """One life of the node in which these batches are committed; its epoch and the end of its log."""
    async with node.running(**how) as loop:
        for batch in batches:
            await loop.submit(lambda machine, now_ms, batch=batch: Transition(None, tuple(batch)))
        return loop.quorum.leader_epoch, loop.quorum.log.end_offset


def test_each_life_has_an_epoch_of_its_own_written_down_before_it_writes(node):
    assert asyncio.run(live(node)) == (1, 12)  # three control records and nine of the bootstrap
    assert read_quorum_state(node.disk, node.log_dir) == QuorumState(leader_epoch=1, leader_id=1)
    assert asyncio.run(live(node)) == (2, 13)


def test_the_epoch_is_later_than_any_that_was_seen(node):
    write_quorum_state(node.disk, node.log_dir, QuorumState(leader_epoch=41, voted_id=1))
    assert asyncio.run(live(node))[0] == 42


def test_a_damaged_quorum_state_is_not_taken_for_none(node):
    asyncio.run(live(node))
    node.disk.write_file(f"{node.log_dir}/quorum-state", b"{")
    with pytest.raises(KafkaStorageError, match="quorum-state"):
        asyncio.run(live(node))


def test_the_first_life_writes_the_voters_into_the_log_and_later_ones_do_not(node):
    asyncio.run(live(node, [NoOpRecord(), NoOpRecord()]))
    assert asyncio.run(live(node))[1] == 15

    async def scenario():
        async with node.running() as loop:
            assert loop.quorum.kraft_version == 1
            assert [voter.key.id for voter in loop.quorum.raft.voters] == [1]

    asyncio.run(scenario())


def test_a_voter_that_listens_elsewhere_writes_that_down_when_it_leads(node):
    asyncio.run(live(node))
    moved = Endpoint("CONTROLLER", "elsewhere", 1234, "")

    async def scenario():
        quorum = node.quorum(endpoints=(moved,))
        async with node.running(quorum=quorum) as loop:
            assert loop.quorum.raft.voters.endpoints(1) == (moved,)
            assert loop.quorum.leader_endpoint == moved
            assert loop.leader_endpoint is None  # that of nobody else
            return quorum.log.end_offset

    assert asyncio.run(scenario()) == 15  # the change of leader, the version and the voters

    async def again():
        async with node.running(quorum=node.quorum(endpoints=(moved,))) as loop:
            return loop.quorum.log.end_offset

    assert asyncio.run(again()) == 16


def test_a_directory_that_names_no_voter_is_not_this_nodes(node):
    os.unlink(f"{node.log_dir}/{0:020d}-{0:010d}.checkpoint")
    with pytest.raises(KafkaStorageError, match="not formatted"):
        node.loop().start()


def test_a_node_that_can_never_have_a_leader_does_not_start(node):
    known = node.dirs.metadata_directory_id
    node.dirs = replace(node.dirs, directory_ids={path: Uuid(b"o" * 16) for path in node.dirs.directory_ids})
    with pytest.raises(KafkaStorageError, match=f"meta.properties.*directory.id={known}"):
        node.loop().start()


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_batch_is_never_passed_over_in_silence(node, clean):
    asyncio.run(live(node, [ConfigRecord(resource_type=2, resource_name="a", name="k", value="v")], [NoOpRecord()]))
    (path,) = [f"{node.log_dir}/{name}" for name in node.disk.listdir(node.log_dir) if name.endswith(".log")]
    data = node.disk.read_file(path)
    node.disk.write_file(path, data.replace(b"a\x02k", b"a\x02j"))
    loop = node.loop()
    if clean:
        with pytest.raises(KafkaStorageError, match="is damaged at byte"):
            loop.start(clean=True)
    else:
        with pytest.raises(KafkaStorageError, match="was committed"):
            loop.start()
        loop.close()
        loop = node.loop()
        loop.start(accept_loss=True)
    loop.close()


def test_a_segment_that_is_gone_is_not_skipped(node):
    asyncio.run(live(node, [NoOpRecord()], [NoOpRecord()]))
    (path,) = [f"{node.log_dir}/{name}" for name in node.disk.listdir(node.log_dir) if name.endswith(".log")]
    data = node.disk.read_file(path)
    batches = scan(data)
    node.disk.write_file(path, data[: batches[-2].position] + data[batches[-1].position :])
    with pytest.raises(KafkaStorageError, match=r"offsets \d+ to \d+ are missing"):
        node.loop().start(clean=True)


def test_a_record_that_contradicts_the_others_ends_the_run(node):
    async def scenario():
        async with node.running() as loop:
            contradiction = encode_record(RemoveTopicRecord(topic_id=Uuid(b"t" * 16)), 0)
            loop.quorum.append([contradiction], loop.quorum.leader_epoch, node.clock.now_ms())
            await asyncio.sleep(10)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(scenario())
    assert caught.group_contains(KafkaStorageError, match="contradicts itself")


def test_a_batch_larger_than_eight_mebibytes_is_refused(node):
    huge = ConfigRecord(resource_type=2, resource_name="a", name="k", value="x" * 30_000)

    async def scenario():
        async with node.running() as loop:
            end = loop.quorum.log.end_offset
            with pytest.raises(UnknownServerError):
                await loop.submit(lambda machine, now_ms: Transition(None, (huge,) * 300))
            assert loop.quorum.log.end_offset == end
            assert loop.image.configs.resources.keys() == {ConfigResource(4, "")}
            await loop.submit(lambda machine, now_ms: Transition(None, (NoOpRecord(),)))

    asyncio.run(scenario())


class FlakyFile(RealFile):
    """A file that fails when its disk is told to."""

    def write_at(self, *args):
        if self._disk.full and self.path.endswith(".log"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write_at(*args)

    def sync(self):
        if self._disk.broken and self.path.endswith(".log"):
            self._disk.broken -= 1
            raise OSError(errno.EIO, "Input/output error")
        super().sync()


class FlakyDisk(RealDisk):
    """A disk that fills up or breaks."""

    full = False
    broken = 0
    forgetful = 0

    def file(self, path):
        return FlakyFile(self, path)

    def create(self, path):
        super().create(path).close()
        return self.file(path)

    def replace_file(self, path, data):
        if self.forgetful and path.endswith("quorum-state"):
            self.forgetful -= 1
            raise OSError(errno.EIO, "Input/output error")
        super().replace_file(path, data)


@pytest.fixture
def flaky(tmp_path, nodes):
    return nodes(tmp_path, FlakyDisk())


def test_a_full_disk_refuses_the_change_and_the_next_goes_on(flaky, creating):
    async def scenario():
        async with flaky.running(register=True) as loop:
            before = loop.image
            flaky.disk.full = True
            with pytest.raises(KafkaStorageError, match="No space left"):
                await creating(loop, "a")
            assert loop.image is before
            flaky.disk.full = False
            assert (await creating(loop, "a"))["a"].partitions == 1
            return loop.image

    before = asyncio.run(scenario())
    assert before.topics.by_name.keys() == {"a"}


def test_a_failed_forcing_fails_who_waits_and_goes_back_to_what_is_committed(flaky, creating):
    async def scenario():
        async with flaky.running(register=True) as loop:
            await creating(loop, "kept")
            epoch = loop.image.epoch
            flaky.disk.broken = 1
            outcomes = await asyncio.gather(creating(loop, "a"), creating(loop, "b"), return_exceptions=True)
            assert all(isinstance(outcome, KafkaStorageError) for outcome in outcomes)
            assert (await creating(loop, "a"))["a"].partitions == 1
            assert set(loop.image.topics.by_name) == {"kept", "a"}
            assert loop.image.epoch == epoch + 1
            return loop.image

    before = asyncio.run(scenario())

    async def again():
        async with flaky.running() as loop:
            return loop.image

    after = asyncio.run(again())
    assert after.topics == before.topics


def test_a_forcing_that_fails_right_after_the_start_loses_nothing_of_before(flaky, creating):
    async def scenario():
        async with flaky.running(register=True) as loop:
            await creating(loop, "a", "b")
        flaky.disk.broken = 1
        loop = flaky.loop()
        loop.start(clean=True)
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(loop.run())
            with pytest.raises(KafkaStorageError):
                await loop.ready()
            image = await loop.ready()
            run.cancel()
        loop.close()
        return image

    assert set(asyncio.run(scenario()).topics.by_name) == {"a", "b"}


def test_a_vote_that_the_disk_refused_is_not_told_to_who_asks_again(flaky):
    candidate = ReplicaKey(2, Uuid(b"c" * 16))

    async def scenario():
        async with flaky.running() as loop:
            epoch = loop.quorum.leader_epoch
            vote = Vote(epoch + 5, candidate, last_epoch=epoch, last_offset=1000)
            flaky.disk.forgetful = 1
            return await asyncio.gather(loop.quorum.ask(vote), loop.quorum.ask(vote), return_exceptions=True)

    assert [type(answer) for answer in asyncio.run(scenario())] == [KafkaStorageError] * 2


def test_a_disk_that_stays_broken_ends_the_run(flaky, creating):
    async def scenario():
        async with flaky.running(register=True) as loop:
            flaky.disk.broken = 1000
            with pytest.raises(KafkaStorageError):
                await creating(loop, "a")

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(scenario())
    assert caught.group_contains(KafkaStorageError)
