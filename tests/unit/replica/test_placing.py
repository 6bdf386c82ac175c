"""Where replicas lie is told to the controller where it does not know, until it has heard."""

from __future__ import annotations

import asyncio

from kavka.metadata.image.cluster import UNASSIGNED
from kavka.metadata.records.topics import PartitionChangeRecord
from kavka.model.errors import NotController
from kavka.model.transition import Transition
from kavka.replica.placing import Placement, Placing


class PlayedController:
    def __init__(self):
        self.told = []
        self.fails = False

    async def __call__(self, placements):
        if self.fails:
            raise NotController("elsewhere")
        self.told.append(list(placements))


def unassign(held, topic):
    record = PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, directories=[UNASSIGNED])
    held.write(Transition(None, (record,)))


def test_only_what_the_controller_does_not_know_is_told_and_again_if_it_did_not_hear(held):
    async def test():
        controller = PlayedController()
        placing = Placing(held.replicas, controller)
        orders = held.topic("orders")
        held.topic("known")
        await placing.tell()
        assert controller.told == []
        unassign(held, orders)
        controller.fails = True
        await placing.tell()
        controller.fails = False
        await placing.tell()
        assert controller.told == [[Placement(held.replicas.dirs[0].directory_id, orders.topic_id, 0)]]

    asyncio.run(test())


def test_a_change_of_the_metadata_is_looked_at_once(held, monkeypatch):
    async def test():
        monkeypatch.setattr("kavka.replica.placing.LOOK_SECONDS", 0)
        controller = PlayedController()
        unassign(held, held.topic("orders"))
        running = asyncio.ensure_future(Placing(held.replicas, controller).run())
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(controller.told) == 1
        running.cancel()

    asyncio.run(test())
