"""Requests with any values at all, to every API: each is answered or hung up on, and none is a fault of ours."""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from crash.raw import Raw
from kavka.broker.handlers import HANDLERS, HOT
from kavka.model.errors import UnsupportedVersion
from kavka.model.types import Uuid
from kavka.protocol.header import encode_request
from kavka.protocol.registry import API, Api
from kavka.protocol.schema import Array, Scalar, Struct, WireType, build_default, fields_of
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.protocol.schemas.metadata import MetadataRequest
from kavka.records.builder import BatchBuilder
from kavka.testing import Cluster

REQUESTS = 1500
PATIENCE_S = 1.0
"""Some wait as long as they say, or are not answered at all: acks=0, a long poll, a group that rebalances."""
HANGS_S = 60.0
NOT_ASKED = {"delete_topics"}  # the others shall have topics to work on
WORDS = ("orders", "events", "__consumer_offsets", "nope", "bad name", "", "x" * 300, "1")
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
APIS = [api for api in API.values() if api.stem in {*HANDLERS, *HOT} - NOT_ASKED]


class Anything:
    """Makes requests: mostly small and likely values, sometimes extreme ones."""

    def __init__(self, rng: random.Random, topic_ids: list[Uuid]) -> None:
        self._rng = rng
        self._ids = topic_ids
        self._version = 0

    def request(self, api: Api) -> bytes:
        """A whole frame; raises UnsupportedVersion if the version cannot carry what was drawn."""
        self._version = self._rng.randint(api.min_version, api.latest_stable_version)
        frame = bytearray(encode_request(self._version, 1, "test", self._struct(api.request())))
        if self._rng.random() < 0.1:
            frame[self._rng.randrange(4, len(frame))] ^= 1 << self._rng.randrange(8)
        return bytes(frame)

    def _struct(self, cls: type) -> Any:
        made: Any = build_default(cls)
        for field in fields_of(cls):
            if self._version in field.versions and self._rng.random() < 0.9:
                null = self._version in field.nullable and self._rng.random() < 0.2
                setattr(made, field.name, None if null else self._value(field.type))
        return made

    def _value(self, kind: WireType) -> Any:
        match kind:
            case Struct(cls):
                return self._struct(cls)
            case Array(element):
                return [self._value(element) for _ in range(self._rng.choice((0, 1, 1, 2, 3)))]
            case Scalar():
                return self._scalar(kind)
        if kind.name == "records":
            return self._batch()
        return self._rng.choice(WORDS) if kind.name == "string" else self._rng.randbytes(self._rng.randrange(20))

    def _scalar(self, kind: Scalar) -> Any:
        if kind.name == "bool":
            return self._rng.random() < 0.5
        if kind.name == "uuid":
            return self._rng.choice([*self._ids, Uuid.ZERO, Uuid(self._rng.randbytes(16))])
        if kind.name == "float64":
            return self._rng.uniform(-1e9, 1e9)
        bits = INTEGER_BITS[kind.name]
        low, high = (0, 2**bits - 1) if kind.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        likely = self._rng.choice((0, 0, 1, 1, 2, 3, -1, -2, -3, 100, low, high, self._rng.randint(low, high)))
        return min(max(likely, low), high)

    def _batch(self) -> bytes:
        idempotent = {"producer_id": 5, "producer_epoch": 0, "base_sequence": self._rng.randrange(3)}
        builder = BatchBuilder(**(idempotent if self._rng.random() < 0.3 else {}))
        for _ in range(self._rng.randrange(1, 4)):
            builder.append(self._rng.choice((None, b"k")), self._rng.choice((None, b"v" * 50)), 1_700_000_000_000)
        data = bytearray(builder.build())
        if self._rng.random() < 0.2:
            data[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)
        return bytes(data[: self._rng.randrange(len(data))] if self._rng.random() < 0.1 else data)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def create(cluster: Cluster) -> list[Uuid]:
    """Two topics; their ids."""
    raw = Raw(cluster.bootstrap)
    topics = [
        CreatableTopic(name=name, num_partitions=3, replication_factor=1, assignments=[], configs=[])
        for name in WORDS[:2]
    ]
    raw.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
    found = raw.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12).topics
    raw.close()
    return [topic.topic_id for topic in found]


def test_whatever_is_asked_the_node_serves_on(cluster: Cluster) -> None:
    seed = int(os.environ.get("KAVKA_SEED") or int.from_bytes(os.urandom(4)))
    sys.stdout.write(f"KAVKA_SEED={seed}\n")
    rng = random.Random(seed)
    anything = Anything(rng, create(cluster))
    host, _, port = cluster.bootstrap.rpartition(":")
    answered = 0
    client: socket.socket | None = None
    for _ in range(REQUESTS):
        try:
            frame = anything.request(rng.choice(APIS))
        except UnsupportedVersion:
            continue
        client = client or socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        try:
            client.sendall(frame)
            (size,) = struct.unpack(">i", receive(client, 4))
            receive(client, size)
            answered += 1
        except (TimeoutError, ConnectionError):
            client.close()
            client = None
    if client is not None:
        client.close()
    assert answered > REQUESTS / 2
    assert "Traceback" not in cluster.log
    assert cluster.stop() == 0


def test_requests_with_nothing_in_them_are_answered_or_hung_up_on(cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap.rpartition(":")
    for api in APIS:
        request: Any = build_default(api.request())
        for field in fields_of(api.request()):
            if isinstance(field.type, Array):
                setattr(request, field.name, [])
            elif field.name == "acks":
                request.acks = 1  # else there is no answer
        frame = encode_request(api.latest_stable_version, 1, "test", request)
        with socket.create_connection((host, int(port)), timeout=HANGS_S) as client:
            client.sendall(frame)
            try:
                (size,) = struct.unpack(">i", receive(client, 4))
                receive(client, size)
            except ConnectionError:
                continue
            except TimeoutError:
                pytest.fail(f"{api.name} with nothing in it is not answered")
    assert "Traceback" not in cluster.log


def receive(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = client.recv(size - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data
