"""Spark Connect: the data source works where the client has no JVM, and the server is a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.scale import FULL
from tests.spark.conftest import fill

from kavka.client.blocking import Client
from kavka.spark.java import java_home
from kavka.testing import Cluster
from kavka.testing.local import free_ports

pytestmark = [
    pytest.mark.skipif(not FULL, reason="starts a Connect server: KAVKA_SCALE=full runs it"),
    pytest.mark.timeout(600),
]
CLIENT = Path(__file__).parent / "drivers" / "connected.py"
RECORDS = 200
PATIENCE_S = 240


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A Connect server; its URL."""
    import pyspark

    assert pyspark.__file__ is not None
    home = Path(pyspark.__file__).parent
    (port,) = free_ports(1)
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_HOME": str(home)}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false"]
    command += ["--conf", "spark.connect.grpc.binding.address=127.0.0.1", "spark-internal"]
    log = tmp_path / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=tmp_path)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not listens(port):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def test_a_client_without_a_jvm_reads_streams_and_writes(
    server: str, node: Cluster, client: Client, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = topic(), topic()
    fill(client, source, RECORDS, codec="zstd")
    command = [sys.executable, str(CLIENT), server, node.bootstrap, source, target, str(tmp_path / "checkpoint")]
    # A machine of its own has no Java: a client that looked for one would fail.
    environment = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_HOME")}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:] + (tmp_path / "server.log").read_text()[-2000:]
    assert json.loads(done.stdout) == {"read": list(range(RECORDS)), "connect": True}
    with client.consumer(target) as consumer:
        assert sorted(int(record.value or b"") for record in consumer.until_end()) == [*range(RECORDS), 1000]
