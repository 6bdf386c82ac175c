"""Tiered storage in a minute: a node copies to a store, loses its whole disk, is made anew out of the store, and reads.

Run it with `make demo-tiered`; `make demo-tiered S3=1` keeps the segments in a local S3 server (moto) instead of a
directory.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kavka.client import Admin, Consumer, Pool, Producer
from kavka.client.offsets import list_offsets
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.testing import Cluster

TOPIC = TopicPartition("orders", 0)
LATEST, LATEST_TIERED, EARLIEST_LOCAL = -1, -5, -4
RECORDS, SIZE = 20_000, 400
SEGMENT_BYTES = 1 << 20
PATIENCE = 120.0
CONFIGS = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": str(SEGMENT_BYTES),
    "retention.ms": "-1",
}


def say(text: str) -> None:
    """Tell how far we are."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def value_of(number: int) -> bytes:
    """A record that says which it is."""
    return (b"%08d " % number) * (SIZE // 9)


async def offset(pool: Pool, which: int) -> int:
    """A special offset; -1 while it is not known."""
    try:
        return (await list_offsets(pool, {TOPIC: which}))[TOPIC].offset
    except KafkaError as error:
        if not error.retriable:
            raise
        return -1


async def fill(bootstrap: str) -> int:
    """Produce, and wait until the disk has let go of all but the last segments; how many records the store has."""
    async with Pool(bootstrap) as pool:
        await Admin(pool).create_topic(TOPIC.topic, partitions=1, replication_factor=1, configs=CONFIGS)
        async with Producer(pool, linger_ms=20, batch_bytes=65_536) as producer:
            for number in range(RECORDS):
                await producer.send(TOPIC.topic, value_of(number), partition=0)
        say(f"produced {RECORDS:,} records of {len(value_of(0))} bytes")
        deadline = time.monotonic() + PATIENCE
        while True:
            tiered, local = await offset(pool, LATEST_TIERED), await offset(pool, EARLIEST_LOCAL)
            if tiered > RECORDS * 0.8 and local > RECORDS * 0.6:
                break
            if time.monotonic() > deadline:
                raise SystemExit(f"after {PATIENCE:.0f} s the store has records up to {tiered} only")
            await asyncio.sleep(0.2)
        say(f"in the store: records 0 to {tiered}; on the disk: from {local} on")
        return tiered + 1


async def read_back(bootstrap: str, count: int) -> int:
    """Read everything from the beginning; the checksum of what came."""
    async with Pool(bootstrap) as pool, asyncio.timeout(PATIENCE), Consumer(pool) as consumer:
        await consumer.assign(TOPIC, start=0)
        found = checksum = 0
        async for record in consumer:
            if record.offset != found:
                raise SystemExit(f"expected offset {found}, got {record.offset}")
            checksum = zlib.crc32(record.value or b"", checksum)
            found += 1
            if found == count:
                return checksum
    raise AssertionError("unreachable")


@contextmanager
def s3() -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """A bucket of moto's S3 server on loopback: URL, options, and the environment with its credentials."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # or every request would be told
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/kavka-demo", method="PUT")).close()
        secret = {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "demo"}
        yield "s3://kavka-demo/tiers", {"endpoint": endpoint, "region": "us-east-1"}, secret
    finally:
        server.stop()


@contextmanager
def directory(root: Path) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """A directory as a store."""
    yield f"file://{root}/store", {}, {}


def play(root: Path, url: str, options: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """The whole story."""
    data = root / "data"
    config = {
        "remote.log.storage.system.enable": "true",
        "kavka.remote.storage.url": url,
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    }
    if options:
        config["kavka.remote.storage.options"] = ",".join(f"{name}={value}" for name, value in options.items())
    say(f"a node that tiers to {url}")
    with Cluster(config=config, data_dir=data, env=environment) as node:
        stored = asyncio.run(fill(node.bootstrap))
        before = asyncio.run(read_back(node.bootstrap, stored))
        say(f"read {stored:,} records, most of them out of the store")
    shutil.rmtree(data)
    say("the node has lost its whole disk; it is made anew out of the store")
    command = [sys.executable, "-m", "kavka", "tiers", "rehydrate", "--url", url, "--data-dir", str(data)]
    for name, value in options.items():
        command += ["--option", f"{name}={value}"]
    subprocess.run(command, check=True, env={**os.environ, **environment})
    with Cluster(config=config, data_dir=data, env=environment) as node:
        after = asyncio.run(read_back(node.bootstrap, stored))
    if before != after:
        raise SystemExit("what was read is not what was written")
    say(f"all {stored:,} records are back, byte for byte")


def main() -> None:
    """Play it in a directory that goes afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--s3", action="store_true", help="keep segments in a local S3 server")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kavka-tiered-") as folder,
        s3() if arguments.s3 else directory(Path(folder)) as (url, options, environment),
    ):
        play(Path(folder), url, options, environment)


if __name__ == "__main__":
    main()
