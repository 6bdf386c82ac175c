"""Sends cases to a node over plain sockets and collects what came back."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import Any, Self

from jvm.differential.case import Case

from kavka.model.errors import CoordinatorLoadInProgress
from kavka.model.types import Uuid
from kavka.protocol.compiler import decode_from, encode
from kavka.protocol.header import encode_request
from kavka.protocol.primitives import skip_tags
from kavka.protocol.registry import API
from kavka.protocol.schema import declared
from kavka.protocol.schemas.api_versions import ApiVersionsRequest
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic

TIMEOUT_S = 5.0
SETTLED_S = 60.0
TOPIC_CONFIG = 2
# What the marker topic of settle() is called; both nodes have it.
MARKER = "settled"
# Kafka's broker applies these some time after the controller acknowledged them.
CHANGES_METADATA = {19, 20, 33, 37, 44, 49, 57}
CLIENT_ID = "kavka-compat"


@dataclass(frozen=True)
class Outcome:
    """What a node did with a case: answered, stayed silent as it should, hung up, or never answered."""

    message: Any = None
    closed: bool = False
    silent: bool = False
    hung: bool = False
    body: bytes = b""
    rest: bytes = b""  # what our schema left unread
    spoken: tuple[int, int] | None = None

    def encoded_again(self) -> bytes | None:
        """The bytes we would have sent for the same message."""
        return None if self.message is None or self.spoken is None else encode(self.message, self.spoken[1])


class Talker:
    """One node, and what has been seen on it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._connection: socket.socket | None = None
        self._correlation = 0
        self._answers: dict[str, Any] = {}
        self._settled = 0
        self.topic_names: dict[Uuid, str] = {}

    def topic_id(self, name: str) -> Uuid:
        """The id of a topic that exists."""
        answer = self.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False), 12
        )
        found: Uuid = answer.topics[0].topic_id
        self.topic_names[found] = name
        return found

    def topic_name(self, topic_id: Uuid) -> str:
        """What stands for an id in comparisons."""
        if topic_id not in self.topic_names:
            for topic in self.ask(MetadataRequest(topics=None), 12).topics:
                self.topic_names[topic.topic_id] = topic.name
        return f"<id of {self.topic_names.get(topic_id, 'nobody')}>"

    def answer(self, case: str) -> Any:
        """The decoded answer to an earlier case."""
        return self._answers[case]

    def run(self, case: Case) -> Outcome:
        """Do what the case says."""
        if case.raw is not None:
            return self._run_raw(case)
        request = case.request(self) if callable(case.request) else case.request
        outcome = self._exchange(request, case.version, case.client_id)
        deadline = time.monotonic() + SETTLED_S
        while case.until is not None and not case.until(outcome.message):
            assert time.monotonic() < deadline, f"{case.name}: {outcome}"
            time.sleep(0.05)
            outcome = self._exchange(request, case.version, case.client_id)
        self._answers[case.name] = outcome.message
        if declared(type(request)).key in CHANGES_METADATA or _may_create(request):
            self.settle()
        if isinstance(request, FindCoordinatorRequest):
            self._await_coordinator()
        return outcome

    def ask(self, request: object, version: int) -> Any:
        """An exchange that must be answered."""
        outcome = self._exchange(request, version, CLIENT_ID)
        assert outcome.message is not None, request
        return outcome.message

    def prepare(self) -> None:
        """Make the marker topic, and wait until the node has producer ids to give."""
        topic = CreatableTopic(name=MARKER, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        self.ask(CreateTopicsRequest(topics=[topic]), 7)
        self.settle()
        deadline = time.monotonic() + TIMEOUT_S
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        while self.ask(asked, 4).error_code == CoordinatorLoadInProgress.code:
            assert time.monotonic() < deadline, "the node gets no producer ids"
            time.sleep(0.05)

    def settle(self) -> None:
        """Wait until the broker has applied every metadata change so far.

        It applies them in order, so a change of the marker that is seen means that those before it were applied; the
        second one also means that applying the first is over.
        """
        for _ in range(2):
            self._settled += 1
            wanted = str(1_000_000 + self._settled)
            entry = AlterableConfig(name="retention.ms", config_operation=0, value=wanted)
            marker = AlterConfigsResource(resource_type=TOPIC_CONFIG, resource_name=MARKER, configs=[entry])
            self.ask(IncrementalAlterConfigsRequest(resources=[marker], validate_only=False), 1)
            deadline = time.monotonic() + TIMEOUT_S
            while self._marker() != wanted:
                assert time.monotonic() < deadline, "the node does not apply metadata changes"
                time.sleep(0.01)

    def __enter__(self) -> Self:
        self.prepare()
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _await_coordinator(self) -> None:
        """Wait until groups have a coordinator: the first question for one makes Kafka create a topic."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.ask(FindCoordinatorRequest(key="a-group", key_type=0), 3).error_code != 0:
            assert time.monotonic() < deadline, "groups get no coordinator"
            time.sleep(0.05)

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _marker(self) -> str | None:
        resource = DescribeConfigsResource(
            resource_type=TOPIC_CONFIG, resource_name=MARKER, configuration_keys=["retention.ms"]
        )
        configs = self.ask(DescribeConfigsRequest(resources=[resource]), 4).results[0].configs
        value: str | None = configs[0].value if configs else None
        return value

    def _exchange(self, request: object, version: int, client_id: str | None) -> Outcome:
        """Send a request and read its answer; a probe behind it shows when there is none (acks 0)."""
        self._correlation += 2
        key = declared(type(request)).key
        connection = self._connected()
        connection.sendall(encode_request(version, self._correlation, client_id, request))
        is_unanswered = key == 0 and getattr(request, "acks", 1) == 0
        if is_unanswered:
            connection.sendall(encode_request(0, self._correlation + 1, client_id, ApiVersionsRequest()))
        try:
            frame = _read_frame(connection)
        except TimeoutError:
            self.close()
            return Outcome(hung=True)
        if frame is None:
            self.close()
            return Outcome(closed=True)
        (correlation,) = struct.unpack_from(">i", frame)
        if is_unanswered and correlation == self._correlation + 1:
            return Outcome(silent=True)
        assert correlation == self._correlation
        return _read_answer(frame, key, version)

    def _run_raw(self, case: Case) -> Outcome:
        """Send bytes on a connection of their own."""
        assert case.raw is not None
        with socket.create_connection(self._address, TIMEOUT_S) as connection:
            try:
                connection.sendall(case.raw)
                if case.half_close:
                    connection.shutdown(socket.SHUT_WR)
                frame = _read_frame(connection)
            except ConnectionError:
                return Outcome(closed=True)
            except TimeoutError:
                return Outcome(hung=True)
        if frame is None:
            return Outcome(closed=True)
        return _read_answer(frame, *case.reads) if case.reads else Outcome(body=frame)

    def _connected(self) -> socket.socket:
        if self._connection is None:
            self._connection = socket.create_connection(self._address, TIMEOUT_S)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._connection


def _may_create(request: object) -> bool:
    return isinstance(request, MetadataRequest) and bool(request.topics) and request.allow_auto_topic_creation


def _read_answer(frame: bytes, key: int, version: int) -> Outcome:
    api = API[key]
    at = 4
    if api.response_header_version(version) == 1:
        at = skip_tags(frame, at, len(frame))
    message, end = decode_from(api.response(), frame, version, at)
    return Outcome(message=message, body=frame[at:], rest=frame[end:], spoken=(key, version))


def _read_frame(connection: socket.socket) -> bytes | None:
    """The next frame without its size, or None when the node hung up."""
    try:
        head = _read_exactly(connection, 4)
        return None if head is None else _read_exactly(connection, struct.unpack(">i", head)[0])
    except ConnectionError:
        return None


def _read_exactly(connection: socket.socket, length: int) -> bytes | None:
    data = bytearray()
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            return None
        data += part
    return bytes(data)
