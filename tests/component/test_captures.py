"""The captures of a terminal in the documentation, made anew from a real cluster that has lost a node.

`KAVKA_CAPTURES=write` puts them in place of those in docs/captures; else their words must agree, not their numbers.
"""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from kavka.client import blocking
from kavka.testing.cluster import Cluster

FOLDER = Path(__file__).parents[2] / "docs" / "captures"
CONFIG = {
    "kavka.metrics.listener": "127.0.0.1:0",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "3",
    "default.replication.factor": "3",
}


def kavka(cluster: Cluster, *arguments: str) -> str:
    command = [str(Path(sys.executable).parent / "kavka"), *arguments, "--bootstrap", cluster.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not done.stderr
    return done.stdout


def capture(name: str, command: str, output: str) -> str:
    """What a terminal shows, as a picture."""
    lines = [f"$ {command}", *output.rstrip().splitlines()]
    console = Console(record=True, width=max(map(len, lines)) + 2, file=io.StringIO())
    for line in lines:
        console.print(Text(line), no_wrap=True)
    return console.export_svg(title=f"kavka {name}", unique_id=name)


def words(svg: str) -> set[str]:
    """The lines that a picture shows, without their numbers and their order, which is that of the numbers."""
    rows: dict[str, str] = {}
    for found in re.finditer(r'<text class="\w+-r\d+" [^>]*clip-path="url\(#(\w+-line-\d+)\)"[^>]*>(.*?)</text>', svg):
        rows[found[1]] = rows.get(found[1], "") + html.unescape(found[2])
    return {" ".join(re.sub(r"\d[\d.,]*( [KMG]iB| B)?", "0", row).split()) for row in rows.values()}


def compare(name: str, svg: str) -> None:
    file = FOLDER / f"{name}.svg"
    if os.environ.get("KAVKA_CAPTURES") == "write":
        file.write_text(svg)
    assert words(svg) == words(file.read_text())


def leader(client: blocking.Client) -> int:
    """The node that leads the metadata quorum."""
    return client.admin.describe_quorum().leader_id


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, config=CONFIG) as cluster, blocking.Client(cluster.bootstrap) as client:
        client.admin.create_topic("orders", partitions=1, assignments=None, configs={"min.insync.replicas": "2"})
        keeper, lost = (node for node in (1, 2, 3) if node != leader(client))
        client.admin.create_topic("returns", assignments={0: [keeper, lost]}, configs={"min.insync.replicas": "2"})
        with client.producer() as producer:
            producer.send("orders", b"first").result()
        with client.group_consumer("billing", "orders", start="start") as consumer:
            assert consumer.read()
        yield cluster


def test_top(cluster: Cluster) -> None:
    stop = threading.Event()

    def load() -> None:
        with blocking.Client(cluster.bootstrap, client_id="shop") as client, client.producer() as producer:
            while not stop.wait(0.002):
                producer.send("orders", b"x" * 500).result()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        pages = [part for node in (1, 2, 3) for part in ("--metrics", cluster.node(node).ready["metrics"])]
        shown = kavka(cluster, "top", "--count", "1", "--interval", "1", *pages)
    finally:
        stop.set()
        thread.join()
    compare("top", capture("top", "kavka top --metrics broker1:9404 --metrics broker2:9404", shown))


def test_doctor(cluster: Cluster) -> None:
    with blocking.Client(cluster.bootstrap) as client:
        (lost,) = client.admin.describe_topic("returns").partitions[0].replicas[1:]
        assert lost != leader(client)  # a new leader would not know when it was last heard of
    cluster.kill(lost)
    ends = time.monotonic() + 60
    while "last caught up" not in (shown := kavka(cluster, "doctor")) or "is fenced" not in shown:
        assert time.monotonic() < ends, shown
    compare("doctor", capture("doctor", "kavka doctor", shown))
