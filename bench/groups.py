"""How many heartbeats of group members does a broker CPU-second serve, and does their number of groups matter?"""

from __future__ import annotations

import os
import resource
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.node import Bench, Node
from bench.report import Row, at_least, at_most, best_of
from bench.wire import BenchError, Caller, Topic, check, connect, receive
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest
from kavka.protocol.schemas.heartbeat import HeartbeatRequest
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

MEMBERS = 5
PARTITIONS = 10
MANY, FEW = 1000, 100
WANTED_PER_CPU = 10_000
WANTED_RATIO = 1.3
SETTLE_ROUNDS = 20
CONFIG = {
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.max.session.timeout.ms": "3600000",
}
SESSION_MS = 600_000
"""No member shall be missed while the others are set up."""
GROUP_HEARTBEAT, JOIN, SYNC, HEARTBEAT, FIND = 1, 9, 5, 4, 4  # versions


@dataclass(slots=True)
class Member:
    """A member with a connection of its own, as clients have them."""

    group: str
    id: str
    connection: socket.socket
    epoch: int = 0
    owned: list[TopicPartitions] = field(default_factory=list)

    def send(self, request: object, version: int) -> None:
        """Send a request; its answer is read later."""
        self.connection.sendall(encode_request(version, 1, "kavka-bench", request))

    def answer(self, key: ApiKey, version: int) -> Any:
        """Read the answer."""
        (size,) = struct.unpack(">i", receive(self.connection, 4))
        return parse_response(API[key], version, receive(self.connection, size))[1]


