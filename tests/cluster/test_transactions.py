"""Transactions whose partitions, offsets and coordinator are at different nodes."""

from __future__ import annotations

import asyncio

from kavka.client import Admin, NewTopic, Producer, TopicPartition
from kavka.testing import Cluster

IN = TopicPartition("in", 0)
SMALL = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}


async def commit_offsets_alone(bootstrap: str, number: int) -> None:
    """A transaction of a group that no node has heard of, with nothing in it but offsets."""
    async with Producer(bootstrap, transactional_id=f"id-{number}", max_block_ms=20_000) as producer:
        producer.begin()
        await producer.send_offsets({IN: number}, f"group-{number}")
        await producer.commit()


def test_a_groups_coordinator_asks_that_of_the_transaction_though_they_never_spoke() -> None:
    async def scenario(bootstrap: str) -> list[int]:
        async with Admin(bootstrap) as admin:
            await admin.create_topics([NewTopic(IN.topic, 1)])
            for number in range(9):
                await commit_offsets_alone(bootstrap, number)
            found = []
            for number in range(9):
                while not (offsets := await admin.group_offsets(f"group-{number}")):
                    await asyncio.sleep(0.01)
                found.append(offsets[IN].offset)
            return found

    with Cluster(nodes=3, config=SMALL, timeout=60) as cluster:
        assert asyncio.run(scenario(cluster.bootstrap)) == list(range(9))
