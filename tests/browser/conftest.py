"""A browser that the machine has, driven by playwright, and a node with a console for it to look at."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer

from kavka.client.blocking import Client
from kavka.client.offsets import EARLIEST_LOCAL
from kavka.model.pipelines import (
    STATUS_CONFIGS,
    STATUS_TOPIC,
    BatchReport,
    FlowReport,
    SourcePosition,
    TableReport,
)
from kavka.model.types import TopicPartition
from kavka.protocol.schemas import streams_group_heartbeat as streams
from kavka.testing import Cluster

# so that the tests can say `from crash.raw import ...`
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from crash.raw import Raw

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "console"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SECONDS = 60.0


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser; not for longer than a file's tests: while playwright runs, nothing else can run a loop."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install playwright")
    program = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script that finds what keeps people out of a page."""
    package = "axe_playwright_python"
    pytest.importorskip(package, reason="axe is missing: pip install axe-playwright-python")
    return (resources.files(package) / "axe.min.js").read_text(encoding="utf-8")


def report_flows(client: Client) -> None:
    """Have flows that run, have failed and are gone, as pipelines tell of them."""
    client.admin.create_topic(STATUS_TOPIC, partitions=1, configs=STATUS_CONFIGS)
    now = int(time.time() * 1000)
    batches = tuple(
        BatchReport(number, 400 + number * 37 % 300, 12 if number % 5 == 0 else 0, 1.5, now - (12 - number) * 2000)
        for number in range(12)
    )
    running = FlowReport(
        "shop", "orders", "running", now + 3_600_000, 30_000, "etl-1", "orders", None, "payments", batches=batches,
        positions=tuple(SourcePosition("orders", index, 30 + index, 40) for index in range(3)),
        table=TableReport("delta", "s3://lake/shop/orders", 41_293, 17, 9_412_000, 211, now - 4000),
    )  # fmt: skip
    failed = replace(
        running, flow="payments", state="failed", source="pay.*", sink_topic="clicks", table=None,
        error="2 of 12 records are bad, more than max_bad_share 0.1: see the topic payments",
    )  # fmt: skip
    gone = replace(running, pipeline="reports", flow="daily", at_ms=now - 7_200_000)
    with client.producer() as producer:
        for report in (running, failed, gone):
            producer.send(STATUS_TOPIC, report.encode(), key=report.key)
        reason = (("kavka.error", b"it is no JSON: unexpected character <"),)
        producer.send("payments", b"no order", headers=reason)


def archive(client: Client) -> None:
    """Have a topic some of which is in the store alone, some in the store and here, and some here alone."""
    configs = {"remote.storage.enable": "true", "segment.bytes": "1048576", "local.retention.bytes": "1048576"}
    client.admin.create_topic("archive", partitions=1, configs=configs)
    with client.producer() as producer:
        for _ in range(40):
            producer.send("archive", b"x" * 100_000, partition=0).result()
    place = TopicPartition("archive", 0)
    ends = time.monotonic() + SECONDS
    while client.admin.list_offsets({place: EARLIEST_LOCAL})[place].offset == 0:
        assert time.monotonic() < ends, "nothing was moved to the store"
        time.sleep(0.1)


def joined(node: Cluster, group: str, topic: str, **more: str) -> Consumer:
    """A member of a group of somebody else's client, that has read something."""
    config = {"bootstrap.servers": node.bootstrap, "group.id": group, "client.id": f"{group}-1", **more}
    member = Consumer({**config, "auto.offset.reset": "earliest", "max.poll.interval.ms": 3_600_000})
    member.subscribe([topic])
    assert len(member.consume(70, SECONDS)) == 70
    member.commit(asynchronous=False)
    return member


def counting(node: Cluster) -> None:
    """Have a streams group, which counts clicks in a changelog; its member says no more."""
    log = streams.TopicInfo(name="click-counts", partitions=0, replication_factor=0, topic_configs=[])
    part = streams.Subtopology(
        subtopology_id="0",
        source_topics=["clicks"],
        source_topic_regex=[],
        state_changelog_topics=[log],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    member = Raw(node.bootstrap, "counting-1")
    begin = {
        "rebalance_timeout_ms": 60_000,
        "topology": streams.Topology(epoch=0, subtopologies=[part]),
        "process_id": "p",
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    epoch, ends, more = 0, time.monotonic() + SECONDS, dict[str, Any](begin)
    while True:
        request = streams.StreamsGroupHeartbeatRequest(
            group_id="counting", member_id="m", member_epoch=epoch, endpoint_information_epoch=-1, **more
        )
        answer = member.call(request, 0)
        if not answer.error_code:
            epoch, more = answer.member_epoch, {}
            if epoch and not answer.status:
                break
        assert time.monotonic() < ends, answer
        time.sleep(0.1)
    member.close()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A node with something to look at."""
    config = {
        "kavka.console.listener": "127.0.0.1:0",
        "kavka.registry.listener": "127.0.0.1:0",
        "remote.log.storage.system.enable": "true",
        "kavka.remote.storage.url": tmp_path_factory.mktemp("store").as_uri(),
        "remote.log.manager.task.interval.ms": "500",
        "log.retention.check.interval.ms": "500",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.max.session.timeout.ms": "3600000",
        "group.streams.session.timeout.ms": "3600000",
    }
    with Cluster(config=config) as running:
        with Client(running.bootstrap) as client:
            for topic, partitions in (("orders", 3), ("payments", 2), ("clicks", 6), ("empty", 1)):
                client.admin.create_topic(topic, partitions=partitions)
            with client.producer() as producer:
                for number in range(120):
                    order = {"order": number, "customer": f"c-{number % 7}", "total": number * 3.5, "paid": True}
                    headers = (("trace", b"4bf92f3577b34da6"),)
                    producer.send("orders", json.dumps(order).encode(), key=b"order-%d" % number, headers=headers)
                    producer.send("clicks", b"/shop/item/%d" % number)
                producer.send("payments", b"<script>document.title='owned'</script>", key=b"<b>evil</b>")
                producer.send("payments", b"\x00\x01\x02\xff\xfe", key=b"\xff")
            report_flows(client)
            archive(client)
            client.admin.alter_group_offsets("billing", {TopicPartition("orders", index): 10 for index in range(3)})
            client.admin.alter_group_offsets("reporting", {TopicPartition("clicks", index): 1 for index in range(6)})
            client.admin.alter_share_group_offsets("workers", {TopicPartition("orders", 0): 5})
        fields = [{"name": "path", "type": "string"}, {"name": "at", "type": "long"}]
        schema = {"schema": json.dumps({"type": "record", "name": "Click", "fields": fields})}
        httpx.post(f"{running.registry}/subjects/clicks-value/versions", json=schema).raise_for_status()
        counting(running)
        members = (
            joined(running, "shipping", "orders"),
            joined(running, "pricing", "orders", **{"group.protocol": "consumer"}),
        )
        yield running
        for member in members:
            member.close()


@pytest.fixture
def shot() -> Callable[[Any, str], None]:
    """Keeps a picture of a page."""

    def keep(page: Any, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"{name}.png")

    return keep
