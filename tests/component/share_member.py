"""A node in this process, and members of share groups that speak the protocol by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kavka.broker.config import node_config
from kavka.broker.wiring import Node
from kavka.client import Producer
from kavka.client.connection import Connection
from kavka.client.connector import Connector
from kavka.client.dial import TcpDial
from kavka.model.clock import SystemClock
from kavka.model.types import Uuid
from kavka.protocol.schemas import incremental_alter_configs as configs
from kavka.protocol.schemas import share_acknowledge as acknowledging
from kavka.protocol.schemas import share_fetch as fetching
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kavka.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kavka.records.batch import records, scan
from kavka.storage.disk import RealDisk

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


class World:
    """A running node."""

    def __init__(self, bootstrap: str, connection: Connection) -> None:
        self.bootstrap = bootstrap
        self.connection = connection
        self.topic_ids: dict[str, Uuid] = {}
        self.connections: list[Connection] = []

    async def connect(self) -> Connection:
        host, _, port = self.bootstrap.rpartition(":")
        connection = await Connector(TcpDial()).connect(host, int(port))
        self.connections.append(connection)
        return connection

    async def create(self, topic: str, partitions: int = 1) -> Uuid:
        row = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        request = CreateTopicsRequest(topics=[row], timeout_ms=10_000)
        answer = await self.connection.request(request, CreateTopicsResponse, version=7)
        assert answer.topics[0].error_code == 0
        self.topic_ids[topic] = answer.topics[0].topic_id
        return answer.topics[0].topic_id

    async def configure(self, group: str, settings: Mapping[str, str]) -> None:
        rows = [configs.AlterableConfig(name=key, config_operation=0, value=text) for key, text in settings.items()]
        resource = configs.AlterConfigsResource(resource_type=32, resource_name=group, configs=rows)
        request = configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = await self.connection.request(request, configs.IncrementalAlterConfigsResponse, version=1)
        assert answer.responses[0].error_code == 0, answer

    async def produce(self, topic: str, count: int, partition: int = 0, first: int = 0) -> None:
        async with Producer(self.bootstrap) as producer:
            for number in range(first, first + count):
                await producer.send(topic, f"v{number}".encode(), partition=partition)

    async def ask(self, request: Any, response: type[Any], version: int) -> Any:
        return await self.connection.request(request, response, version=version)


class Member:
    """A member of a share group."""

    def __init__(self, world: World, connection: Connection, group: str, member_id: str) -> None:
        self.world = world
        self.connection = connection
        self.group = group
        self.id = member_id
        self.member_epoch = 0
        self.session_epoch = 0
        self.assigned: dict[Uuid, list[int]] = {}

    @classmethod
    async def make(cls, world: World, group: str = "g", member_id: str = "m1") -> Member:
        return cls(world, await world.connect(), group, member_id)

    async def heartbeat(self, topics: list[str] | None = None, epoch: int | None = None) -> int:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=self.member_epoch if epoch is None else epoch,
            subscribed_topic_names=topics,
        )
        answer = await self.connection.request(request, ShareGroupHeartbeatResponse, version=1)
        if answer.error_code == 0:
            self.member_epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
        return answer.error_code

    async def join(self, *topics: str) -> None:
        """Be a member, and wait until something is assigned."""
        assert await self.heartbeat(list(topics)) == 0
        while not self.assigned:
            await asyncio.sleep(0.02)
            assert await self.heartbeat() == 0

    async def fetch(
        self,
        partitions: Sequence[tuple[str, int]] = (),
        *,
        said: Mapping[tuple[str, int], Sequence[tuple[int, int, list[int]]]] | None = None,
        wait_ms: int = 0,
        max_records: int = 500,
        max_bytes: int = 1 << 20,
        mode: int = 0,
        renews: bool = False,
        epoch: int | None = None,
        version: int = 2,
        batch_size: int = 500,
        forget: Sequence[tuple[str, int]] = (),
    ) -> Any:
        said = said or {}
        topics: dict[str, list[Any]] = {}
        for topic, index in dict.fromkeys([*partitions, *said]):
            rows = [
                fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                for first, last, types in said.get((topic, index), ())
            ]
            topics.setdefault(topic, []).append(
                fetching.FetchPartition(partition_index=index, acknowledgement_batches=rows)
            )
        request = fetching.ShareFetchRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            max_wait_ms=0 if renews else wait_ms,
            min_bytes=0 if renews else 1,
            max_bytes=0 if renews else max_bytes,
            max_records=0 if renews else max_records,
            batch_size=batch_size,
            share_acquire_mode=mode,
            is_renew_ack=renews,
            topics=[
                fetching.FetchTopic(topic_id=self.world.topic_ids[topic], partitions=rows)
                for topic, rows in topics.items()
            ],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=self.world.topic_ids[topic], partitions=[index])
                for topic, index in forget
            ],
        )
        answer = await self.connection.request(request, fetching.ShareFetchResponse, version=version)
        if answer.error_code == 0 and epoch is None:
            self.session_epoch += 1
        return answer

    async def acknowledge(
        self,
        said: Mapping[tuple[str, int], Sequence[tuple[int, int, list[int]]]],
        *,
        epoch: int | None = None,
        renews: bool = False,
        version: int = 2,
    ) -> Any:
        topics = [
            acknowledging.AcknowledgeTopic(
                topic_id=self.world.topic_ids[topic],
                partitions=[
                    acknowledging.AcknowledgePartition(
                        partition_index=index,
                        acknowledgement_batches=[
                            acknowledging.AcknowledgementBatch(
                                first_offset=first, last_offset=last, acknowledge_types=types
                            )
                            for first, last, types in rows
                        ],
                    )
                ],
            )
            for (topic, index), rows in said.items()
        ]
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            is_renew_ack=renews,
            topics=topics,
        )
        answer = await self.connection.request(request, acknowledging.ShareAcknowledgeResponse, version=version)
        if answer.error_code == 0 and epoch is None:
            self.session_epoch += 1
        return answer


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    """What a fetch acquired, whatever the partitions."""
    assert answer.error_code == 0, answer
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for row in topic.partitions
        for one in row.acquired_records
    ]


def values(answer: Any) -> list[bytes | None]:
    """The values of the records that a fetch acquired."""
    found = []
    for topic in answer.responses:
        for row in topic.partitions:
            mine = {offset for one in row.acquired_records for offset in range(one.first_offset, one.last_offset + 1)}
            data = bytes(row.records or b"")
            for batch in scan(data):
                found += [record.value for record in records(data, batch) if record.offset in mine]
    return found


def code(answer: Any) -> int:
    """The error of the only partition of an acknowledgement."""
    assert answer.error_code == 0, answer
    ((row,),) = [topic.partitions for topic in answer.responses]
    return row.error_code


@asynccontextmanager
async def world_at(path: Path, settings: Mapping[str, str] | None = None) -> AsyncIterator[World]:
    """A node over a directory, and somebody who asks it."""
    stopping = asyncio.Event()
    reports: asyncio.Queue[Any] = asyncio.Queue()
    texts = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(path),
        "share.coordinator.state.topic.num.partitions": "2",
        "offsets.topic.num.partitions": "2",
        "group.share.assignment.interval.ms": "0",
        **(settings or {}),
    }
    running = asyncio.ensure_future(
        Node(node_config(texts), RealDisk(), SystemClock()).run(reports.put_nowait, stopping)
    )
    bootstrap = (await reports.get()).bootstrap
    host, _, port = bootstrap.rpartition(":")
    world = World(bootstrap, await Connector(TcpDial()).connect(host, int(port)))
    try:
        yield world
    finally:
        for connection in (*world.connections, world.connection):
            connection.close()
        stopping.set()
        await running
