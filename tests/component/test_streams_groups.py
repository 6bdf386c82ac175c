"""Streams groups of a node, asked as Kafka Streams asks it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.config import node_config
from kavka.broker.wiring import Node
from kavka.client.admin import Admin
from kavka.client.connection import Connection
from kavka.client.connector import Connector
from kavka.client.dial import TcpDial
from kavka.model.clock import SystemClock
from kavka.protocol.schemas import create_acls as acls
from kavka.protocol.schemas import streams_group_heartbeat as schema
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kavka.protocol.schemas.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from kavka.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from kavka.storage.disk import RealDisk

Scenario = Callable[["World"], Coroutine[Any, Any, None]]
TOPIC, CLUSTER = 2, 4
CREATE, ALTER, DESCRIBE = 5, 7, 8
DENY, ALLOW = 2, 3


def info(name: str, replication: int = 0) -> schema.TopicInfo:
    pair = schema.KeyValue(key="cleanup.policy", value="compact")
    return schema.TopicInfo(name=name, partitions=0, replication_factor=replication, topic_configs=[pair])


def counting(source: str = "words", log: str = "counts", replication: int = 0) -> schema.Topology:
    """A topology that counts in a changelog."""
    part = schema.Subtopology(
        subtopology_id="0",
        source_topics=[source],
        source_topic_regex=[],
        state_changelog_topics=[info(log, replication)],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    return schema.Topology(epoch=0, subtopologies=[part])


class World:
    """A node in this process, and a connection to it."""

    def __init__(self, bootstrap: str, connection: Connection) -> None:
        self.bootstrap = bootstrap
        self.connection = connection

    async def find(self, group: str) -> None:
        """Wait until the group has a coordinator."""
        request = FindCoordinatorRequest(coordinator_keys=[group], key_type=0)
        while (await self.connection.request(request, FindCoordinatorResponse, version=4)).coordinators[0].error_code:
            await asyncio.sleep(0.02)

    async def beat(self, epoch: int = 0, group: str = "g", **values: Any) -> StreamsGroupHeartbeatResponse:
        if epoch == 0:
            values = {"rebalance_timeout_ms": 60_000, "topology": counting(), "process_id": "p", **values}
            values |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        request = StreamsGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=epoch, endpoint_information_epoch=-1, **values
        )
        return await self.connection.request(request, StreamsGroupHeartbeatResponse, version=0)

    async def rule(self, resource: int, name: str, operation: int, permission: int) -> None:
        rule = acls.AclCreation(
            resource_type=resource,
            resource_name=name,
            resource_pattern_type=3,
            principal="User:ANONYMOUS",
            host="*",
            operation=operation,
            permission_type=permission,
        )
        request = acls.CreateAclsRequest(creations=[rule])
        answer = await self.connection.request(request, acls.CreateAclsResponse, version=3)
        assert [one.error_code for one in answer.results] == [0]

    async def described(self, *groups: str) -> list[Any]:
        request = StreamsGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True)
        return (await self.connection.request(request, StreamsGroupDescribeResponse, version=0)).groups


async def run_kavka(*arguments: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "kavka", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode()


@asynccontextmanager
async def node(folder: Path, settings: dict[str, str]) -> AsyncIterator[World]:
    stopping = asyncio.Event()
    reports: asyncio.Queue[Any] = asyncio.Queue()
    texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder), "offsets.topic.num.partitions": "2"}
    texts |= {"group.streams.initial.rebalance.delay.ms": "0", **settings}
    running = asyncio.ensure_future(
        Node(node_config(texts), RealDisk(), SystemClock()).run(reports.put_nowait, stopping)
    )
    bootstrap = (await reports.get()).bootstrap
    host, _, port = bootstrap.rpartition(":")
    connection = await Connector(TcpDial()).connect(host, int(port))
    try:
        world = World(bootstrap, connection)
        for group in ("g", "h"):
            await world.find(group)
        yield world
    finally:
        connection.close()
        stopping.set()
        await running


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    def run(scenario: Scenario, **settings: str) -> None:
        async def whole() -> None:
            async with node(tmp_path, {name.replace("_", "."): value for name, value in settings.items()}) as world:
                await scenario(world)

        asyncio.run(whole())

    return run


def test_internal_topics_are_created_and_tasks_assigned(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        async with Admin(world.bootstrap) as admin:
            await admin.create_topic("words", partitions=3)
            reply = await world.beat()
            assert [one.status_code for one in reply.status or ()] == [3]
            while reply.status:
                await asyncio.sleep(0.02)
                reply = await world.beat(reply.member_epoch)
            assert [(one.subtopology_id, one.partitions) for one in reply.active_tasks or ()] == [("0", [0, 1, 2])]
            made = await admin.describe_topic("counts")
            assert len(made.partitions) == 3
            [found, gone] = await world.described("g", "x")
            assert (found.error_code, found.group_state, gone.error_code) == (0, "Stable", 69)
            assert found.authorized_operations > 0
            group = await admin.describe_group("g")
            assert (group.type, group.state, len(group.members[0].partitions)) == ("streams", "Stable", 3)
            assert group.topology is not None
            [part] = group.topology.subtopologies
            assert (part.changelog_topics, [task.partition for task in part.tasks]) == ({"counts": 3}, [0, 1, 2])
            [listed] = await admin.list_groups()
            assert (listed.id, listed.state, listed.type) == ("g", "Stable", "streams")
            said = await run_kavka("groups", "describe", "g", "--bootstrap", world.bootstrap)
            assert said.splitlines()[:6] == [
                "g  streams  Stable  members 1",
                "topology  epoch 0",
                "└─ subtopology 0",
                "   ├─ reads words",
                "   ├─ keeps counts  changelog, 3 partitions",
                "   ├─ task 0_0",
            ]
            assert said.count("active m  process p  client kavka") == 3
            assert (await world.beat(-1)).error_code == 0
            await admin.delete_group("g")
            assert await admin.list_groups() == []

    play(scenario)


def test_a_topic_that_cannot_be_created_is_said_why(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        async with Admin(world.bootstrap) as admin:
            await admin.create_topic("words")
        reply = await world.beat(topology=counting(replication=3))
        while "Creation failed" not in (detail := (reply.status or [])[0].status_detail):
            await asyncio.sleep(0.02)
            reply = await world.beat(reply.member_epoch)
        assert detail.startswith("Internal topics are missing: counts; Creation failed: counts (")

    play(scenario)


def test_what_is_refused(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        async with Admin(world.bootstrap) as admin:
            await admin.create_topic("words")
        for name in ("__consumer_offsets", "a/b"):
            reply = await world.beat(topology=counting(name))
            assert (reply.error_code, reply.status) == (130, [])
        assert (await world.beat(topology=counting("secret"))).error_code == 29
        assert (await world.beat(5)).error_code == 69
        reply = await world.beat()
        assert (reply.status or [])[0].status_detail.endswith("; Unauthorized to CREATE on topics counts.")
        assert (await world.beat(group="h", topology=counting("words", "words-log"))).error_code == 0
        await world.rule(TOPIC, "counts", DESCRIBE, DENY)
        while not (found := {one.group_id: one for one in await world.described("g", "h")})["g"].error_code:
            await asyncio.sleep(0.02)
        assert (found["g"].error_code, found["g"].topology, found["h"].error_code) == (29, None, 0)

    async def forbidden(world: World) -> None:
        await world.rule(TOPIC, "secret", DESCRIBE, DENY)
        await world.rule(TOPIC, "counts", CREATE, DENY)
        await world.rule(TOPIC, "counts", DESCRIBE, ALLOW)
        await world.rule(CLUSTER, "kafka-cluster", ALTER, ALLOW)
        await world.rule(CLUSTER, "kafka-cluster", CREATE, DENY)
        await scenario(world)

    play(
        forbidden,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        allow_everyone_if_no_acl_found="true",
    )


def test_the_protocol_can_be_off(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        assert (await world.beat()).error_code == 35
        assert [one.error_code for one in await world.described("g")] == [35]

    play(scenario, group_coordinator_rebalance_protocols="classic,consumer")
