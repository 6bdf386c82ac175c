"""How many megabytes does a broker CPU-second send to consumers, in fetches of 1 MiB?"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench import bare
from bench.loader import Lane, Template, run
from bench.node import Bench, Broker
from bench.readback import VERSION, fetch_request, read_topic
from bench.report import Row, at_least, best_of
from bench.wire import CLIENT_ID, BenchError, Caller, Topic, check, connect
from kavka.protocol.header import encode_request

WANTED_PER_CPU = 2_500
MIB = 1 << 20
RECORDS = 14
PARTITIONS = 4
READERS = 4
SHORT_BYTES = 16_384  # an answer may end with a whole batch instead of at the limit
BARE_FILE_BYTES = 64 * MIB
_STALL_S = 30.0
# size, correlation id, tags, throttle, error, session, topics, topic id, partitions, index, error
_HEAD = struct.Struct(">iiBihiB16sBih")


@dataclass(slots=True)
class Reader:
    """One connection with one fetch under way."""

    connection: socket.socket
    requests: Iterator[bytes]
    scratch: memoryview
    left: int = 0
    received: int = 0
    head: bytes = b""
    heads: list[bytes] = field(default_factory=list)

    def ask(self) -> bool:
        """Send the next fetch; whether there was one."""
        request = next(self.requests, None)
        if request is None:
            return False
        self.connection.sendall(request)
        self.head = b""
        return True

    def pull(self) -> bool:
        """Take what came; whether it completes an answer."""
        count = self.connection.recv_into(self.scratch)
        if not count:
            raise BenchError("the node closed the connection")
        self.received += count
        if len(self.head) < _HEAD.size:
            self.head += self.scratch[: min(count, _HEAD.size)]
            if len(self.head) < _HEAD.size:
                self.left -= count
                return False
            self.heads.append(self.head)
            self.left += int.from_bytes(self.head[:4], "big") + 4
        self.left -= count
        return self.left == 0


@dataclass(frozen=True, slots=True)
class Drained:
    """What a run took."""

    fetches: int
    megabytes: float
    wall_seconds: float
    cpu_seconds: float

    @property
    def per_cpu_second(self) -> float:
        """Megabytes per CPU-second of the broker."""
        return self.megabytes / self.cpu_seconds


def rows(bench: Bench) -> list[Row]:
    """The same warm data again and again, one fetch under way per connection."""
    total = bench.size(4096, 2048) * MIB
    with bench.node() as node:
        topic = fill(node, bench.size(256, 64) * MIB)
        requests = walk(node, topic)
        runs, floors = [], []
        with bare.running(BARE_FILE_BYTES, MIB) as bare_node:
            for _ in range(bench.repeats):  # in turns, so that both see the same machine
                runs.append(drain(node, requests, total))
                floors.append(drain(bare_node, [[b"?"]], total // 2))
    best = max(runs, key=lambda run: run.per_cpu_second)
    floor = max(floors, key=lambda run: run.per_cpu_second)
    case = "Fetch v16, 1 MiB"
    load = f"{best.fetches:,} fetches, {best.megabytes:,.0f} MB, {READERS} connections"
    note = best_of([run.per_cpu_second for run in runs])
    return [
        Row(case, best.per_cpu_second, "MB / CPU-s", at_least(WANTED_PER_CPU), note),
        Row(case, best.megabytes / best.wall_seconds, "MB / s", note=load),
        Row(case, best.fetches / best.cpu_seconds, "fetches / CPU-s"),
        Row(
            "bare sendfile, 1 MiB",
            floor.per_cpu_second,
            "MB / CPU-s",
            note=f"no Kafka at all: what the kernel takes; {best_of([run.per_cpu_second for run in floors])}",
        ),
    ]


def fill(node: Broker, size: int) -> Topic:
    """Write this much to a new topic, in batches of 14.5 KB, and read it back."""
    with Caller(node.bootstrap) as caller:
        topic = caller.create_topic(PARTITIONS)
    payloads = [os.urandom(1024) for _ in range(RECORDS)]
    lanes = []
    for partition in range(PARTITIONS):
        template = Template(topic, partition, payloads, version=13, acks=-1)
        each = size // PARTITIONS // template.batch_bytes
        lanes.append(Lane(node.bootstrap, topic, [template], each, depth=64, chunk=8, prebuilt=False))
    run(lanes)
    for lane in lanes:
        lane.verify()
    for partition, found in read_topic(node.bootstrap, topic).items():
        if found.batches != each:
            raise BenchError(f"partition {partition} holds {found}, not {each} batches")
    return topic


def walk(node: Broker, topic: Topic) -> list[list[bytes]]:
    """For each partition, fetches that walk through all of it, each of a whole MiB."""
    made: list[list[bytes]] = []
    with Caller(node.bootstrap) as caller:
        for partition in range(PARTITIONS):
            mine = []
            offset = 0
            while True:
                request = fetch_request(topic, partition, offset, MIB)
                (part,) = caller.call(request, VERSION).responses[0].partitions
                if len(part.records) < MIB - SHORT_BYTES:
                    break
                mine.append(encode_request(VERSION, offset, CLIENT_ID, request))
                offset += len(part.records) // _batch_bytes(part.records) * RECORDS
            made.append(mine)
    return made


def _batch_bytes(records: memoryview) -> int:
    return int.from_bytes(records[8:12], "big") + 12


def drain(node: Broker, requests: list[list[bytes]], total: int) -> Drained:
    """Fetch until so many bytes came; what that took."""
    readers = []
    count = total // MIB // READERS
    for number in range(READERS):
        mine = requests[number % len(requests)]
        repeated = iter([mine[i % len(mine)] for i in range(count)])
        readers.append(Reader(connect(node.bootstrap), repeated, memoryview(bytearray(MIB))))
    cpu = node.cpu_seconds()
    began = time.perf_counter()
    _loop(readers)
    wall = time.perf_counter() - began
    cpu = node.cpu_seconds() - cpu
    for reader in readers:
        reader.connection.close()
        for head in reader.heads:
            fields = _HEAD.unpack_from(head)
            check(fields[4] or fields[10], "fetch")
            if fields[0] < MIB - SHORT_BYTES:
                raise BenchError(f"a fetch of 1 MiB answered only {fields[0]:,} bytes")
    fetches = sum(len(reader.heads) for reader in readers)
    return Drained(fetches, sum(reader.received for reader in readers) / 1e6, wall, cpu)


def _loop(readers: list[Reader]) -> None:
    by_fd = {reader.connection.fileno(): reader for reader in readers}
    poller = select.epoll()
    for fd, reader in by_fd.items():
        poller.register(fd, select.EPOLLIN)
        reader.ask()
    left = len(readers)
    while left:
        events = poller.poll(_STALL_S)
        if not events:
            raise BenchError(f"no answer for {_STALL_S:g} s")
        for fd, _ in events:
            reader = by_fd[fd]
            if reader.pull() and not reader.ask():
                poller.unregister(fd)
                left -= 1
    poller.close()
