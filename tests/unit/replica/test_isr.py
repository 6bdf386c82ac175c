"""Changes of in-sync replicas: one request at a time, asked again until the controller has answered."""

from __future__ import annotations

import asyncio

import pytest
from followed import Replicated

from kavka.model.errors import IneligibleReplica, NotController
from kavka.replica.isr import IsrManager
from kavka.replication.isr import IsrOutcome


class PlayedController:
    """Answers with what the test prepared."""

    def __init__(self):
        self.answers = []
        self.asked = []

    async def __call__(self, changes):
        self.asked.append([change.replicas for change in changes])
        answer = self.answers.pop(0) if self.answers else 0
        if isinstance(answer, Exception):
            raise answer
        return [self.outcome(change, answer) for change in changes]

    def outcome(self, change, code):
        if code:
            return IsrOutcome(*change.key, code)
        return IsrOutcome(*change.key, 0, 1, change.leader_epoch, change.partition_epoch + 1, change.replicas)


@pytest.fixture
def controller():
    return PlayedController()


@pytest.fixture
def replicated(held):
    return Replicated(held, isr=(1, 2))


def test_what_is_wanted_is_asked_for_and_taken_over(replicated, held, controller):
    async def test():
        manager = IsrManager(held.replicas, controller, held.clock)
        assert await manager.send()
        replicated.fetch(3, 0)
        assert await manager.send()
        assert await manager.send()
        assert (controller.asked, replicated.partition.isr) == ([[(1, 2, 3)]], (1, 2, 3))
        assert (manager.expands, manager.shrinks, manager.failures) == (1, 0, 0)

    asyncio.run(test())


def test_no_answer_or_a_passing_error_is_tried_again(replicated, held, controller):
    async def test():
        manager = IsrManager(held.replicas, controller, held.clock)
        replicated.fetch(3, 0)
        controller.answers = [NotController("moved"), OSError("no route"), ValueError("a fault"), NotController.code]
        for _ in range(4):
            assert not await manager.send()
        assert await manager.send()
        assert controller.asked == [[(1, 2, 3)]] * 5
        assert replicated.partition.isr == (1, 2, 3)

    asyncio.run(test())


def test_a_refusal_ends_it(replicated, held, controller):
    async def test():
        manager = IsrManager(held.replicas, controller, held.clock)
        replicated.fetch(3, 0)
        controller.answers = [IneligibleReplica.code]
        assert await manager.send()
        assert (replicated.partition.isr, manager.failures) == ((1, 2), 1)
        assert not held.replicas.proposals

    asyncio.run(test())


def test_what_nobody_wants_any_more_is_not_asked_for(replicated, held, controller):
    async def test():
        manager = IsrManager(held.replicas, controller, held.clock)
        replicated.fetch(3, 0)
        replicated.lead(leader=2, leader_epoch=1)
        assert await manager.send()
        assert controller.asked == []

    asyncio.run(test())


def test_a_change_that_was_wanted_before_the_manager_came_is_sent_when_it_runs(replicated, held, controller):
    async def test():
        replicated.fetch(3, 0)
        running = asyncio.ensure_future(IsrManager(held.replicas, controller, held.clock).run())
        async with asyncio.timeout(5):
            while replicated.partition.isr != (1, 2, 3):
                await asyncio.sleep(0)
        running.cancel()

    asyncio.run(test())


def test_a_look_finds_who_fell_behind(replicated, held, controller):
    async def test():
        manager = IsrManager(held.replicas, controller, held.clock)
        held.produce(replicated.partition)
        held.clock.advance(60_000)
        await manager.look()
        await manager.send()
        assert (replicated.partition.isr, manager.shrinks) == ((1,), 1)

    asyncio.run(test())
