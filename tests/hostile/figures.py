"""The attacks that once stopped a node, and what they do to it now: `python tests/hostile/figures.py`.

A table of the longest callback of the loop in CPU time, of how long the attack took, and of the memory that it took.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from crash.raw import Raw
from hostile.attacker import TIME, batch, memory_bytes, packed, produce, record_of_zeros
from hostile.blow_up import BlowUp
from hostile.test_empty_gzip_members import DATA as EMPTY_MEMBERS
from hostile.watched import LONG_MS
from kavka.kernels.batches import encode_record
from kavka.model.types import Uuid
from kavka.protocol.header import encode_request
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kavka.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.testing import Cluster

MIB = 1 << 20
PATIENCE_S = 60.0
TOPIC, COMPACTED = "orders", "keys"


class Attack(NamedTuple):
    """What is done, and what it did before anything was done about it."""

    name: str
    before: str
    run: Callable[[Cluster], None]


def sent(frame: bytes, times: int = 1) -> Callable[[Cluster], None]:
    """Send a frame, and read the answer or the hang-up; from several connections at once."""

    def run(cluster: Cluster) -> None:
        host, _, port = cluster.bootstrap.rpartition(":")
        clients = [socket.create_connection((host, int(port)), timeout=PATIENCE_S) for _ in range(times)]
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.sendall(frame)
        for client in clients:
            with contextlib.suppress(ConnectionError), client:
                head = client.recv(4, socket.MSG_WAITALL)
                left = struct.unpack(">i", head)[0] if len(head) == 4 else 0
                while left > 0 and (part := client.recv(min(left, MIB))):
                    left -= len(part)

    return run


def produced(topic: str, records: bytes) -> Callable[[Cluster], None]:
    """Produce a batch."""

    def run(cluster: Cluster) -> None:
        raw = Raw(cluster.bootstrap)
        produce(raw, topic, records)
        raw.close()

    return run


def looked_up(cluster: Cluster) -> None:
    """Look for a time in a topic of batches that decompress to much."""
    raw = Raw(cluster.bootstrap)
    data = batch(packed(4, record_of_zeros(15 * MIB)), codec=4)
    for _ in range(6):
        produce(raw, TOPIC, data)
    asked = ListOffsetsPartition(partition_index=0, timestamp=TIME)
    raw.call(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])]), 7)
    raw.close()


def unfinished(cluster: Cluster) -> None:
    """Begin a frame of 20 MiB on each of sixty connections, and end none."""
    host, _, port = cluster.bootstrap.rpartition(":")
    frame = struct.pack(">ih", 20 * MIB, 0) + bytes(20 * MIB - 10)
    clients = []
    for _ in range(60):
        client = socket.create_connection((host, int(port)), timeout=0.2)
        with contextlib.suppress(OSError):
            client.sendall(frame)
        clients.append(client)
    for client in clients:
        client.close()


def tags(size: int) -> bytes:
    """ApiVersions with nothing but unknown tagged fields."""
    api = API[ApiKey.API_VERSIONS]
    *_, blown = BlowUp(api, 3, size, Uuid.ZERO).requests()
    return blown.frame


def attacks() -> list[Attack]:
    """All of them."""
    same = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    copies = CreateTopicsRequest(topics=[same] * 300_000, timeout_ms=1000)
    named = [MetadataRequestTopic(name="t")] * 1_500_000
    asked = MetadataRequest(topics=named, allow_auto_topic_creation=False)
    resource = DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=None)
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")
        for index in range(60_000)
    ]
    commit = OffsetCommitRequest(
        group_id="g", member_id="", topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=rows)]
    )
    tiny = packed(4, [encode_record(0, 0, b"", None) * 10_000] * 1_000)
    all_topics = encode_request(9, 1, "hostile", MetadataRequest(topics=None)) * 100
    return [
        Attack("six zstd batches, and a time looked up in them", "18.5 s", looked_up),
        Attack(
            "10 million records in 16 KB, compacted topic",
            "over 60 s, 4.4 GB",
            produced(COMPACTED, batch(tiny, count=10_000_000, codec=4)),
        ),
        Attack("47,500 empty gzip members", "1.5 s", produced(TOPIC, batch(EMPTY_MEMBERS, codec=1))),
        Attack(
            "a value of 255 MB in 8 KB",
            "0.4 s, 510 MB",
            produced(TOPIC, batch(packed(4, record_of_zeros(255 * MIB)), codec=4)),
        ),
        Attack(
            "DescribeConfigs, one topic 20,000 times",
            "10.4 s, 1.26 GB",
            sent(encode_request(4, 1, "hostile", DescribeConfigsRequest(resources=[resource] * 20_000))),
        ),
        Attack("20 MB of unknown tags in ApiVersions", "6.9 s", sent(tags(20 * MIB))),
        Attack("CreateTopics, a topic 300,000 times", "4.8 s (1.5 million)", sent(encode_request(5, 1, "h", copies))),
        Attack("Metadata, a name 1.5 million times", "4.9 s (2 million)", sent(encode_request(9, 1, "h", asked))),
        Attack("OffsetCommit of 60,000 partitions", "1.8 s (100,000)", sent(encode_request(8, 1, "h", commit))),
        Attack("Metadata of all topics, 100 times on 100 connections", "1 s", sent(all_topics, times=100)),
        Attack("60 connections with 20 MB of a frame each", "2.4 GB", unfinished),
    ]


def main() -> None:
    """Attack a node, one attack after the other."""
    watched = Path(tempfile.mkdtemp()) / "watched"
    watched.touch()
    program = [sys.executable, str(Path(__file__).with_name("watched.py"))]
    prepared = attacks()
    with Cluster(program=program, env={"KAVKA_WATCHED": str(watched)}) as cluster, watched.open() as lines:
        raw = Raw(cluster.bootstrap)
        compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
        large = [CreatableTopicConfig(name="max.message.bytes", value=str(4 * MIB))]
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=configs)
            for name, configs in ((TOPIC, large), (COMPACTED, compacted))
        ]
        raw.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        sys.stdout.write("| attack | before | longest callback | took | memory |\n|---|---|---|---|---|\n")
        for attack in prepared:
            time.sleep(1.0)  # what the last one left is being put away
            lines.read()
            Path(f"/proc/{cluster.pid}/clear_refs").write_text("5")
            resident, _ = memory_bytes(cluster.pid)
            began = time.monotonic()
            attack.run(cluster)
            took = time.monotonic() - began
            raw.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), 9)
            _, peak = memory_bytes(cluster.pid)
            held = max((float(line.split(" ", 1)[0]) for line in lines.read().splitlines()), default=0.0)
            longest = f"{held:.0f} ms" if held else f"under {LONG_MS:.0f} ms"
            grown = max((peak - resident) >> 20, 0)
            sys.stdout.write(f"| {attack.name} | {attack.before} | {longest} | {took:.1f} s | {grown} MiB |\n")
        raw.close()


if __name__ == "__main__":
    main()
