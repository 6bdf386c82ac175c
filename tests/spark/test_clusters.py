"""The same job on executors of their own: a local cluster, and a standalone one that has never heard of us."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.scale import FULL
from tests.spark.conftest import fill

from docs.pages import blocks, commands
from kavka.client.blocking import Client
from kavka.spark.java import java_home
from kavka.testing import Cluster
from kavka.testing.local import free_ports

pytestmark = [
    pytest.mark.skipif(not FULL, reason="starts several JVMs for each case: KAVKA_SCALE=full runs it"),
    pytest.mark.timeout(600),
]
DRIVER = Path(__file__).parent / "drivers" / "both_sinks.py"
RECORDS = 1000


def run_driver(
    node: Cluster, client: Client, topic: Callable[..., str], folder: Path, master: str, *ship: str, python: str
) -> tuple[int, int, set[int]]:
    """Run the job; rows and sum of its table, and what is in its topic."""
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    source, target = topic(), topic()
    fill(client, source, RECORDS, codec="zstd")
    command = [sys.executable, str(DRIVER), node.bootstrap, source, target, str(folder), master, *ship]
    environment = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    table = DeltaTable(str(folder / "table")).to_pyarrow_table()
    with client.consumer(target) as consumer:
        written = {int(record.value or b"") for record in consumer.until_end()}
    return table.num_rows, pc.sum(table.column("number")).as_py(), written


EXPECTED = (RECORDS, sum(range(RECORDS)), set(range(RECORDS)))


def test_one_machine(node: Cluster, client: Client, topic: Callable[..., str], tmp_path: Path) -> None:
    assert run_driver(node, client, topic, tmp_path, "local[2]", python=sys.executable) == EXPECTED


def test_a_local_cluster(node: Cluster, client: Client, topic: Callable[..., str], tmp_path: Path) -> None:
    assert run_driver(node, client, topic, tmp_path, "local-cluster[2,1,1024]", python=sys.executable) == EXPECTED


def lonely_python(folder: Path) -> str:
    """A Python that has pyspark and what it brings, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    import py4j
    import pyspark

    for module in (pyspark, py4j):
        assert module.__file__ is not None
        home = Path(module.__file__).parent
        (packages / home.name).symlink_to(home)
    python = str(folder / "bin" / "python")
    alone = subprocess.run(
        [python, "-c", "import pyspark; import pyarrow"], capture_output=True, text=True, check=False
    )
    assert "No module named 'pyarrow'" in alone.stderr
    return python


@contextlib.contextmanager
def standalone(folder: Path, python: str) -> Iterator[str]:
    """A master and two workers on loopback; the master's address."""
    import pyspark

    assert pyspark.__file__ is not None
    home = Path(pyspark.__file__).parent
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"JAVA_HOME": str(java_home()), "SPARK_HOME": str(home), "PYSPARK_PYTHON": python}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    processes: list[subprocess.Popen[bytes]] = []

    def launch(role: str, *arguments: str) -> None:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1"]
        with (folder / f"{role.rpartition('.')[2]}-{len(processes)}.log").open("wb") as log:
            processes.append(
                subprocess.Popen([*command, "--webui-port", "0", *arguments], env=environment, stdout=log, stderr=log)
            )

    try:
        launch("master.Master", "--port", "0")
        address = wait_for(folder / "Master-0.log", r"Starting Spark master at (spark://\S+)")
        for number in range(2):
            launch(
                "worker.Worker", "--cores", "1", "--memory", "700m", "--work-dir", str(folder / f"w{number}"), address
            )
        for number in range(1, 3):
            wait_for(folder / f"Worker-{number}.log", "(Successfully registered with master)")
        yield address
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def wait_for(path: Path, pattern: str) -> str:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = re.search(pattern, path.read_text()) if path.exists() else None
        if found is not None:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{path} does not say {pattern}: {path.read_text()[-2000:]}")


def test_a_standalone_cluster_whose_python_has_pyspark_alone(
    node: Cluster, client: Client, topic: Callable[..., str], tmp_path: Path
) -> None:
    python = lonely_python(tmp_path / "python")
    with standalone(tmp_path, python) as master:
        found = run_driver(node, client, topic, tmp_path / "job", master, "pyarrow", "numpy", python=python)
    assert found == EXPECTED
    logs = list((tmp_path / "w0").rglob("stderr")) + list((tmp_path / "w1").rglob("stderr"))
    assert len({path.parts[-2] for path in logs}) == 2, "both workers had an executor"
    assert not list(tmp_path.glob("python/lib/python3*/site-packages/kavka*"))


def test_the_commands_of_the_page(node: Cluster, client: Client, topic: Callable[..., str], tmp_path: Path) -> None:
    (block,) = (each for each in blocks("docs/spark.md") if each.text.startswith("$ spark-class"))
    master, worker, run = (command for command, _ in commands(block.text))
    name, (port,) = topic(), free_ports(1)
    with client.producer() as producer:
        for number in range(100):
            producer.send(name, b'{"id": %d, "customer": "c", "amount": 1, "at": "2026-01-01"}' % number)
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(tmp_path / "work")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def start(command: str, log: Path) -> subprocess.Popen[bytes]:
        said = f"exec {command.removesuffix('&').replace('7077', str(port))}"
        with log.open("wb") as out:
            return subprocess.Popen(["bash", "-c", said], cwd=tmp_path, env=environment, stdout=out, stderr=out)

    init = f"kavka pipeline init my-pipeline -b {node.bootstrap}"
    assert start(init, tmp_path / "init.log").wait(60) == 0
    spec = tmp_path / "my-pipeline" / "pipeline.yaml"
    spec.write_text(spec.read_text().replace("topic: orders", f"topic: {name}"))
    daemons = []
    try:
        daemons.append(start(master, tmp_path / "master.log"))
        wait_for(tmp_path / "master.log", r"Starting Spark master at (spark://\S+)")
        daemons.append(start(worker, tmp_path / "worker.log"))
        job = start(run, tmp_path / "run.log")
        daemons.append(job)
        assert job.wait(400) == 0, (tmp_path / "run.log").read_text()
    finally:
        for process in daemons:
            process.terminate()
        for process in daemons:
            process.wait()
    assert "orders batch 0: 100 rows" in (tmp_path / "run.log").read_text()
    assert list((tmp_path / "work").rglob("stderr")), "an executor has worked for the worker"
