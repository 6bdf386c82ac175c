"""The integration tests that confluent-kafka has for its client of the schema registry, with a node of ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

from kavka.testing import Cluster

SOURCE = Path(__file__).resolve().parents[2] / ".cache" / "confluent-kafka-python"
THEIRS = "tests/integration/schema_registry/_sync"
PLUGIN = Path(__file__).resolve().parent / "confluent_kafka_tests"
CLONE = "git clone --depth 1 --branch v{} https://github.com/confluentinc/confluent-kafka-python {}"
OF_OLD = "not kafka_cluster_cp_7_0_1"
"""One is about a fault of Confluent's registry of 2021, and starts that."""


@pytest.mark.timeout(600)
def test_their_tests_pass() -> None:
    if not (SOURCE / THEIRS).is_dir():
        clone = CLONE.format(confluent_kafka.__version__, SOURCE)
        pytest.skip(f"the sources of confluent-kafka are not here, and what PyPI has comes without its tests: {clone}")
    with Cluster(config={"kavka.registry.listener": "127.0.0.1:0"}) as node:
        path = os.pathsep.join(map(str, (PLUGIN, SOURCE)))
        environment = {**os.environ, "BROKERS": node.bootstrap, "SR_URL": node.registry, "PYTHONPATH": path}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "without_trivup", "-p", "no:cacheprovider", THEIRS]
        command += ["-c", os.devnull, "--rootdir", str(SOURCE), "-k", OF_OLD]
        done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = re.search(r"([0-9]+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 40, done.stdout
