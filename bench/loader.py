"""A raw Produce loader: prebuilt requests, patched and sent many at a time, so that the broker is what is measured.

Requests are templates in which correlation id, sequence and CRC are patched; answers are kept as they come and are
all checked after the clock has stopped.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from bench.wire import CLIENT_ID, BenchError, Topic, check, connect, receive
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.builder import BatchBuilder

_CORRELATION_AT: Final = 8
_CRC_AT: Final = 17
_CHECKED_AT: Final = 21
_SEQUENCE_AT: Final = 53
_STALL_S: Final = 30.0
_SCRATCH_BYTES: Final = 1 << 18

_INT = struct.Struct(">i")
_CRC = struct.Struct(">I")


class Template:
    """A Produce request of one batch for one partition, made ready again and again."""

    __slots__ = ("_at", "_checked", "_frame", "_sequence", "batch_bytes", "partition", "records", "version")

    def __init__(
        self, topic: Topic, partition: int, payloads: list[bytes], version: int, acks: int, codec: int = 0
    ) -> None:
        builder = BatchBuilder(producer_id=-1, codec=codec)
        now_ms = time.time_ns() // 1_000_000
        for payload in payloads:
            builder.append(None, payload, now_ms)
        batch = builder.build()
        body = ProduceRequest(
            acks=acks,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    name=topic.name,
                    topic_id=topic.id,
                    partition_data=[PartitionProduceData(index=partition, records=batch)],
                )
            ],
        )
        self._frame = bytearray(encode_request(version, 0, CLIENT_ID, body))
        self._at = self._frame.index(batch)
        self._checked = memoryview(self._frame)[self._at + _CHECKED_AT : self._at + len(batch)]
        self._sequence = -1
        self.partition = partition
        self.records = len(payloads)
        self.batch_bytes = len(batch)
        self.version = version

    def own(self, producer_id: int, producer_epoch: int) -> None:
        """Make it an idempotent producer's, from sequence 0 on."""
        struct.pack_into(">qh", self._frame, self._at + 43, producer_id, producer_epoch)
        self._sequence = 0

    def next(self, correlation_id: int) -> bytearray:
        """The next request; good until the one after it."""
        frame, at = self._frame, self._at
        _INT.pack_into(frame, _CORRELATION_AT, correlation_id)
        _INT.pack_into(frame, at + _SEQUENCE_AT, self._sequence)
        if self._sequence >= 0:
            self._sequence += self.records
        _CRC.pack_into(frame, at + _CRC_AT, crc32c(self._checked))
        return frame


def answer_struct(topic: Topic, version: int) -> struct.Struct:
    """The layout of a Produce answer without errors: always of one size for one topic."""
    name = 16 if version >= 13 else len(topic.name) + 1
    #                   size, correlation id, tags, topics, name, partitions, index, error, offset, append time, start,
    return struct.Struct(f">iiBB{name}sBihqqqBBBBiB")  # record errors, message, tags, topic tags, throttle, tags


