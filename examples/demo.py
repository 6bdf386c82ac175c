"""The whole way in half a minute: start a node, create a topic, produce, consume, check every byte, clean up.

Run it with `make demo-node`, or `python examples/demo.py --records 1000000`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kavka.cli.lines import generate
from kavka.client import Admin, Codec, Consumer, Pool, Producer
from kavka.kernels import COMPILED
from kavka.model.errors import KafkaError
from kavka.testing import Cluster, NodeError

TOPIC = "demo"
STEP = 1000


@dataclass
class Tally:
    """What went one way: how many records, how many bytes, and a checksum that does not depend on their order."""

    records: int = 0
    volume: int = 0
    checksum: int = 0
    seconds: float = 0.0

    def add(self, value: bytes) -> None:
        """Count a record."""
        self.records += 1
        self.volume += len(value)
        self.checksum = (self.checksum + zlib.crc32(value)) & 0xFFFFFFFFFFFFFFFF

    def rate(self) -> str:
        """Records and megabytes per second."""
        return f"{self.records / self.seconds:,.0f}/s, {self.volume / self.seconds / 1e6:,.1f} MB/s"


async def produce(pool: Pool, count: int, size: int, codec: Codec, advance: Callable[[int], None]) -> Tally:
    """Send random records, compressed, and wait until all are acknowledged."""
    sent = Tally()
    began = time.perf_counter()
    async with Producer(pool, codec=codec, linger_ms=20, batch_bytes=131_072) as producer:
        for record in generate(count, size):
            assert record.value is not None
            await producer.send(TOPIC, record.value)
            sent.add(record.value)
            if not sent.records % STEP:
                advance(STEP)
    advance(count % STEP)
    sent.seconds = time.perf_counter() - began
    return sent


async def consume(pool: Pool, advance: Callable[[int], None]) -> Tally:
    """Read everything back and check that no offset is missing or comes twice."""
    read = Tally()
    began = time.perf_counter()
    async with Consumer(pool) as consumer:
        await consumer.assign(TOPIC)
        ends = await consumer.end_offsets()
        expected = dict.fromkeys(ends, 0)
        while records := await consumer.read(ends=ends):
            topic_partition = next(tp for tp in ends if tp == records[0][:2])
            for record in records:
                if record.offset != expected[topic_partition]:
                    raise KafkaError(f"{topic_partition}: offset {record.offset} is not {expected[topic_partition]}")
                expected[topic_partition] += 1
                read.add(record.value or b"")
            advance(len(records))
    read.seconds = time.perf_counter() - began
    return read


async def run(cluster: Cluster, options: argparse.Namespace, bar: Progress) -> tuple[Tally, Tally]:
    """The demo proper."""
    async with Pool(cluster.bootstrap) as pool:
        await Admin(pool).create_topic(TOPIC, partitions=options.partitions)
        writing = bar.add_task("producing", total=options.records)
        sent = await produce(pool, options.records, options.size, options.codec, _mover(bar, writing))
        reading = bar.add_task("consuming", total=options.records)
        read = await consume(pool, _mover(bar, reading))
    return sent, read


def _mover(bar: Progress, task: Any) -> Callable[[int], None]:
    return lambda steps: bar.update(task, advance=steps)


def resident_mb(pid: int) -> str:
    """The memory of a process, where the system tells it."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return "-"
    return f"{pages * os.sysconf('SC_PAGE_SIZE') / 1e6:,.0f} MB"


def main() -> int:
    """Run the demo; 0 if every record came back as it was sent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=200, help="bytes per record")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--codec", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="lz4")
    options = parser.parse_args()
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Cluster() as cluster:
            console.print(
                f"A node serves {cluster.bootstrap} (kernels {'compiled' if COMPILED else 'in plain Python'})"
            )
            idle = resident_mb(cluster.pid)
            with Progress(*columns, console=console) as bar:
                sent, read = uvloop.run(run(cluster, options, bar))
            loaded = resident_mb(cluster.pid)
            started = cluster.started_in_seconds
            stopped = cluster.stop()
    except (KafkaError, NodeError, OSError) as error:
        console.print(f"[red]The demo failed:[/red] {error}")
        return 1
    whole = (sent.records, sent.checksum) == (read.records, read.checksum)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("records", f"{read.records:,} of {options.size} bytes, {read.volume / 1e6:,.1f} MB, {options.codec}")
    table.add_row("produced", sent.rate())
    table.add_row("consumed", read.rate())
    table.add_row("start-up", f"{started * 1000:,.0f} ms")
    table.add_row("node's memory", f"{idle} idle, {loaded} after the load")
    table.add_row("counts and checksums", "[green]equal[/green]" if whole else "[red]NOT equal[/red]")
    console.print(table)
    return 0 if whole and stopped == 0 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(130)
