"""How many records does a share group take from one node, what does a million cost it, and does the window matter?"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from bench.bulk import produce, random_payloads
from bench.node import Bench, Broker
from bench.report import Row, at_most, best_of
from bench.wire import BenchError, Caller, Topic, check, connect, receive
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest
from kavka.protocol.schemas.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from kavka.share.acquiring import DeliveryLimits, LogBatch, Wanted
from kavka.share.partition import RELEASE, Acknowledgement, SharePartition

MEMBERS = 8
PARTITIONS = 8
PAYLOAD_BYTES = 1024
MAX_RECORDS = 500
ACCEPT = 1
FETCH, ALTER, FIND = 2, 0, 6  # versions
FEW, MANY = 100, 2000
ROUNDS = 2000
WANTED_RATIO = 1.5
IDLE = 1000
IDLE_MS = 5.0
STALL_S = 60.0
RETRY_S = 0.1
MAX_WAIT_MS = 500
WARM_FETCHES = 4

Said = dict[int, list[tuple[int, int]]]
"""By partition: the records that a member accepts with its next fetch."""


class Member:
    """A member with a connection of its own, which accepts what it got with its next fetch."""

    def __init__(self, bootstrap: str, number: int, topic: Topic) -> None:
        self.connection: socket.socket = connect(bootstrap)
        self._id = f"bench-{number}"
        self._topic = topic
        self._epoch = 0
        self._said: Said = {}

    def ask(self) -> None:
        """Send the next fetch; its answer is read later."""
        indexes = range(self._topic.partitions) if self._epoch == 0 else self._said
        rows = [
            FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[ACCEPT])
                    for first, last in self._said.get(index, ())
                ],
            )
            for index in indexes
        ]
        request = ShareFetchRequest(
            group_id=self._topic.name,
            member_id=self._id,
            share_session_epoch=self._epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=50 << 20,
            max_records=MAX_RECORDS,
            batch_size=MAX_RECORDS,
            topics=[FetchTopic(topic_id=self._topic.id, partitions=rows)] if rows else [],
            forgotten_topics_data=[],
        )
        self.connection.sendall(encode_request(FETCH, 1, "kavka-bench", request))
        self._epoch += 1

    def take(self) -> int:
        """Read the answer; how many records it brought."""
        (size,) = struct.unpack(">i", receive(self.connection, 4))
        answer: Any = parse_response(API[ApiKey.SHARE_FETCH], FETCH, receive(self.connection, size))[1]
        check(answer.error_code, "share fetch")
        self._said, count = {}, 0
        for topic in answer.responses:
            for row in topic.partitions:
                check(row.acknowledge_error_code, "acknowledgement")
                for acquired in row.acquired_records:
                    self._said.setdefault(row.partition_index, []).append((acquired.first_offset, acquired.last_offset))
                    count += acquired.last_offset - acquired.first_offset + 1
        return count


def rows(bench: Bench) -> list[Row]:
    """A group of eight that drains a topic, and what one acquisition costs with few and many records in flight."""
    count = bench.size(400_000, 40_000)
    rates, costs = [], []
    with bench.node({"share.coordinator.state.topic.min.isr": "1"}) as node:
        for _ in range(bench.repeats):
            cpu_seconds, seconds = drain(node, count)
            rates.append(count / seconds)
            costs.append(cpu_seconds / count * 1e6)
    case = f"{MEMBERS} members, {PARTITIONS} partitions, {PAYLOAD_BYTES} B, accepted with the next fetch"
    few, many = acquisition_us(FEW), acquisition_us(MANY)
    with bench.node({"share.coordinator.state.topic.min.isr": "1"}) as node:
        seconds = bench.size(20, 3)
        one, all_ = idle_cpu(node, 1, seconds), idle_cpu(node, IDLE, seconds)
    return [
        Row(case, max(rates), "records / s", None, best_of(rates)),
        Row(case, min(costs), "CPU-s / million", None, f"{count:,} records"),
        Row(f"acquiring one again amid {FEW:,} in flight", few, "us"),
        Row(f"amid {MANY:,} to amid {FEW:,}", many / few, "times", at_most(WANTED_RATIO)),
        Row(
            f"{IDLE:,} idle partitions and a member that waits for them",
            (all_ - one) * 1000,
            "ms of CPU / s",
            at_most(IDLE_MS),
            f"one partition: {one * 1000:.1f}",
        ),
    ]


def grouped(caller: Caller, partitions: int) -> Topic:
    """A topic, and a group of its name that begins where the topic does."""
    topic = caller.create_topic(partitions)
    starts = [
        AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=0) for index in range(partitions)
    ]
    wanted = AlterShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=starts)
    deadline = time.monotonic() + STALL_S
    while True:
        caller.call(FindCoordinatorRequest(coordinator_keys=[topic.name]), FIND)
        answer = caller.call(AlterShareGroupOffsetsRequest(group_id=topic.name, topics=[wanted]), ALTER)
        codes = {row.error_code for response in answer.responses for row in response.partitions} | {answer.error_code}
        if codes == {0} or time.monotonic() > deadline:
            check(max(codes), "alter share group offsets")
            return topic
        time.sleep(RETRY_S)


def idle_cpu(node: Broker, partitions: int, seconds: float) -> float:
    """CPU-seconds of the broker for each second that a member waits for records of partitions that have none."""
    with Caller(node.bootstrap) as caller:
        topic = grouped(caller, partitions)
    member = Member(node.bootstrap, 0, topic)
    try:
        for _ in range(WARM_FETCHES):  # they load the share partitions
            member.ask()
            member.take()
        cpu, began = node.cpu_seconds(), time.perf_counter()
        while time.perf_counter() < began + seconds:
            member.ask()
            if member.take():
                raise BenchError("there are records in an empty topic")
        return (node.cpu_seconds() - cpu) / (time.perf_counter() - began)
    finally:
        member.connection.close()


def drain(node: Broker, count: int) -> tuple[float, float]:
    """CPU-seconds of the broker and seconds that it takes a group to accept all records of a topic."""
    with Caller(node.bootstrap) as caller:
        topic = grouped(caller, PARTITIONS)
        produce(node.bootstrap, topic, random_payloads(PAYLOAD_BYTES), count, "none")
    members = [Member(node.bootstrap, number, topic) for number in range(MEMBERS)]
    cpu, began, got = node.cpu_seconds(), time.perf_counter(), 0
    try:
        for member in members:
            member.ask()
        while got < count:
            if time.perf_counter() - began > STALL_S:
                raise BenchError(f"the group got only {got} of {count} records")
            for member in members:
                got += member.take()
                member.ask()
                if got >= count:
                    break
        return node.cpu_seconds() - cpu, time.perf_counter() - began
    finally:
        for member in members:
            member.connection.close()


def acquisition_us(in_flight: int) -> float:
    """How long it takes to acquire a record that was released amid so many in flight, in microseconds: the median."""
    machine, limits = (
        SharePartition.load(0, 0, 0, ()),
        DeliveryLimits(max_record_locks=in_flight, delivery_count=2 * ROUNDS),
    )
    batches = [LogBatch(first, first + 9) for first in range(0, in_flight, 10)]
    machine.acquire(Wanted("m", in_flight, in_flight), 0, batches, limits, 0)
    found = []
    for number in range(ROUNDS):
        offset = (number * 7919) % in_flight
        batch = batches[offset // 10]
        wanted = Wanted("m", 1, 1, 1)
        write = machine.acknowledge(
            "m", [Acknowledgement(offset, offset, [RELEASE])], limits._replace(delivery_count=ROUNDS), 0
        )
        assert write is not None
        machine.written(write)
        began = time.perf_counter()
        got = machine.acquire(wanted, machine.next_fetch_offset(), [batch], limits, 0)
        found.append(time.perf_counter() - began)
        assert [each[:2] for each in got] == [(offset, offset)], got
    return sorted(found)[len(found) // 2] * 1e6
