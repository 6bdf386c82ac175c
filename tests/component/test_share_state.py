"""The share coordinator of a node, asked as other nodes ask it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from kavka.broker.config import node_config
from kavka.broker.wiring import Node
from kavka.client.connector import Connector
from kavka.client.dial import TcpDial
from kavka.model.clock import SystemClock
from kavka.model.share import SharePartitionKey
from kavka.model.types import Uuid
from kavka.protocol.schemas import (
    delete_share_group_state as deleting,
)
from kavka.protocol.schemas import (
    initialize_share_group_state as initializing,
)
from kavka.protocol.schemas import (
    read_share_group_state as reading,
)
from kavka.protocol.schemas import (
    read_share_group_state_summary as summing,
)
from kavka.protocol.schemas import (
    write_share_group_state as writing,
)
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kavka.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kavka.storage.disk import RealDisk

NOWHERE = Uuid(b"z" * 16)


class World:
    """A node in this process, and a connection to it."""

    def __init__(self, connection):
        self.connection = connection
        self.topic_id = NOWHERE

    async def create(self, topic):
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
        while self.topic_id in (NOWHERE, Uuid.ZERO):
            answer = await self.connection.request(asked, MetadataResponse, version=12)
            self.topic_id = answer.topics[0].topic_id

    async def find(self, key, version=6):
        request = FindCoordinatorRequest(coordinator_keys=[str(key)], key_type=2)
        (row,) = (await self.connection.request(request, FindCoordinatorResponse, version=version)).coordinators
        return row.error_code

    async def one(self, request, response, version=0):
        answer = await self.connection.request(request, response, version=version)
        ((topic,),) = (answer.results,) if answer.results else ((None,),)
        return None if topic is None else topic.partitions[0]

    async def initialize(self, start=-1, epoch=1, partition=0, group="g"):
        row = initializing.PartitionData(partition=partition, state_epoch=epoch, start_offset=start)
        topic = initializing.InitializeStateData(topic_id=self.topic_id, partitions=[row])
        request = initializing.InitializeShareGroupStateRequest(group_id=group, topics=[topic])
        return await self.one(request, initializing.InitializeShareGroupStateResponse)

    async def read(self, leader_epoch=1):
        row = reading.PartitionData(partition=0, leader_epoch=leader_epoch)
        topic = reading.ReadStateData(topic_id=self.topic_id, partitions=[row])
        request = reading.ReadShareGroupStateRequest(group_id="g", topics=[topic])
        return await self.one(request, reading.ReadShareGroupStateResponse)

    async def write(self, leader_epoch=1):
        batch = writing.StateBatch(first_offset=5, last_offset=9, delivery_state=2, delivery_count=1)
        row = writing.PartitionData(
            partition=0,
            state_epoch=1,
            leader_epoch=leader_epoch,
            start_offset=5,
            delivery_complete_count=5,
            state_batches=[batch],
        )
        topic = writing.WriteStateData(topic_id=self.topic_id, partitions=[row])
        request = writing.WriteShareGroupStateRequest(group_id="g", topics=[topic])
        return (await self.one(request, writing.WriteShareGroupStateResponse, 1)).error_code

    async def summary(self):
        row = summing.PartitionData(partition=0, leader_epoch=1)
        topic = summing.ReadStateSummaryData(topic_id=self.topic_id, partitions=[row])
        request = summing.ReadShareGroupStateSummaryRequest(group_id="g", topics=[topic])
        found = await self.one(request, summing.ReadShareGroupStateSummaryResponse, 1)
        assert found.error_code == 0
        return found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count

    async def pruned(self):
        """Where the logs of the share-group state begin, summed up."""
        rows = [ListOffsetsPartition(partition_index=each, timestamp=-2) for each in (0, 1)]
        topic = ListOffsetsTopic(name="__share_group_state", partitions=rows)
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic])
        answer = await self.connection.request(request, ListOffsetsResponse, version=7)
        return sum(row.offset for row in answer.topics[0].partitions)

    async def delete(self):
        row = deleting.PartitionData(partition=0)
        topic = deleting.DeleteStateData(topic_id=self.topic_id, partitions=[row])
        request = deleting.DeleteShareGroupStateRequest(group_id="g", topics=[topic])
        return (await self.one(request, deleting.DeleteShareGroupStateResponse)).error_code


@pytest.fixture
def node(tmp_path):
    """Runs a node on one directory."""

    @asynccontextmanager
    async def run(topic="orders"):
        stopping = asyncio.Event()
        reports: asyncio.Queue = asyncio.Queue()
        texts = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path),
            "share.coordinator.state.topic.num.partitions": "2",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.prune.interval.ms": "50",
            "share.coordinator.snapshot.update.records.per.snapshot": "1",
        }
        running = asyncio.ensure_future(
            Node(node_config(texts), RealDisk(), SystemClock()).run(reports.put_nowait, stopping)
        )
        host, _, port = (await reports.get()).bootstrap.rpartition(":")
        connection = await Connector(TcpDial()).connect(host, int(port))
        try:
            world = World(connection)
            await world.create(topic)
            assert await world.find(SharePartitionKey("g", world.topic_id, 0)) == 0
            yield world
        finally:
            connection.close()
            stopping.set()
            await running

    return run


def test_a_state_is_kept_over_a_restart_and_its_log_is_pruned(node):
    async def scenario():
        async with node() as world:
            assert (await world.initialize()).error_code == 0
            assert (await world.read()).start_offset == -1
            for _ in range(6):
                assert await world.write() == 0
            while not await world.pruned():
                await asyncio.sleep(0.02)
        async with node() as world:
            found = await world.read(leader_epoch=2)
            assert (found.error_code, found.state_epoch, found.start_offset) == (0, 1, 5)
            (batch,) = found.state_batches
            assert (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count) == (5, 9, 2, 1)
            assert await world.write(leader_epoch=1) == 74
            assert await world.summary() == (1, 2, 5, 5)
            assert await world.delete() == 0
            assert await world.summary() == (0, 0, -1, -1)
            assert (await world.read()).error_code == 42

    asyncio.run(scenario())


def test_what_is_refused(node):
    async def scenario():
        async with node() as world:
            assert (await world.read()).error_code == 42
            assert await world.write() == 42
            assert (await world.initialize(partition=-1)).error_code == 42
            assert (await world.initialize(partition=7)).error_code == 3
            assert await world.initialize(group="") is None
            assert (await world.initialize(epoch=3)).error_code == 0
            assert (await world.initialize(epoch=2)).error_code == 124
            for key in ("g", "g:x:0", f":{NOWHERE}:0", f"g:{NOWHERE}:x"):
                assert await world.find(key) == 42
            assert await world.find(f"g:{NOWHERE}:0", version=5) == 42
            world.topic_id = NOWHERE
            assert (await world.initialize()).error_code == 3

    asyncio.run(scenario())
