"""franz-go, built from its module: what it pushes is on the node's page."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest

from kavka.client import blocking
from kavka.client.admin_configs import ConfigResource, ResourceType
from kavka.testing.cluster import Cluster
from scale import FULL

SOURCE = Path(__file__).parent / "franz_go"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not FULL:
        pytest.skip("builds a Go program: KAVKA_SCALE=full runs it")
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go from 1.26 on: apt install golang")
    built = tmp_path_factory.mktemp("franz-go") / "program"
    subprocess.run([go, "build", "-o", str(built), "."], cwd=SOURCE, check=True, timeout=600)
    return built


def test_its_metrics_are_shown(program: Path) -> None:
    with Cluster(config={"kavka.metrics.listener": "127.0.0.1:0"}) as cluster:
        with blocking.Client(cluster.bootstrap) as client:
            wanted = {"metrics": "org.apache.kafka.", "interval.ms": "300"}  # it takes `*` for a name
            client.admin.alter_configs(ConfigResource(ResourceType.CLIENT_METRICS, "all"), set=wanted)
        subprocess.run([program, cluster.bootstrap, "sales"], check=True, timeout=120)
        with urlopen(f"http://{cluster.node(1).ready['metrics']}/metrics", timeout=30) as answer:
            page = answer.read().decode()
    assert re.search(r'^kavka_client_producer_\w+\{client_id="gopher",.*client_software_name="kgo"', page, re.M)
    assert re.search(r"^kavka_telemetry_unreadable_pushes_total 0.0$", page, re.M)
