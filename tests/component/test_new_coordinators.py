"""A kind of group and a coordinator that the sources know nothing of: all of both is in this file."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from kavka.broker.config import node_config
from kavka.broker.coordinating import COORDINATORS
from kavka.broker.coordination import GroupCoordination
from kavka.broker.wiring import Node
from kavka.client.connector import Connector
from kavka.client.dial import TcpDial
from kavka.coordinator.kind import GroupKind
from kavka.coordinator.kinds import KINDS
from kavka.coordinator.record import Record, Unknown
from kavka.coordinator.requests import Draft
from kavka.coordinator.timers import TimerKey
from kavka.model.clock import SystemClock
from kavka.model.errors import InvalidRequest, UnknownMemberId
from kavka.model.settings import coordinators as keys
from kavka.model.transition import Transition
from kavka.protocol.schema import Int64, record
from kavka.protocol.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kavka.protocol.schemas.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kavka.protocol.schemas.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kavka.runtime.coordinators import COMPACTED, InternalTopic, LogCoordinator
from kavka.runtime.shard import ShardRuntime
from kavka.runtime.shards import Shards
from kavka.storage.disk import RealDisk

# -- a kind of group: a club, whose members pay for a while ---------------------------------------------


@record(key=100, versions="0", flexible="none")
class ClubMemberKey:
    club: str
    member: str


@record(key=100, versions="0", flexible="0+")
class ClubMemberValue:
    paid_until_ms: Int64


UNPAID = "unpaid"


class Club(dict):
    """Members, and until when they have paid."""


class ClubKind(GroupKind[Club]):
    name = "club"
    group = Club
    records = ((ClubMemberKey, ClubMemberValue),)
    timers = frozenset((UNPAID,))

    def __init__(self, context, state, kinds):
        self.context, self.state = context, state

    @staticmethod
    def replay(groups, entry):
        if entry.value is not None:
            groups.setdefault(entry.key.club, Club())[entry.key.member] = entry.value.paid_until_ms
        elif isinstance(club := groups.get(entry.key.club), Club):
            club.pop(entry.key.member, None)
            if not club:
                del groups[entry.key.club]

    def pay(self, club, member, for_ms, now_ms):
        draft = Draft()
        draft.records.append(
            Record(ClubMemberKey(club=club, member=member), ClubMemberValue(paid_until_ms=now_ms + for_ms))
        )
        draft.effects += self.context.deadlines.put(TimerKey(UNPAID, club, member), now_ms + for_ms)
        return draft.done(sorted({*self.state.groups.get(club, ()), member}))

    def on_loaded(self, draft, group_id, group, now_ms):
        for member, until_ms in group.items():
            draft.effects += self.context.deadlines.put(TimerKey(UNPAID, group_id, member), until_ms)

    def on_timer(self, key, now_ms):
        return Transition(None, (Record(ClubMemberKey(club=key.group, member=key.member)),))

    def listed(self, group_id, group):
        return ListedGroup(group_id=group_id, protocol_type="", group_state="Open", group_type=self.name)

    def is_empty(self, group_id, group):
        return all(member.startswith("honorary") for member in group)

    def delete(self, draft, group_id, group):
        draft.records += [Record(ClubMemberKey(club=group_id, member=member)) for member in group]


# -- a coordinator: numbers by name, in a topic of its own with a form of its own ------------------------

NUMBERS, NUMBERS_KEY = "__numbers", 77


class NumbersCodec:
    def encode(self, entry, /):
        name, number = entry
        return json.dumps(name).encode(), json.dumps(number).encode()

    def decode(self, key, value, /):
        try:
            return json.loads(key), json.loads(value)
        except (TypeError, ValueError) as error:
            return Unknown(str(error))


class NumbersMachine:
    def __init__(self):
        self.numbers = {}

    def count(self, name, step):
        number = self.numbers.get(name, 0) + step
        return Transition(number, ((name, number),))

    def replay(self, entry, offset, producer_id=-1):
        self.numbers[entry[0]] = entry[1]

    def replay_end_transaction(self, producer_id, *, committed):
        raise NotImplementedError

    def on_loaded(self, now_ms):
        return Transition(None)

    def on_timer(self, key, now_ms):
        raise NotImplementedError

    def on_metadata(self, image, delta):
        return Transition(None)

    def on_settings(self, values):
        pass


class Numbers(LogCoordinator):
    key_type = NUMBERS_KEY

    def __init__(self, host):
        around = ShardRuntime(host.loop, host.clock, host.timers, host.force, 5_000, -1)
        self.shards = Shards(NUMBERS, 3, host.replicas, lambda image: NumbersMachine(), NumbersCodec(), around)

    def internal_topic(self, values):
        return InternalTopic(NUMBERS, 3, keys.OFFSETS_TOPIC_REPLICATION_FACTOR, COMPACTED)

    def check_key(self, key, api_version):
        if key.startswith("-"):
            raise InvalidRequest("names do not begin so")

    async def count(self, name, step=1):
        return await self.shards.of(name).submit(lambda machine, _: machine.count(name, step))


# -- a node that has both --------------------------------------------------------------------------------


class World:
    """A node in this process, and a connection to it."""

    async def ask(self, request, response, version):
        return await self.connection.request(request, response, version=version)

    async def pay(self, club, member, for_ms=60_000):
        coordinator = self.made[GroupCoordination]
        return await coordinator.groups.ask(ClubKind, club, lambda kind, now_ms: kind.pay(club, member, for_ms, now_ms))

    async def find(self, key, kind):
        """The error code and the node that coordinates a key; asking makes the topic and waits for its shards."""
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
        (row,) = (await self.ask(request, FindCoordinatorResponse, 6)).coordinators
        return row.error_code, row.node_id

    async def listed(self, **filters):
        found = await self.ask(ListGroupsRequest(**filters), ListGroupsResponse, 5)
        return {(one.group_id, one.group_type, one.group_state) for one in found.groups}


@pytest.fixture
def node(tmp_path):
    """Runs a node with the two in its lists."""

    @asynccontextmanager
    async def run():
        world, stopping, reports = World(), asyncio.Event(), asyncio.Queue()
        world.made = {}

        def make(maker):
            def made(host):
                coordinator = maker(host)
                world.made[type(coordinator)] = coordinator
                return coordinator

            return made

        def clubs(host):
            return GroupCoordination(host, kinds=(*KINDS, ClubKind))

        makers = [make(one) for one in (clubs, *COORDINATORS[1:], Numbers)]
        texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path), "offsets.topic.num.partitions": "2"}
        running = asyncio.ensure_future(
            Node(node_config(texts), RealDisk(), SystemClock(), coordinators=makers).run(reports.put_nowait, stopping)
        )
        host, _, port = (await reports.get()).bootstrap.rpartition(":")
        world.connection = await Connector(TcpDial()).connect(host, int(port))
        try:
            yield world
        finally:
            world.connection.close()
            stopping.set()
            await running

    return run


def test_a_new_kind_of_group_lives_beside_the_others(node):
    async def scenario():
        async with node() as world:
            assert await world.find("readers", 0) == (0, 1)
            assert await world.pay("readers", "ann") == ["ann"]
            assert await world.pay("readers", "bob") == ["ann", "bob"]
            assert await world.listed() == {("readers", "club", "Open")}
            assert await world.listed(types_filter=["Club"]) == {("readers", "club", "Open")}
            assert await world.listed(types_filter=["classic"]) == set()
            deleted = await world.ask(DeleteGroupsRequest(groups_names=["readers"]), DeleteGroupsResponse, 2)
            assert deleted.results[0].error_code == 68  # NON_EMPTY_GROUP
        async with node() as world:  # it was loaded
            assert await world.find("readers", 0) == (0, 1)
            assert await world.pay("readers", "cy") == ["ann", "bob", "cy"]

    asyncio.run(scenario())


def test_a_new_kind_of_group_has_timers_and_is_deleted_when_it_says_so(node):
    async def scenario():
        async with node() as world:
            await world.find("readers", 0)
            await world.pay("readers", "honorary ann")
            await world.pay("readers", "bob", for_ms=1)
            while await world.pay("readers", "honorary ann") != ["honorary ann"]:
                await asyncio.sleep(0.01)  # until bob's time is over
            deleted = await world.ask(DeleteGroupsRequest(groups_names=["readers"]), DeleteGroupsResponse, 2)
            assert deleted.results[0].error_code == 0
            assert await world.listed() == set()

    asyncio.run(scenario())


def test_what_a_new_kind_does_not_do_is_refused_as_kafka_refuses_it(node):
    async def scenario():
        async with node() as world:
            await world.find("readers", 0)
            await world.pay("readers", "ann")
            join = JoinGroupRequest(
                group_id="readers",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            )
            assert (await world.ask(join, JoinGroupResponse, 6)).error_code == 23  # INCONSISTENT_GROUP_PROTOCOL
            beat = HeartbeatRequest(group_id="readers", generation_id=1, member_id="ann")
            assert (await world.ask(beat, HeartbeatResponse, 4)).error_code == UnknownMemberId.code
            consumer = ConsumerGroupHeartbeatRequest(
                group_id="readers",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=["orders"],
                topic_partitions=[],
            )
            assert (await world.ask(consumer, ConsumerGroupHeartbeatResponse, 1)).error_code == 69
            metadata = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=True)
            await world.ask(metadata, MetadataResponse, 12)
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
            commit = OffsetCommitRequest(
                group_id="readers",
                member_id="",
                topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
            )
            answer = await world.ask(commit, OffsetCommitResponse, 9)
            assert answer.topics[0].partitions[0].error_code == 69  # GROUP_ID_NOT_FOUND
            assert await world.pay("readers", "bob") == ["ann", "bob"]

    asyncio.run(scenario())


def test_a_new_coordinator_is_found_by_its_type_of_keys_and_keeps_its_state(node):
    async def scenario():
        async with node() as world:
            assert await world.find("sheep", NUMBERS_KEY) == (0, 1)
            assert await world.find("-", NUMBERS_KEY) == (42, -1)
            assert await world.find("sheep", NUMBERS_KEY + 1) == (42, -1)
            numbers = world.made[Numbers]
            assert [await numbers.count("sheep"), await numbers.count("sheep"), await numbers.count("goats", 5)] == [
                1,
                2,
                5,
            ]
        async with node() as world:
            assert await world.find("sheep", NUMBERS_KEY) == (0, 1)
            assert await world.made[Numbers].count("sheep") == 3

    asyncio.run(scenario())