@dataclass
class Lane:
    """One connection with its requests and what came back."""

    bootstrap: str
    topic: Topic
    templates: list[Template]
    total: int
    depth: int
    chunk: int
    prebuilt: bool
    answers: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.layout = answer_struct(self.topic, self.templates[0].version)
        self.connection = connect(self.bootstrap)
        self.sent = 0
        self.pending = memoryview(b"")
        self._chunks: Iterator[bytes] = iter(list(self._build())) if self.prebuilt else self._build()

    @property
    def version(self) -> int:
        """The version of the requests."""
        return self.templates[0].version

    @property
    def done(self) -> bool:
        """Whether everything was answered."""
        return self.answered >= self.total

    @property
    def answered(self) -> int:
        """How many answers are there."""
        return len(self.answers) // self.layout.size

    def _build(self) -> Iterator[bytes]:
        templates, count = self.templates, len(self.templates)
        number = 0
        while number < self.total:
            size = min(self.chunk, self.total - number)
            yield b"".join([bytes(templates[(number + i) % count].next(number + i + 1)) for i in range(size)])
            number += size

    def push(self) -> bool:
        """Send what depth and socket allow; whether the socket is full."""
        while True:
            if not self.pending:
                if self.sent >= self.total or self.sent - self.answered + self.chunk > self.depth:
                    return False
                self.pending = memoryview(next(self._chunks))
                self.sent = min(self.total, self.sent + self.chunk)
            try:
                self.pending = self.pending[self.connection.send(self.pending) :]
            except BlockingIOError:
                return True

    def pull(self, scratch: memoryview) -> None:
        """Take what came."""
        count = self.connection.recv_into(scratch)
        if not count:
            raise BenchError(f"the node closed the connection; {self.complaint()}")
        self.answers += scratch[:count]

    def complaint(self) -> str:
        """The first answer that is not as expected, in words."""
        view = memoryview(self.answers)
        position = number = 0
        while len(view) - position >= 4:
            (size,) = _INT.unpack_from(view, position)
            frame = view[position + 4 : position + 4 + size]
            if size + 4 != self.layout.size and len(frame) == size:
                _, answer = parse_response(API[0], self.version, frame)
                return f"answer {number} is {answer}"
            position += 4 + size
            number += 1
        return f"{number} of {self.total} answers came, all well-formed"

    def verify(self) -> dict[int, int]:
        """Check every answer; the number of requests acknowledged per partition."""
        if len(self.answers) != self.layout.size * self.total:
            raise BenchError(self.complaint())
        size = self.layout.size - 4
        counts = dict.fromkeys((template.partition for template in self.templates), 0)
        ends = dict.fromkeys(counts, -1)
        records = self.templates[0].records
        for number, fields in enumerate(self.layout.iter_unpack(self.answers)):
            partition, error, offset = fields[6], fields[7], fields[8]
            if fields[0] != size or fields[1] != number + 1:
                raise BenchError(f"answer {number} is for request {fields[1]}, of {fields[0]} bytes")
            check(error, f"request {number}, partition {partition}")
            if ends[partition] not in (-1, offset):
                raise BenchError(f"partition {partition}: offset {offset} where {ends[partition]} was next")
            ends[partition] = offset + records
            counts[partition] += 1
        return counts


def run(lanes: list[Lane]) -> float:
    """Drive all lanes to their end; the seconds it took."""
    by_fd = {lane.connection.fileno(): lane for lane in lanes}
    poller = select.epoll()
    for fd, lane in by_fd.items():
        lane.connection.setblocking(False)
        poller.register(fd, select.EPOLLIN)
    scratch = memoryview(bytearray(_SCRATCH_BYTES))
    began = time.perf_counter()
    for fd, lane in by_fd.items():
        if lane.push():
            poller.modify(fd, select.EPOLLIN | select.EPOLLOUT)
    left = len(lanes)
    while left:
        events = poller.poll(_STALL_S)
        if not events:
            raise BenchError(f"no answer for {_STALL_S:g} s; " + "; ".join(lane.complaint() for lane in lanes))
        for fd, event in events:
            lane = by_fd[fd]
            if event & ~select.EPOLLOUT:
                lane.pull(scratch)
                if lane.done:
                    left -= 1
                    poller.unregister(fd)
                    continue
            full = lane.push()
            if full != bool(event & select.EPOLLOUT):
                poller.modify(fd, select.EPOLLIN | select.EPOLLOUT if full else select.EPOLLIN)
    took = time.perf_counter() - began
    poller.close()
    for lane in lanes:
        lane.connection.close()
    return took


def one_at_a_time(bootstrap: str, topic: Topic, template: Template, count: int) -> list[float]:
    """Send requests one by one, each after the answer to the last; the seconds each took."""
    layout = answer_struct(topic, template.version)
    took = []
    expected: int | None = None
    with connect(bootstrap) as connection:
        for number in range(1, count + 1):
            request = template.next(number)
            began = time.perf_counter()
            connection.sendall(request)
            answer = connection.recv(layout.size)
            took.append(time.perf_counter() - began)
            if len(answer) < layout.size:
                answer += receive(connection, layout.size - len(answer))
            fields = layout.unpack(answer)
            check(fields[7], f"request {number}")
            if fields[1] != number or expected not in (None, fields[8]):
                raise BenchError(f"request {number} got answer {fields[1]} with offset {fields[8]}, not {expected}")
            expected = fields[8] + template.records
    return took
