"""A blocking connection for what stands around a measurement: topics, producer ids, reading back."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kavka.model.errors import BY_CODE, CoordinatorLoadInProgress
from kavka.model.types import Uuid
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API
from kavka.protocol.schema import declared
from kavka.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kavka.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest
from kavka.protocol.schemas.metadata import MetadataRequest

CLIENT_ID = "kavka-bench"
TIMEOUT_S = 120.0
_RETRY_S = 0.05
VERSIONS = {
    "CreateTopicsRequest": 7,
    "DeleteTopicsRequest": 6,
    "FetchRequest": 16,
    "InitProducerIdRequest": 5,
    "MetadataRequest": 12,
}


class BenchError(RuntimeError):
    """The node answered something that makes the measurement worthless."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic made for a measurement."""

    name: str
    id: Uuid
    partitions: int


def connect(bootstrap: str) -> socket.socket:
    """A connection without delays."""
    host, _, port = bootstrap.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive(connection: socket.socket, length: int) -> bytearray:
    """Exactly this many bytes."""
    data = bytearray(length)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise BenchError("the node closed the connection")
        view = view[count:]
    return data


def check(code: int, what: str) -> None:
    """Raise unless the error code is none."""
    if code:
        raise BenchError(f"{what}: {BY_CODE[code].__name__}" if code in BY_CODE else f"{what}: error {code}")


class Caller:
    """One request, one answer."""

    def __init__(self, bootstrap: str) -> None:
        self._connection = connect(bootstrap)
        self._correlation_id = 0
        self.waited_seconds = 0.0
        """How long the last answer took to come; reading it is not counted."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def call(self, request: object, version: int) -> Any:
        """Send a request and wait for its answer."""
        self._correlation_id += 1
        began = time.perf_counter()
        self._connection.sendall(encode_request(version, self._correlation_id, CLIENT_ID, request))
        (size,) = struct.unpack(">i", receive(self._connection, 4))
        frame = receive(self._connection, size)
        self.waited_seconds = time.perf_counter() - began
        correlation_id, answer = parse_response(API[declared(type(request)).key], version, frame)
        if correlation_id != self._correlation_id:
            raise BenchError(f"answer {correlation_id} came for request {self._correlation_id}")
        return answer

    def ask(self, request: object) -> Any:
        """Call at the version this file was written for."""
        return self.call(request, VERSIONS[type(request).__name__])

    def create_topics(
        self, names: Sequence[str], partitions: int = 1, configs: dict[str, str] | None = None
    ) -> list[Topic]:
        """Create topics in one request."""
        settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        wanted = [
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=settings)
            for name in names
        ]
        made = self.ask(CreateTopicsRequest(topics=wanted)).topics
        for topic in made:
            check(topic.error_code, f"create {topic.name}")
        return [Topic(topic.name, topic.topic_id, partitions) for topic in made]

    def create_topic(self, partitions: int, configs: dict[str, str] | None = None) -> Topic:
        """Create a topic with a name nobody has, and wait until all of it is served."""
        (topic,) = self.create_topics([f"bench-{os.urandom(4).hex()}"], partitions, configs)
        wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in range(partitions)]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=topic.id, partitions=wanted)])
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.ask(request)
            codes = {part.error_code for topic in answer.responses for part in topic.partitions} | {answer.error_code}
            if codes == {0} or time.monotonic() > deadline:
                check(max(codes), f"fetch of the new {topic.name}")
                return topic
            time.sleep(_RETRY_S)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics in one request."""
        wanted = [DeleteTopicState(name=name, topic_id=Uuid.ZERO) for name in names]
        for topic in self.ask(DeleteTopicsRequest(topics=wanted, timeout_ms=60_000)).responses:
            check(topic.error_code, f"delete {topic.name}")

    def list_topics(self) -> list[str]:
        """The names of all topics."""
        return [topic.name for topic in self.ask(MetadataRequest(topics=None)).topics]

    def new_producer(self) -> tuple[int, int]:
        """A fresh producer id and epoch."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
            if answer.error_code != CoordinatorLoadInProgress.code or time.monotonic() > deadline:
                check(answer.error_code, "InitProducerId")
                return answer.producer_id, answer.producer_epoch
            time.sleep(_RETRY_S)
