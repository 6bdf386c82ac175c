"""A client that builds its batches by hand, and what it can see of the node it attacks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from crash.raw import Raw
from kavka.kernels.batches import BatchInfo
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.builder import recoded
from kavka.wire.compression import compressor

TIME = 1_700_000_000_000
MAX_COUNT = (1 << 31) - 1


def batch(payload: bytes, *, count: int = 1, codec: int = 0, newest: int = TIME) -> bytes:
    """A batch with a right CRC over any payload, which is compressed already, and a header that may lie."""
    info = BatchInfo(last_offset_delta=count - 1, base_timestamp=TIME, count=count)
    return recoded(info, codec, payload, newest)


def packed(codec: int, parts: Iterable[bytes]) -> bytes:
    """Compressed data of parts that need not be in memory together."""
    packer = compressor(codec)
    return b"".join([*(bytes(packer.compress(part)) for part in parts), bytes(packer.flush())])


def record_of_zeros(size: int) -> Iterable[bytes]:
    """One record with a value of so many zeros (a multiple of a MiB), in parts."""
    body = b"\0\0\0\2k" + _varint(size)  # attributes, timestamp and offset deltas, the key, and the value's length
    yield _varint(len(body) + size + 1) + body
    for _ in range(size >> 20):
        yield bytes(1 << 20)
    yield b"\0"  # no headers


def _varint(value: int) -> bytes:
    left = value << 1
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def produce(raw: Raw, topic: str, records: bytes) -> tuple[int, int]:
    """Send a batch to a topic's first partition: error code and offset."""
    data = [PartitionProduceData(index=0, records=records)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    answer = raw.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), 9)
    (row,) = answer.responses[0].partition_responses
    return row.error_code, row.base_offset


def memory_bytes(pid: int) -> tuple[int, int]:
    """The memory that a process has, and the most that it has had."""
    found: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "VmHWM"):
            found[name] = int(value.split()[0]) << 10
    if not found:
        raise AssertionError("the process is gone")
    return found["VmRSS"], found["VmHWM"]


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had so far."""
    return memory_bytes(pid)[1]
