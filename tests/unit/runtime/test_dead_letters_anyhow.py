"""Dead letters whatever becomes of leaders, requests and answers: each is written, and none twice."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from letter_world import FaultyDisk, Held, Replicas, World
from played import PlayedPartition, turns

from kavka.coordinator.share_state.machine import StateChange
from kavka.model.errors import CoordinatorNotAvailable, KafkaError
from kavka.model.share import ARCHIVED, ARCHIVING, StateBatch
from kavka.runtime.dead_letters import DeadLetters, DeadLetterWriter
from kavka.share.partition import REJECTED, Dead


class SmallBatches(DeadLetters):
    """Dead letters of which two go together."""

    def batches(self, *given, most_records=2, **more):
        return super().batches(*given, most_records=most_records, **more)


class Wild(World):
    """Requests and answers are lost, delayed, doubled and overtaken, until all is calm."""

    def __init__(self, held, rng):
        super().__init__(held)
        self.rng = rng
        self.late = []
        """Writes that were taken, and come once more."""
        self.calm = False

    def leader(self, clock):
        letters = SmallBatches(Replicas(self.image), clock, self.ask, self.new_producer_id)  # type: ignore[arg-type]
        return DeadLetterWriter(self.key, PlayedPartition(), letters, self)  # type: ignore[arg-type]  # as far as asked

    async def ask(self, node, request):
        self.script = []
        if not self.calm:
            await self._linger()
            self.script = [self.rng.choice(["done", "done", "lost", "refused", "stuck", "stuck"])]
            if self.stuck and self.rng.random() < 0.5:
                self.append(self.stuck.pop(self.rng.randrange(len(self.stuck))))
        return await super().ask(node, request)

    async def write(self, key, change):
        await self._linger()
        step = "done" if self.calm else self.rng.choices(["done", "late", "refused", "lost"], [8, 4, 1, 1])[0]
        if step == "refused":
            raise CoordinatorNotAvailable
        await super().write(key, change)
        if step == "late":
            self.late.append(change)
        if step == "lost":
            raise CoordinatorNotAvailable
        if self.late and not self.calm and self.rng.random() < 0.3:
            await self.come_late()

    async def come_late(self):
        change = self.late.pop(self.rng.randrange(len(self.late)))
        with contextlib.suppress(KafkaError):  # nobody hears
            await super().write(self.key, change)

    async def _linger(self):
        await turns(self.rng.randrange(3))
        if self.rng.random() < 0.1:
            await asyncio.sleep(self.rng.choice([0.05, 1, 9]))

    @property
    def start(self):
        """From where on it matters what is remembered."""
        start = self.machine.state.states[self.key].start_offset
        for first, last, state, _ in self.states:
            if state == ARCHIVED and first <= start <= last:
                start = last + 1
        return start

    def left(self, total):
        known = {offset for first, last, _, _ in self.states for offset in range(first, last + 1)}
        return [offset for offset in range(self.start, total) if offset not in known]

    async def lead(self, epoch, total):
        """Load the share partition and give up all its records; whether nothing went wrong."""
        writer, rng = self.leader(self.held.clock), self.rng
        try:
            await self.follow(writer, epoch)
            while left := self.left(total):
                some = sorted(rng.sample(left, min(len(left), rng.randrange(1, 6))))
                rows = [StateBatch(offset, offset, ARCHIVED, 1) for offset in some]
                change = StateChange(1, epoch, self.start, 0, rows)
                await writer.write(change, [Dead(offset, offset, 1, REJECTED) for offset in some], self.settings)
        except KafkaError:
            return False
        return True


async def many_leaders(world, rng, total):
    """Leaders die, are held still while others lead, or load anew; the last one meets no trouble."""
    epoch, leaders = 1, []
    for _ in range(rng.randrange(1, 12)):
        leader = asyncio.ensure_future(world.lead(epoch, total))
        leaders.append(leader)
        await asyncio.wait([leader], timeout=rng.choice([0.05, 1, 5, 30, None]))
        if leader.done():
            epoch += rng.randrange(2)  # the same node again, or another
            continue
        if rng.random() < 0.5:
            leader.cancel()
        epoch += 1
        if rng.random() < 0.2:  # the leader of the dead-letter topic comes back from a snapshot
            for entry in world.log.log.producers:
                del entry.batches[:-1]
    world.calm = True
    while world.left(total) or any(state == ARCHIVING for _, _, state, _ in world.states):
        epoch += 1
        assert await world.lead(epoch, total)
    await asyncio.wait(leaders)
    for batch in world.stuck:
        world.append(batch)


@pytest.mark.parametrize("seed", range(60))
def test_each_is_written_and_none_twice(play, clock, tmp_path, caplog, seed):
    rng = random.Random(seed)
    world, total = Wild(Held(tmp_path, FaultyDisk(), clock), rng), rng.randrange(5, 40)
    play(many_leaders(world, rng, total))
    written = world.written
    assert sorted(set(written)) == sorted(written)
    if "to the dead-letter topic failed" not in caplog.text:  # whoever gave up said so
        assert sorted(written) == list(range(total))
