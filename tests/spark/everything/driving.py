"""The pipeline of a round, as a user runs it, and what can happen to its processes."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

START_S: Final = 240
DDL: Final = "id BIGINT NOT NULL, name STRING, amount DOUBLE"
EVENTS: Final = "events"
PRICES: Final = "prices"
COPY: Final = "copy"
FUNCTIONS: Final = """
def kept(events):
    return events.selectExpr(
        "_partition AS part", "_offset AS place", "string(_key) AS who", "* EXCEPT (_key, _topic, _partition, "
        "_offset, _timestamp)", "id % 3 AS third"
    )


def named(prices):
    return prices.selectExpr("string(_key) AS sku", "price", "number", "_offset", "_deleted")
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a round is like; drawn once from its seed."""

    nodes: int
    partitions: int
    tiered: bool
    direct: bool
    """Whether Spark is told where the remote segments are."""
    avro: bool
    committed: bool
    """Whether the tables of events are to have committed records only."""
    starts: dict[str, str]
    partitioned: bool
    upserted: str
    per_trigger: int
    master: str

    @classmethod
    def drawn(cls, draw: random.Random) -> Shape:
        """A shape by chance."""
        nodes = draw.choice((1, 1, 3))
        tiered = draw.random() < 0.6
        return cls(
            nodes=nodes,
            partitions=draw.randrange(1, 4),
            tiered=tiered,
            direct=tiered and draw.random() < 0.6,
            avro=nodes == 1 and draw.random() < 0.4,
            committed=draw.random() < 0.7,
            starts={flow: draw.choice(("earliest", "latest")) for flow in ("delta", "iceberg")},
            partitioned=draw.random() < 0.4,
            upserted=draw.choice(("delta", "iceberg")),
            per_trigger=draw.choice((150, 400, 1000)),
            master=draw.choice(("local[2]", "local[2,4]", "local[2,4]", "local-cluster[1,2,1024]")),
        )


class Project:
    """A pipeline with four flows: events into Delta, Iceberg and a topic, prices into a table by key."""

    def __init__(self, folder: Path, shape: Shape, bootstrap: str, registry: str | None, store: str) -> None:
        self.folder = folder
        self.shape = shape
        self._bootstrap = bootstrap
        self._registry = registry
        self._store = store
        self._logs: dict[int, Path] = {}
        """What each process printed, by its number."""
        folder.mkdir()
        (folder / "functions.py").write_text(FUNCTIONS)

    def describe(self, *, extra: bool) -> None:
        """Write the spec, with the new column or without."""
        document = {
            "bootstrap": self._bootstrap,
            "trigger": "200 milliseconds",
            "spark": {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"},
            "flows": [
                self._events("delta", {"table": self._table("delta")}, extra),
                self._events("iceberg", {"table": self._table("iceberg")}, extra),
                self._events("topic", {"topic": COPY, "options": {"delivery": "exactly-once"}}, extra),
                {
                    "name": "upserted",
                    "source": self._source(PRICES, "price DOUBLE, number BIGINT", committed=True),
                    "transform": "functions:named",
                    "sink": {"table": {**self._table(self.shape.upserted, "upserted"), "upsert": {"key": ["sku"]}}},
                },
            ],
        }
        if self._registry is not None:
            document["registry"] = self._registry
        (self.folder / "pipeline.yaml").write_text(yaml.safe_dump(document))

    def _events(self, name: str, sink: dict[str, Any], extra: bool) -> dict[str, Any]:
        source = self._source(EVENTS, DDL + (", extra STRING" if extra else ""), committed=self.shape.committed)
        source["dead_letters"] = f"dead-{name}"
        source["start"] = self.shape.starts.get(name, "earliest")
        if self.shape.avro:
            source["format"] = "avro"
            del source["schema"]
        if sink.get("table") and self.shape.partitioned:
            sink["table"]["partition_by"] = ["third"]
        return {"name": name, "source": source, "transform": "functions:kept", "sink": sink}

    def _source(self, topic: str, ddl: str, *, committed: bool) -> dict[str, Any]:
        options = {"kafka.isolation.level": "read_committed" if committed else "read_uncommitted"}
        if self.shape.direct and topic == EVENTS:
            options["kavka.remote.storage.url"] = self._store
        given = {"max_per_trigger": self.shape.per_trigger, "options": options}
        return {"topic": topic, "format": "json", "schema": ddl, **given}

    def _table(self, form: str, name: str = "") -> dict[str, Any]:
        return {"format": form, "path": f"tables/{name or form}"}

    # -- its processes --------------------------------------------------------------------------------

    def start(self, command: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command in a process group of its own, so that its JVM and Python workers die with it."""
        line = [sys.executable, "-m", "kavka", "pipeline", command, str(self.folder), *arguments]
        path = self.folder / f"said-{len(self._logs)}.log"
        with path.open("wb") as log:
            log.write(f"== {' '.join(line[3:])}\n".encode())
            log.flush()
            process = subprocess.Popen(line, start_new_session=True, stdout=log, stderr=log)
        self._logs[process.pid] = path
        return process

    def finish(self, command: str, *arguments: str) -> None:
        """Run a command to its end, which must be a good one."""
        with killed_at_the_end(self.start(command, *arguments)) as process:
            code = process.wait(START_S * 2)
        assert code == 0, f"{command}: {self.said()}"

    def check(self, process: subprocess.Popen[bytes], *refusals: str) -> None:
        """A command has ended well, or has refused for one of these reasons."""
        said = self._logs[process.pid].read_text(errors="replace")
        assert process.returncode == 0 or any(each in said for each in refusals), said[-4000:]

    def said(self) -> str:
        """The end of what the last commands printed."""
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in list(self._logs.values())[-3:])

    def batches(self) -> int:
        """How many batches all flows have finished."""
        return sum(1 for _ in (self.folder / ".kavka" / "checkpoint").glob("*/commits/[0-9]*"))

    def wait_for_batches(self, driver: subprocess.Popen[bytes], count: int, patience: float = START_S) -> bool:
        """Wait until so many more batches are done; False if the driver ended before, or waits for a transaction."""
        deadline = time.monotonic() + patience
        before = self.batches()
        while self.batches() < before + count:
            if driver.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def lose_checkpoint(self, flow: str) -> None:
        """Delete the checkpoint of a flow."""
        shutil.rmtree(self.folder / ".kavka" / "checkpoint" / flow, ignore_errors=True)


@contextlib.contextmanager
def killed_at_the_end(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process and its group until the block ends."""
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group, with SIGKILL."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def workers(driver: subprocess.Popen[bytes]) -> list[int]:
    """The Python workers and executors of a driver: all that run Spark's code and are not the driver itself."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes()
            ours = os.getpgid(int(path.parent.name)) == driver.pid or os.getsid(int(path.parent.name)) == driver.pid
            if ours and (b"pyspark.daemon" in line or b"pyspark/daemon" in line or b"CoarseGrainedExecutor" in line):
                found.append(int(path.parent.name))
    return found
