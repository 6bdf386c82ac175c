"""A cluster that the tests play: real requests and answers, no sockets."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kavka.client import Pool
from kavka.model.errors import NetworkException
from kavka.model.types import Uuid
from kavka.protocol.compiler import decode
from kavka.protocol.header import encode_response, parse_request_header
from kavka.protocol.registry import ApiKey, api
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from kavka.protocol.schemas.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from kavka.protocol.schemas.init_producer_id import InitProducerIdResponse
from kavka.protocol.schemas.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kavka.protocol.schemas.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kavka.protocol.schemas.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kavka.records.batch import BatchInfo, record_fields, scan, scan_prefix

OFFERED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
)
TOPIC_ID = Uuid(b"the orders topic")

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that the tests can say `from http_server import ...`


@dataclass
class Appended:
    """A batch as the played cluster accepted it."""

    info: BatchInfo
    values: list[bytes | None]
    base_offset: int


@dataclass
class Partition:
    """A played partition: what it accepted, and what it will answer instead of accepting."""

    leader: int = 0
    epoch: int = 0
    log: list[Appended] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)
    errors: list[int | str] = field(default_factory=list)
    """Answers for the next produces: an error code, or "drop" (hang up unseen), "lose" (accept, then hang up)."""
    fetch_errors: list[int] = field(default_factory=list)
    expected: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return sum(len(each.values) for each in self.log)

    @property
    def values(self) -> list[bytes | None]:
        return [value for each in self.log for value in each.values]


class PlayedCluster:
    """Answers every request at once; keeps idempotent producers to their sequence as a broker does."""

    def __init__(self) -> None:
        self.nodes = [0]
        self.topics: dict[str, dict[int, Partition]] = {"orders": {0: Partition()}}
        self.produces: list[list[tuple[int, int]]] = []
        self.requests: defaultdict[int, int] = defaultdict(int)
        self.down: set[int] = set()
        self.next_producer_id = 1000
        self.max_batch_bytes = 1 << 30
        self.pools: list[Pool] = []
        self.held: list[Callable[[], None]] | None = None

    @property
    def partition(self) -> Partition:
        return self.topics["orders"][0]

    def pool(self, **options: Any) -> Pool:
        return Pool("node0:1", dial=self, retry_backoff_ms=1, retry_backoff_max_ms=5, **options)

    async def dial(self, host: str, port: int, receiver: asyncio.BufferedProtocol) -> Wire:
        node = int(host.removeprefix("node"))
        if node in self.down:
            raise NetworkException(f"cannot connect to {host}:{port}: Connection refused")
        return Wire(self, node, receiver)

    def release(self) -> None:
        """Answer what was held back."""
        held, self.held = self.held or [], None
        for answer in held:
            answer()

    def answer(self, node: int, key: int, version: int, body: memoryview) -> object:
        self.requests[key] += 1
        request = decode(api(key).request(), body, version)
        return getattr(self, f"on_{ApiKey(key).name.lower()}")(node, request)

    def on_api_versions(self, node: int, request: Any) -> object:
        rows = [
            ApiVersion(api_key=key, min_version=api(key).min_version, max_version=api(key).max_version)
            for key in OFFERED
        ]
        return ApiVersionsResponse(error_code=0, api_keys=rows)

    def on_metadata(self, node: int, request: Any) -> object:
        topics = []
        names = self.topics if request.topics is None else [topic.name for topic in request.topics]
        for name in names:
            partitions = self.topics.get(name)
            rows = [
                MetadataResponsePartition(
                    error_code=0, partition_index=index, leader_id=each.leader, replica_nodes=[], isr_nodes=[]
                )
                for index, each in (partitions or {}).items()
            ]
            topics.append(
                MetadataResponseTopic(error_code=0 if partitions else 3, name=name, topic_id=TOPIC_ID, partitions=rows)
            )
        brokers = [MetadataResponseBroker(node_id=node, host=f"node{node}", port=1) for node in self.nodes]
        return MetadataResponse(brokers=brokers, topics=topics, cluster_id="played", controller_id=0)

    def on_init_producer_id(self, node: int, request: Any) -> object:
        self.next_producer_id += 1
        return InitProducerIdResponse(error_code=0, producer_id=self.next_producer_id, producer_epoch=0)

    def on_list_offsets(self, node: int, request: Any) -> object:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                end = self.topics[topic.name][row.partition_index].end
                offset = {-1: end, -2: 0}[row.timestamp]
                rows.append(
                    ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=0, offset=offset)
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return ListOffsetsResponse(topics=topics)

    def on_fetch(self, node: int, request: Any) -> object:
        rows = []
        for row in request.topics[0].partitions:
            partition = self.topics["orders"][row.partition]
            error = partition.fetch_errors.pop(0) if partition.fetch_errors else 0
            if not error and not 0 <= row.fetch_offset <= partition.end:
                error = 1
            if not error and partition.leader != node:
                error = 6
            records, diverging = b"", EpochEndOffset()
            if not error and row.last_fetched_epoch >= 0 and row.last_fetched_epoch != partition.epoch:
                diverging = EpochEndOffset(epoch=partition.epoch, end_offset=0)
            elif not error:
                for info in scan_prefix(bytes(partition.data), check_crc=False)[0]:
                    if info.last_offset >= row.fetch_offset:
                        records = bytes(partition.data[info.position :])
                        break
            rows.append(
                PartitionData(
                    partition_index=row.partition,
                    error_code=error,
                    high_watermark=partition.end,
                    diverging_epoch=diverging,
                    aborted_transactions=None,
                    records=records[: row.partition_max_bytes],
                )
            )
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=rows)])

    def on_produce(self, node: int, request: Any) -> object:
        self.produces.append([(row.index, len(row.records)) for row in request.topic_data[0].partition_data])
        rows = [self._append(node, row.index, bytes(row.records)) for row in request.topic_data[0].partition_data]
        if request.acks == 0:
            return None
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=rows)])

    def _append(self, node: int, index: int, data: bytes) -> PartitionProduceResponse:
        partition = self.topics["orders"][index]
        code = partition.errors.pop(0) if partition.errors else 0
        if code == "drop":
            raise ConnectionError
        (info,) = scan(data)
        if partition.leader != node:
            code = 6
        elif len(data) > self.max_batch_bytes:
            code = 10
        if not code or code == "lose":
            place = self._place(partition, info)
            if place == "next":
                self._write(partition, info, data)
            if code == "lose":
                raise ConnectionError
            code = 45 if place == "gap" else 0
        base = partition.log[-1].base_offset if not code and partition.log else -1
        return PartitionProduceResponse(index=index, error_code=int(code), base_offset=base)

    def _place(self, partition: Partition, info: BatchInfo) -> str:
        """Whether a batch is the next of its producer, known already, or one after a gap."""
        expected = partition.expected.get((info.producer_id, info.producer_epoch), 0)
        if info.producer_id < 0 or info.base_sequence == expected:
            return "next"
        return "known" if info.base_sequence < expected else "gap"

    def _write(self, partition: Partition, info: BatchInfo, data: bytes) -> None:
        base = partition.end
        partition.expected[info.producer_id, info.producer_epoch] = info.base_sequence + info.count
        partition.log.append(Appended(info, [each[3] for each in record_fields(data, info)], base))
        partition.data += base.to_bytes(8, "big") + data[8:12] + partition.epoch.to_bytes(4, "big") + data[16:]


class Wire:
    """One end of a connection to a played node."""

    def __init__(self, cluster: PlayedCluster, node: int, receiver: asyncio.BufferedProtocol) -> None:
        self.cluster = cluster
        self.node = node
        self.receiver = receiver
        self.open = True
        self.behind: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        asyncio.get_running_loop().call_soon(self._handle, bytes(data))

    def abort(self) -> None:
        self.open = False

    def _handle(self, data: bytes) -> None:
        if not self.open:
            return
        if self.node in self.cluster.down:
            self._hang_up()
            return
        header, position = parse_request_header(data, 4)
        try:
            answer = self.cluster.answer(self.node, header.api_key, header.api_version, memoryview(data)[position:])
        except ConnectionError:
            self._hang_up()
            return
        if answer is None:
            return
        pieces = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
        frame = b"".join(bytes(piece) for piece in pieces)  # type: ignore[arg-type]
        if self.cluster.held is not None and header.api_key == ApiKey.PRODUCE:
            self.cluster.held.append(lambda: self._deliver(frame))
        elif header.api_key == ApiKey.FETCH and len(frame) < 150:  # a long poll without data: all else waits behind it
            self.behind.append(frame)
            asyncio.get_running_loop().call_later(0.005, self._go_on)
        elif self.behind:
            self.behind.append(frame)
        else:
            self._deliver(frame)

    def _go_on(self) -> None:
        behind, self.behind = self.behind, []
        for frame in behind:
            self._deliver(frame)

    def _hang_up(self) -> None:
        self.open = False
        self.receiver.connection_lost(None)

    def _deliver(self, data: bytes) -> None:
        while data and self.open:
            buffer = self.receiver.get_buffer(-1)
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            data = data[size:]
            self.receiver.buffer_updated(size)


@pytest.fixture
def played() -> PlayedCluster:
    return PlayedCluster()
