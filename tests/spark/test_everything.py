"""Everything at once, by chance: whatever is killed, lost or rewritten, the tables are what DuckDB says they must be.

A round draws its shape and its faults from a seed; `KAVKA_SEED=n` repeats it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.scale import rounds
from tests.spark.everything.driving import COPY, EVENTS, PRICES, Project, Shape, kill, killed_at_the_end, workers
from tests.spark.everything.producing import Event, Journal, Price, avro_schema, read
from tests.spark.everything.truth import EVENTS as EVENTS_SQL
from tests.spark.everything.truth import PRICES as PRICES_SQL
from tests.spark.everything.truth import Truth, lake

from kavka.client.blocking import Client
from kavka.spark.lake import open_table
from kavka.spark.pipelines.spec import load
from kavka.testing import Cluster
from kavka.testing.local import free_ports

pytestmark = pytest.mark.timeout(1200)
GIVEN = os.environ.get("KAVKA_SEED")
ROUNDS = 1 if GIVEN else rounds(40, 1)
SOON_S = 60
LIVES = rounds(3, 1)
"""How many drivers a round has before the one that ends it."""
TABLES = ("delta", "iceberg", "upserted")
NODES = {
    "transaction.two.phase.commit.enable": "true",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
SMALL = {"internal.segment.bytes": "20000", "retention.ms": "-1"}
TIERED = {**SMALL, "remote.storage.enable": "true", "local.retention.bytes": "1"}
COMPACTED = {
    **SMALL,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "2000",
}


class Round:
    """One seed: its cluster, its pipeline, and what happens to them."""

    def __init__(self, seed: int, folder: Path, cluster: Cluster, shape: Shape, store: str) -> None:
        self.draw = random.Random(seed + 1)
        self.cluster = cluster
        self.shape = shape
        self.extra = False
        self.faults = 0
        self.journal = Journal(cluster.bootstrap, self.draw)
        self.events = Event(self.draw)
        self.prices = Price(self.draw)
        registry = cluster.registry if shape.avro else None
        self.project = Project(folder / "project", shape, cluster.bootstrap, registry, store)
        self.project.describe(extra=False)
        if registry is not None:
            self.events.schema_id = register(registry, extra=False)
        copies = min(3, shape.nodes)
        with Client(cluster.bootstrap) as client:
            for name, configs in ((EVENTS, TIERED if shape.tiered else SMALL), (PRICES, COMPACTED), (COPY, {})):
                client.admin.create_topic(
                    name,
                    partitions=shape.partitions,
                    replication_factor=copies,
                    configs={"min.insync.replicas": str(max(1, copies - 1)), **configs},
                )

    def tell(self, what: str) -> None:
        """For whoever reads why a round failed."""
        sys.stdout.write(f"{time.strftime('%H:%M:%S')} {what}\n")
        sys.stdout.flush()

    def produce(self) -> None:
        self.journal.write(EVENTS, self.shape.partitions, self.events.draft, self.draw.randrange(100, 600))
        self.journal.write(PRICES, self.shape.partitions, self.prices.draft, self.draw.randrange(20, 200))
        self.tell(f"{len(self.journal.written)} records are written")

    # -- while a driver runs ----------------------------------------------------------------------------

    def live(self) -> None:
        """A driver from its start to its end, which is seldom its own."""
        with killed_at_the_end(self.project.start("run", "--master", self.shape.master)) as driver:
            self.tell("a driver starts")
            self.faults = 0
            self.wait_for_batches(driver)
            for _ in range(self.draw.randrange(3)):
                fault = self.draw.choice((self.lose_worker, self.lose_node, self.compact_beside, self.backfill_beside))
                fault(driver)
                self.produce()
                self.wait_for_batches(driver)
                if driver.poll() is not None:
                    break
            time.sleep(self.draw.uniform(0, 0.7))  # somewhere in a batch
            self.end(driver)

    def wait_for_batches(self, driver: subprocess.Popen[bytes]) -> None:
        """Wait until some batches are done or the driver has ended; it may have to wait for an open transaction."""
        wanted = self.draw.randrange(1, 5)
        if self.project.wait_for_batches(driver, wanted, SOON_S):
            return
        self.produce()
        done = self.project.wait_for_batches(driver, 1)
        assert done or driver.poll() is not None, f"it runs, and does nothing: {self.project.said()}"

    def end(self, driver: subprocess.Popen[bytes]) -> None:
        if driver.poll() is not None:
            self.tell(f"the driver has ended with {driver.returncode}")
            assert self.faults, f"it ended by itself: {self.project.said()}"
        elif self.draw.random() < 0.75:
            self.tell("the driver is killed")
            kill(driver)
        else:
            self.tell("the driver is asked to stop")
            os.kill(driver.pid, signal.SIGTERM)
            code = driver.wait(180)
            assert code == 0 or self.faults, self.project.said()

    def lose_worker(self, driver: subprocess.Popen[bytes]) -> None:
        alive = workers(driver)
        if alive:
            self.faults += 1
            self.tell(f"one of {len(alive)} workers is killed")
            try:
                os.kill(self.draw.choice(alive), signal.SIGKILL)
            except ProcessLookupError:
                self.tell("it had ended")

    def lose_node(self, driver: subprocess.Popen[bytes]) -> None:
        """A node is killed and comes back, while records are written."""
        node = self.draw.choice(self.cluster.nodes)
        pause = self.draw.uniform(0, 2)
        self.faults += 1
        self.tell(f"node {node} is killed, and comes back after {pause:.1f} s")

        def come_back() -> None:
            self.cluster.kill(node)
            time.sleep(pause)
            self.cluster.start(node)

        thread = threading.Thread(target=come_back)
        thread.start()
        try:
            self.produce()
        finally:
            thread.join()

    def compact_beside(self, driver: subprocess.Popen[bytes]) -> None:
        self.compact()

    def compact(self) -> None:
        self.tell("tables are compacted")
        with killed_at_the_end(self.project.start("compact", "--target-mb", "1")) as process:
            if self.draw.random() < 0.3:
                time.sleep(self.draw.uniform(0.5, 3))
                self.tell("... and that is killed")
            else:
                process.wait(240)
                self.project.check(process, "the commit failed", "there is no Delta table", "there is no Iceberg table")

    def backfill_beside(self, driver: subprocess.Popen[bytes]) -> None:
        self.backfill(kill_it=self.draw.random() < 0.4)

    # -- while none runs --------------------------------------------------------------------------------

    def backfill(self, *, kill_it: bool) -> None:
        """A backfill of a flow whose stream begins late."""
        late = [flow for flow, start in self.shape.starts.items() if start == "latest"]
        if not late:
            return
        flow = self.draw.choice(late)
        self.tell(f"{flow} is backfilled{', and that is killed' if kill_it else ''}")
        process = self.project.start("backfill", "--flow", flow, "--from", "earliest", "--master", "local[1]")
        with killed_at_the_end(process):
            if kill_it:
                time.sleep(self.draw.uniform(4, 14))
            else:
                process.wait(240)
                self.project.check(process, "nobody remembers where it began")

    def between(self) -> None:
        """What happens between two drivers."""
        for _ in range(self.draw.randrange(1, 3)):
            self.draw.choice((self.lose_checkpoint, self.vacuum, self.change_schema, self.produce))()

    def lose_checkpoint(self) -> None:
        flow = self.draw.choice(TABLES)
        self.tell(f"the checkpoint of {flow} is lost")
        self.project.lose_checkpoint(flow)

    def vacuum(self) -> None:
        """Delete all that no table needs now; nobody writes."""
        if self.draw.random() < 0.5:
            self.compact()
        self.tell("tables are vacuumed")
        for flow in load(self.project.folder).flows:
            if flow.sink.table is not None:
                open_table(flow.sink.table).vacuum(int(time.time() * 1000) + 1000, dry=False)

    def change_schema(self) -> None:
        """From now on events have one more field."""
        if not self.extra:
            self.tell("events have a new field")
            self.extra = self.events.extra = True
            self.project.describe(extra=True)
            if self.shape.avro:
                self.events.schema_id = register(self.cluster.registry, extra=True)

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Read all there is, without faults."""
        self.journal.finish()
        self.tell("the last driver runs to its end")
        self.project.finish("run", "--once", "--master", "local[2,4]")
        for flow, start in self.shape.starts.items():
            if start == "latest":
                self.tell(f"{flow} is backfilled to its end")
                self.project.finish("backfill", "--flow", flow, "--from", "earliest", "--master", "local[1]")

    def wrong(self) -> dict[str, list[str]]:
        """What is not as it must be, by where that is."""
        shape, folder = self.shape, self.project.folder / "tables"
        truth = Truth(self.journal.written)
        bootstrap = self.cluster.bootstrap
        whole = 'SELECT "partition", "offset", "key", value FROM journal WHERE topic = \'{}\'{}'
        stored = {
            level: truth.messages(f"source_{level}", read(bootstrap, EVENTS, committed=level == "committed"))
            for level in ("committed", "all")
        }
        expected = EVENTS_SQL.format(topic=EVENTS, committed_only=str(shape.committed))
        bad = (
            'SELECT "partition", "offset", "key", value FROM journal '
            f"WHERE malformed AND (committed OR NOT {shape.committed})"
        )
        extra = "extra" if self.extra else "NULL::TEXT AS extra"
        found = {
            "the brokers": truth.wrong(whole.format(EVENTS, " AND committed"), f"SELECT * FROM {stored['committed']}"),
            "the brokers, aborted too": truth.wrong(whole.format(EVENTS, ""), f"SELECT * FROM {stored['all']}"),
            "the topic": truth.wrong(expected, truth.rows_of_messages("copy", read(bootstrap, COPY), extra=self.extra)),
            "upserted": truth.wrong(
                PRICES_SQL.format(topic=PRICES),
                f'SELECT sku, price, number, _offset AS "offset" FROM {lake(shape.upserted, folder / "upserted")}',
            ),
        }
        for flow in ("delta", "iceberg"):
            columns = f"part, place, who, id, name, amount, {extra}"
            found[flow] = truth.wrong(expected, f"SELECT {columns} FROM {lake(flow, folder / flow)}")
        for flow in ("delta", "iceberg", "topic"):
            letters = truth.letters("letters", read(bootstrap, f"dead-{flow}", missing_ok=True))
            found[f"dead letters of {flow}"] = truth.wrong(bad, letters)
        prices = truth.rows(PRICES_SQL.format(topic=PRICES))
        self.tell(f"{truth.rows(expected)} events, {truth.rows(bad)} bad ones, {prices} prices")
        return {place: said for place, said in found.items() if said}


