"""`kavka bench`: a quick load test of a running cluster, with a verdict."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from time import monotonic
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, run
from kavka.cli.output import CommandError, Output, print_json, print_rows, write_line
from kavka.client import Admin, Consumer, Pool, Producer

SLOW_MS: Final = 100.0
"""An acknowledgement that takes longer than this at the 99th percentile is called slow."""


def bench(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    seconds: Annotated[float, typer.Option("--seconds", metavar="N", min=0.5, help="How long each part lasts.")] = 5.0,
    size: Annotated[int, typer.Option("--size", metavar="BYTES", min=1, help="The size of a record.")] = 1000,
    partitions: Annotated[int, typer.Option("--partitions", min=1)] = 6,
    replication: Annotated[
        int, typer.Option("--replication", min=-1, show_default="as the cluster has it", help="Replicas.")
    ] = -1,
    codec: Annotated[Literal["none", "gzip", "snappy", "lz4", "zstd"], typer.Option("--codec")] = "none",
    min_rate: Annotated[
        float, typer.Option("--min-rate", metavar="MIB", help="Fail below so many MiB/s produced.")
    ] = 0.0,
    max_latency: Annotated[
        float, typer.Option("--max-latency", metavar="MS", help="Fail above this 99th percentile of acknowledgements.")
    ] = 0.0,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Produce to a topic of its own, read it back, time single acknowledgements, and give a verdict.

    What was read is compared with what was acknowledged. The topic is deleted at the end. One client on one core: a
    cluster can do more than one client asks of it. The exit code is 1 if records are missing, or a limit is not kept.

    Example: `kavka bench --bootstrap broker1:9092 --seconds 10 --min-rate 50 --max-latency 20`
    """
    plan = {"topic": f"kavka-bench-{uuid4().hex[:8]}", "partitions": partitions, "replication_factor": replication}
    found = run(_bench(bootstrap, plan, seconds, os.urandom(size), codec, int(timeout * 1000)))
    reasons = verdict(found, min_rate, max_latency)
    if output is Output.JSON:
        print_json({**found, "ok": not reasons, "reasons": reasons})
    else:
        show(found, reasons)
    if reasons:
        raise typer.Exit(1)


async def _bench(
    bootstrap: str, plan: dict[str, Any], seconds: float, value: bytes, codec: str, timeout_ms: int
) -> dict[str, Any]:
    topic = plan["topic"]
    async with Pool(bootstrap, timeout_ms=timeout_ms) as pool, Admin(pool) as admin:
        created = await admin.create_topic(
            topic, partitions=plan["partitions"], replication_factor=plan["replication_factor"]
        )
        try:
            produced, produce_seconds = await _produce(pool, topic, seconds, value, codec)
            consumed, consume_seconds = await _consume(pool, topic)
            waits = await _acknowledge(pool, topic, min(seconds, 3.0), value)
        finally:
            await admin.delete_topic(topic)
    mib = len(value) / 2**20
    return {
        "size": len(value),
        "partitions": plan["partitions"],
        "replicas": created.replication_factor,
        "produced": produced,
        "produce_records_per_second": produced / produce_seconds,
        "produce_mib_per_second": produced * mib / produce_seconds,
        "consumed": consumed,
        "consume_records_per_second": consumed / consume_seconds,
        "consume_mib_per_second": consumed * mib / consume_seconds,
        "ack_p50_ms": percentile(waits, 0.5),
        "ack_p99_ms": percentile(waits, 0.99),
        "ack_max_ms": waits[-1],
    }


async def _produce(pool: Pool, topic: str, seconds: float, value: bytes, codec: Any) -> tuple[int, float]:
    """Send for so long; how many records were acknowledged, and in which time."""
    began, count = monotonic(), 0
    async with Producer(pool, codec=codec) as producer:
        while monotonic() - began < seconds:
            for _ in range(100):
                await producer.send(topic, value)
            count += 100
        await producer.flush()  # raises what was not acknowledged
    return count, monotonic() - began


async def _consume(pool: Pool, topic: str) -> tuple[int, float]:
    began, count = monotonic(), 0
    async with Consumer(pool) as consumer:
        await consumer.assign(topic)
        async for _ in consumer.until_end():
            count += 1
    return count, monotonic() - began


async def _acknowledge(pool: Pool, topic: str, seconds: float, value: bytes) -> list[float]:
    """Milliseconds that single records take, one after the other; sorted."""
    waits: list[float] = []
    async with Producer(pool, linger_ms=0) as producer:
        await producer.send_and_wait(topic, value)
        ends = monotonic() + seconds
        while monotonic() < ends:
            began = monotonic()
            await producer.send_and_wait(topic, value)
            waits.append((monotonic() - began) * 1000)
            await asyncio.sleep(0)
    if not waits:
        raise CommandError("not one record was acknowledged in time")
    return sorted(waits)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The number that this share of the numbers does not exceed."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def verdict(found: dict[str, Any], min_rate: float, max_latency: float) -> list[str]:
    """What is wrong; nothing if all is well."""
    reasons = []
    if found["consumed"] != found["produced"]:
        reasons.append(f"{found['produced']} records were acknowledged, {found['consumed']} read back")
    if min_rate and found["produce_mib_per_second"] < min_rate:
        reasons.append(f"produced {found['produce_mib_per_second']:.1f} MiB/s, not {min_rate:g}")
    if max_latency and found["ack_p99_ms"] > max_latency:
        reasons.append(
            f"acknowledgements take {found['ack_p99_ms']:.1f} ms at the 99th percentile, not {max_latency:g}"
        )
    return reasons


def show(found: dict[str, Any], reasons: Sequence[str]) -> None:
    """Print figures and verdict for a person."""
    rows = [
        {
            "what": what,
            "records": f"{found[what + 'd']:,}",
            "records/s": f"{found[what + '_records_per_second']:,.0f}",
            "MiB/s": f"{found[what + '_mib_per_second']:.1f}",
        }
        for what in ("produce", "consume")
    ]
    print_rows(Output.TABLE, ["what", "records", "records/s", "MiB/s"], rows)
    times = f"p50 {found['ack_p50_ms']:.2f} ms, p99 {found['ack_p99_ms']:.2f} ms, longest {found['ack_max_ms']:.2f} ms"
    write_line(f"acknowledged one by one: {times}")
    if reasons:
        write_line(f"verdict: {'; '.join(reasons)}")
    elif found["ack_p99_ms"] > SLOW_MS:
        write_line("verdict: all records came back; acknowledgements are slow: look at disks, network and CPU")
    else:
        write_line("verdict: good, all records came back")
