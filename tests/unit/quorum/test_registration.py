"""A standalone node registers itself at each start."""

from __future__ import annotations

import asyncio

from kavka.metadata.features import SUPPORTED
from kavka.model.types import Endpoint
from kavka.quorum.producer_ids import ProducerIds
from kavka.quorum.registration import bound_endpoints


def test_the_node_is_in_service_with_the_epoch_of_its_registration(node):
    async def scenario():
        async with node.running() as loop:
            epoch = await node.register(loop, rack="r1")
            broker = loop.image.cluster.brokers[1]
            assert (broker.epoch, broker.active, broker.rack) == (epoch, True, "r1")
            assert broker.endpoints == (Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
            assert broker.features == SUPPORTED
            assert broker.directories == (node.dirs.metadata_directory_id,)
            assert loop.image.cluster.controllers[1].endpoints[0].listener == "CONTROLLER"

    asyncio.run(scenario())


def test_the_next_life_need_not_wait_for_the_end_of_a_session(node, creating):
    async def first():
        async with node.running(register=True, close=False) as loop:
            await creating(loop, "a")
            return loop.image.cluster.brokers[1]

    async def second(previous_epoch):
        async with node.running() as loop:
            await node.register(loop, previous_epoch=previous_epoch)
            return loop.image.cluster.brokers[1], loop.image.topics.by_name["a"].partitions[0]

    before = asyncio.run(first())
    after, partition = asyncio.run(second(-1))
    assert after.epoch > before.epoch
    assert after.incarnation_id != before.incarnation_id
    assert (partition.leader, partition.leader_epoch, partition.leader_recovery_state) == (1, 2, 1)
    after, partition = asyncio.run(second(after.epoch))
    assert (partition.leader, partition.leader_epoch) == (1, 4)


def test_a_port_chosen_by_the_system_is_advertised_as_it_is():
    fixed, free = Endpoint("A", "h", 9092, "PLAINTEXT"), Endpoint("B", "h", 0, "PLAINTEXT")
    bound = Endpoint("B", "h", 4321, "PLAINTEXT")
    assert bound_endpoints([fixed, free], {"A": 1234, "B": 4321}) == (fixed, bound)
    assert bound_endpoints([free], {"A": 1234, "B": 4321}) == (bound,)


def test_producer_ids_are_never_given_twice_not_even_after_a_restart(node):
    async def scenario():
        async with node.running(register=True) as loop:
            ids = ProducerIds(loop)
            return await asyncio.gather(*(ids.next() for _ in range(2500)))

    first, second = asyncio.run(scenario()), asyncio.run(scenario())
    assert sorted(first) == list(range(2500))
    assert min(second) == 3000
    assert len({*first, *second}) == 5000