def register(registry: str, *, extra: bool) -> int:
    """Register the schema of events; its number."""
    body = json.dumps({"schema": json.dumps(avro_schema(extra))}).encode()
    request = urllib.request.Request(
        f"{registry.split(',')[0]}/subjects/{EVENTS}-value/versions",
        body,
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return int(found["id"])


@pytest.mark.parametrize("number", range(ROUNDS))
def test_tables_are_what_was_written_whatever_happens(number: int, tmp_path: Path) -> None:
    seed = int(GIVEN) if GIVEN else int.from_bytes(os.urandom(4))
    sys.stdout.write(f"KAVKA_SEED={seed}\n")
    shape = Shape.drawn(random.Random(seed))
    store = f"file://{tmp_path}/store"
    config = {**NODES, "kavka.remote.storage.url": store}
    if shape.nodes == 1:
        config["kavka.registry.listener"] = f"127.0.0.1:{free_ports(1)[0]}"
    with Cluster(nodes=shape.nodes, config=config, data_dir=tmp_path / "nodes") as cluster:
        played = Round(seed, tmp_path, cluster, shape, store)
        played.tell(str(shape))
        played.produce()
        for _ in range(LIVES):
            played.live()
            played.between()
        played.finish()
        wrong = played.wrong()
        assert not wrong, f"KAVKA_SEED={seed}: {json.dumps(wrong, indent=1)}\n{played.project.said()}"
        if played.draw.random() < 0.5:
            played.vacuum()
            assert not (wrong := played.wrong()), f"KAVKA_SEED={seed}, after vacuum: {wrong}"