def rows(bench: Bench) -> list[Row]:
    """Consumer groups (KIP-848) and classic ones, many and few."""
    many, few = bench.size(MANY, MANY // 10), bench.size(FEW, FEW // 10)
    raise_open_files(many * MEMBERS + 200)
    found = []
    for name, gather in (("ConsumerGroupHeartbeat", gather_consumers), ("Heartbeat", gather_classic)):
        with bench.node(CONFIG) as node:
            costs = {}
            for groups in (few, many):
                runs = measure(node, groups, gather, bench)
                costs[groups] = 1 / max(runs)
                note = f"{groups * MEMBERS:,} connections, {best_of(runs)}"
                wanted = at_least(WANTED_PER_CPU) if groups == many else None
                case = f"{name}, {groups:,} groups of {MEMBERS}"
                found.append(Row(case, max(runs), "heartbeats / CPU-s", wanted, note))
            ratio = costs[many] / costs[few]
            found.append(Row(f"{name}, cost at {many:,} groups to {few:,}", ratio, "times", at_most(WANTED_RATIO)))
    return found


def measure(node: Node, groups: int, gather: Callable[[list[Member], Topic], list[bytes]], bench: Bench) -> list[float]:
    """Heartbeats per CPU-second of the broker, in each run."""
    with Caller(node.bootstrap) as caller:
        topic = caller.create_topic(PARTITIONS)
        caller.call(FindCoordinatorRequest(coordinator_keys=["g"]), FIND)
    run = os.urandom(3).hex()
    members = [
        Member(f"bench-{run}-{number}", f"{run}-{number}-{index}", connect(node.bootstrap))
        for number in range(groups)
        for index in range(MEMBERS)
    ]
    try:
        frames = gather(members, topic)
        rounds = max(2, bench.size(100_000, 20_000) // len(members))
        beat(members, frames, 1)
        found = []
        for _ in range(bench.repeats):
            cpu = node.cpu_seconds()
            beat(members, frames, rounds)
            found.append(rounds * len(members) / (node.cpu_seconds() - cpu))
        return found
    finally:
        for member in members:
            member.connection.close()


def beat(members: Sequence[Member], frames: Sequence[bytes], rounds: int) -> None:
    """Every member sends a heartbeat and hears that nothing is new, so many times."""
    pairs = [(member.connection, frame) for member, frame in zip(members, frames, strict=True)]
    for _ in range(rounds):
        for connection, frame in pairs:
            connection.sendall(frame)
        for connection, _ in pairs:
            (size,) = struct.unpack(">i", receive(connection, 4))
            answer = receive(connection, size)
            error_code = int.from_bytes(answer[9:11], "big")  # behind correlation id, no tags, throttle time
            if error_code:
                raise BenchError(f"a heartbeat was refused: error {error_code}")


def gather_consumers(members: list[Member], topic: Topic) -> list[bytes]:
    """Have all members join consumer groups and get what is theirs; the frames of their heartbeats."""
    for member in members:
        member.send(consumer_heartbeat(member, topic), GROUP_HEARTBEAT)
    for _ in range(SETTLE_ROUNDS):
        settled = True
        for member in members:
            answer = member.answer(ApiKey.CONSUMER_GROUP_HEARTBEAT, GROUP_HEARTBEAT)
            check(answer.error_code, f"heartbeat of {member.id}")
            settled &= answer.member_epoch == member.epoch and answer.assignment is None
            member.epoch = answer.member_epoch
            if answer.assignment is not None:
                member.owned = answer.assignment.topic_partitions
        epochs = {member.group: member.epoch for member in members}
        if settled and all(epochs[member.group] == member.epoch for member in members):
            break
        for member in members:
            member.send(consumer_heartbeat(member), GROUP_HEARTBEAT)
    else:
        raise BenchError("the groups do not come to rest")
    if sum(len(topic.partitions) for member in members for topic in member.owned) != len(epochs) * PARTITIONS:
        raise BenchError("not every partition has one owner")
    return [
        encode_request(
            GROUP_HEARTBEAT,
            1,
            "kavka-bench",
            ConsumerGroupHeartbeatRequest(group_id=member.group, member_id=member.id, member_epoch=member.epoch),
        )
        for member in members
    ]


def consumer_heartbeat(member: Member, joins: Topic | None = None) -> ConsumerGroupHeartbeatRequest:
    """What a member says while its group settles."""
    if joins is None:
        return ConsumerGroupHeartbeatRequest(
            group_id=member.group, member_id=member.id, member_epoch=member.epoch, topic_partitions=member.owned
        )
    return ConsumerGroupHeartbeatRequest(
        group_id=member.group,
        member_id=member.id,
        member_epoch=0,
        rebalance_timeout_ms=SESSION_MS,
        subscribed_topic_names=[joins.name],
        topic_partitions=[],
    )


def gather_classic(members: list[Member], topic: Topic) -> list[bytes]:
    """Have all members join classic groups; the frames of their heartbeats."""
    for member in members:
        member.id = ""
        member.send(join(member), JOIN)
    for member in members:  # each is given its id first (KIP-394)
        member.id = member.answer(ApiKey.JOIN_GROUP, JOIN).member_id
    for member in members:
        member.send(join(member), JOIN)
    for member in members:
        answer = member.answer(ApiKey.JOIN_GROUP, JOIN)
        check(answer.error_code, f"join of {member.id}")
        member.epoch = answer.generation_id
        given = [
            SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"x" * 40) for joined in answer.members
        ]
        request = SyncGroupRequest(
            group_id=member.group,
            generation_id=member.epoch,
            member_id=member.id,
            protocol_type="bench",
            protocol_name="bench",
            assignments=given,
        )
        member.send(request, SYNC)
    for member in members:
        check(member.answer(ApiKey.SYNC_GROUP, SYNC).error_code, f"sync of {member.id}")
    return [
        encode_request(
            HEARTBEAT,
            1,
            "kavka-bench",
            HeartbeatRequest(group_id=member.group, generation_id=member.epoch, member_id=member.id),
        )
        for member in members
    ]


def join(member: Member) -> JoinGroupRequest:
    """A member's wish to join."""
    return JoinGroupRequest(
        group_id=member.group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        member_id=member.id,
        protocol_type="bench",
        protocols=[JoinGroupRequestProtocol(name="bench", metadata=b"m" * 40)],
    )


def raise_open_files(needed: int) -> None:
    """Make room for a connection per member."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(needed, soft)), hard))
