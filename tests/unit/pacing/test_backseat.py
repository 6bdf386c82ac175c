"""Bulk work gives way to others, and has everything while there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kavka.pacing.backseat import Backseat

AN_HOUR = 3600
PATIENCE = 20


class Node:
    """Counts requests, those of others while `busy`."""

    def __init__(self) -> None:
        self.served = 0
        self.busy = False
        self.seat = Backseat(lambda: 1)
        self.seat.beside(self._look)

    def _look(self) -> int:
        self.served += self.busy
        return self.served

    def request(self) -> None:
        """A bulk request comes in, for two partitions."""
        self.served += 1
        self.seat.own()
        self.seat.own()


def run(scenario: Callable[[Node], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(PATIENCE):
            await scenario(Node())

    asyncio.run(whole())


def test_alone_nothing_waits_for_the_rate() -> None:
    async def scenario(node: Node) -> None:
        for _ in range(10):
            node.request()
            await node.seat.turn(AN_HOUR)

    run(scenario)


def test_beside_others_the_second_waits_until_they_are_quiet() -> None:
    async def scenario(node: Node) -> None:
        node.busy = True
        await node.seat.turn(AN_HOUR)
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(node.seat.turn(AN_HOUR)) for _ in range(3)]
            seen = node.served
            while node.served < seen + 30:  # each of them looks ten times and more
                await asyncio.sleep(0)
            assert not any(task.done() for task in waiting)
            assert node.seat.waits == 3
            node.busy = False

    run(scenario)
