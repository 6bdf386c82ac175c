"""What the dashboards draw is what nodes show: each metric is there, with the labels that it is told apart by."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from urllib.request import urlopen

from kavka.client import blocking
from kavka.testing import Cluster

FILES = sorted((Path(__file__).parents[2] / "deploy" / "grafana").glob("*.json"))
SECONDS = 60.0
OF_PROMETHEUS = {"instance", "job", "le"}
ONLY_WITH_SAMPLES = {
    "kavka_sasl_logins_total",
    "kavka_throttled_seconds_total",
    "kavka_share_lag_records",
    "kavka_share_in_flight_records",
    "kavka_requests_held_loop_total",
}
"""Families that a node without such users has no samples of: their labels are not looked at."""


def asked() -> dict[str, set[str]]:
    """The metrics that the dashboards ask for, and the labels that they use of each."""
    found: dict[str, set[str]] = {}
    for path in FILES:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                expression = target["expr"]
                labels = {each.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for each in by.split(",")}
                labels |= set(re.findall(r"(\w+)=~?\"", expression))
                labels |= set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                for name in re.findall(r"\bkavka_\w+", expression):
                    found.setdefault(name, set()).update(labels - OF_PROMETHEUS)
    return found


def shown(cluster: Cluster) -> dict[str, set[str]]:
    """The metrics that nodes show, with the labels that their samples have."""
    found: dict[str, set[str]] = {}
    for node in cluster.nodes:
        with urlopen(f"http://{cluster.node(node).ready['metrics']}/metrics", timeout=SECONDS) as answer:
            page = answer.read().decode()
        for line in page.splitlines():
            described = re.match(r"# TYPE (\w+) (\w+)", line)
            if described is not None:
                found.setdefault(f"{described[1]}_bucket" if described[2] == "histogram" else described[1], set())
            elif not line.startswith("#"):
                name, _, labels = line.partition("{")
                found.setdefault(name.split(" ")[0], set()).update(re.findall(r"(\w+)=\"", labels))
    return found


def missing(wanted: dict[str, set[str]], there: dict[str, set[str]]) -> dict[str, set[str]]:
    """The labels that are not there, by metric; a metric that is not there fails at once."""
    assert set(wanted) - set(there) == set()
    return {name: labels - there[name] for name, labels in wanted.items() if name not in ONLY_WITH_SAMPLES}


def test_every_expression_is_about_what_a_node_shows(tmp_path: Path) -> None:
    config = {
        "kavka.metrics.listener": "127.0.0.1:0",
        "remote.log.storage.system.enable": "true",
        "kavka.remote.storage.url": tmp_path.as_uri(),
        "kavka.audit.enable": "true",
        "kavka.audit.topic.enable": "true",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    with Cluster(nodes=3, config=config) as cluster, blocking.Client(cluster.bootstrap) as client:
        client.admin.create_topic("orders", partitions=1, replication_factor=3)
        with client.producer() as producer:
            producer.send("orders", b"one").result()
        with client.group_consumer("billing", "orders", start="start") as consumer:
            assert consumer.read()
        wanted = asked()
        assert len(wanted) > 40
        ends = time.monotonic() + SECONDS
        while lacking := {name: labels for name, labels in missing(wanted, shown(cluster)).items() if labels}:
            assert time.monotonic() < ends, lacking  # the lag of groups is computed every ten seconds
            time.sleep(0.5)
