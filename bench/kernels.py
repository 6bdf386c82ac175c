"""What do the kernels cost, compiled and plain? `python -m bench.kernels [--json FILE]`: nanoseconds of CPU per call.

The figures are minima of many short runs in process time, so that a busy machine disturbs them little; the ratio of
the two columns says more than either of them.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kavka.kernels import COMPILED, plain_batches, plain_frames, plain_responses
from kavka.model.types import FileSlice, Uuid
from kavka.protocol.compiler import encode
from kavka.protocol.schemas import fetch, produce
from kavka.records.batch import Record
from kavka.records.builder import build_batch

TOPIC_ID = Uuid(bytes(range(16)))
HEADER = b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x07rdkafka\x00"
RUNS = 60
RUN_SECONDS = 0.004

Call = Callable[[], Any]


def batch(count: int, value: int) -> bytes:
    """An idempotent producer's batch."""
    records = [Record(i, 1_700_000_000_000 + i, b"key", bytes(value)) for i in range(count)]
    return build_batch(records, producer_id=1, producer_epoch=0, base_sequence=0)


TINY = batch(1, 100)
MIDDLE = batch(120, 110)


def produce_request(version: int) -> memoryview:
    """One tiny batch for one partition."""
    partition = produce.PartitionProduceData(index=3, records=TINY)
    topic = produce.TopicProduceData(name="bench-topic", topic_id=TOPIC_ID, partition_data=[partition])
    request = produce.ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[topic])
    return memoryview(bytearray(encode(request, version)))


def fetch_request(version: int, partitions: int) -> memoryview:
    """A full fetch of some partitions."""
    rows = [fetch.FetchPartition(partition=i, fetch_offset=i, partition_max_bytes=1 << 20) for i in range(partitions)]
    request = fetch.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=[fetch.FetchTopic(topic="bench-topic", topic_id=TOPIC_ID, partitions=rows)],
        forgotten_topics_data=[],
    )
    return memoryview(bytearray(encode(request, version)))


class File:
    """A file that nobody reads."""

    def fileno(self) -> int:
        """No descriptor."""
        return -1

    def read_at(self, position: int, length: int) -> bytes:
        """No bytes."""
        return b""

    def pin(self) -> None:
        """Nothing to keep."""

    def unpin(self) -> None:
        """Nothing to let go."""


def calls(batches: Any, frames: Any, responses: Any) -> dict[str, Call]:
    """What is measured, with one of the twins."""
    v10, v13, wide = produce_request(10), produce_request(13), fetch_request(16, 6)
    header = memoryview(bytearray(HEADER))
    stream = memoryview(bytearray((len(HEADER).to_bytes(4, "big") + HEADER) * 100))
    tiny, middle = memoryview(bytearray(TINY)), memoryview(bytearray(MIDDLE))
    info, many = batches.scan(tiny)[0], batches.scan(middle)[0]
    rows = [(TOPIC_ID, [(i, 0, 9, 9, 0, None, -1, FileSlice(File(), 0, 1 << 20)) for i in range(6)])]

    def request(body: memoryview, version: int) -> Any:
        frames.parse_header(header, 0, len(header))
        _, _, _, topics = frames.parse_produce(body, 0, len(body), version)
        answer = []
        for topic, partitions in topics:
            out = []
            for index, data in partitions:
                batches.accept(data)
                out.append((index, 0, 1000, -1, 0))
            answer.append((topic, out))
        return responses.encode_produce_response(version, 1, answer)

    return {
        "tiny produce v10: header, parse, accept, respond": lambda: request(v10, 10),
        "tiny produce v13: header, parse, accept, respond": lambda: request(v13, 13),
        "split, 100 frames": lambda: frames.split(stream, 0, len(stream), 1 << 20),
        "parse_header": lambda: frames.parse_header(header, 0, len(header)),
        "parse_produce v10": lambda: frames.parse_produce(v10, 0, len(v10), 10),
        "parse_produce v13": lambda: frames.parse_produce(v13, 0, len(v13), 13),
        "encode_produce_response v10": lambda: responses.encode_produce_response(10, 1, [("t", [(3, 0, 1000, -1, 0)])]),
        "parse_fetch v16, 6 partitions": lambda: frames.parse_fetch(wide, 0, len(wide), 16),
        "encode_fetch_response v16, 6 files": lambda: responses.encode_fetch_response(16, 1, 0, 0, 7, rows),
        f"scan, {len(TINY)} bytes": lambda: batches.scan(tiny),
        f"accept, {len(TINY)} bytes": lambda: batches.accept(tiny),
        f"accept, {len(MIDDLE)} bytes": lambda: batches.accept(middle),
        "patched_prefix": lambda: batches.patched_prefix(tiny, info, 1 << 40, 5),
        "read_records, 120 records": lambda: batches.read_records(middle, many, 61),
        "encode_record, 110 bytes": lambda: batches.encode_record(5, 17, b"key", TINY, ()),
    }


def nanoseconds(call: Call) -> float:
    """CPU time of one call."""
    number = 1
    while (elapsed := run(call, number)) < RUN_SECONDS:
        number = max(number * 2, int(number * RUN_SECONDS / max(elapsed, 1e-6)))
    return min(run(call, number) for _ in range(RUNS)) / number * 1e9


def run(call: Call, number: int) -> float:
    """CPU seconds of a number of calls."""
    start = time.process_time()
    for _ in range(number):
        call()
    return time.process_time() - start


def main() -> None:
    """Measure, print the table, and keep the figures if a file was named."""
    table = Table(title="kernels: ns of CPU per call")
    for column in ("", "plain", "compiled", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    figures: dict[str, dict[str, float]] = {}
    plain = {name: nanoseconds(call) for name, call in calls(plain_batches, plain_frames, plain_responses).items()}
    compiled: dict[str, float] = {}
    if COMPILED:
        from kavka.kernels import _batches, _frames, _responses

        compiled = {name: nanoseconds(call) for name, call in calls(_batches, _frames, _responses).items()}
    for name, cost in plain.items():
        figures[name] = {"plain": cost}
        if name in compiled:
            figures[name]["compiled"] = compiled[name]
        ours = compiled.get(name)
        table.add_row(name, f"{cost:,.0f}", f"{ours:,.0f}" if ours else "-", f"{cost / ours:.1f}x" if ours else "-")
    Console().print(table)
    if "--json" in sys.argv:
        report = {"python": platform.python_version(), "machine": platform.machine(), "ns": figures}
        Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
