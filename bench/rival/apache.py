"""Apache Kafka as its own start script runs it: KRaft, combined nodes, the script's heap and collector."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.rival.family import Family
from bench.rival.figures import KAFKA
from bench.rival.target import SINGLE_NODE, Encrypted, Target, await_brokers
from bench.wire import BenchError
from kavka.testing.local import free_ports

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from kafka_jars import fetch  # tools/ is not installed

CLUSTER_ID = "Kavka-rival-bench-000g"
# bin/kafka-server-start.sh and bin/kafka-run-class.sh, without the log of the collector.
JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


def missing() -> str | None:
    """Why it cannot run here, or None."""
    if shutil.which("java") is None:
        return "Apache Kafka needs a Java on the PATH (17 or newer)"
    if not fetch.is_complete(fetch.folder()):
        return "Apache Kafka's jars are not here: run python tools/kafka_jars/fetch.py"
    return None


def versions() -> dict[str, str]:
    """What of it runs."""
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return {"Apache Kafka": fetch.kafka_version(), "Java": said.splitlines()[0] if said else "unknown"}


@contextlib.contextmanager
def running(
    folder: Path, cores: frozenset[int], nodes: int, config: Mapping[str, str], encrypted: Encrypted | None = None
) -> Iterator[Target]:
    """Fresh nodes, formatted before the clock starts; one alone may have a listener for TLS."""
    tls = "" if encrypted is None else f",SSL://{encrypted.bootstrap}"
    ports = free_ports(2 * nodes)
    addresses, controllers = ([f"127.0.0.1:{port}" for port in half] for half in (ports[:nodes], ports[nodes:]))
    voters = ",".join(f"{number}@{address}" for number, address in enumerate(controllers, 1))
    files, logs = [], []
    for number, (address, controller) in enumerate(zip(addresses, controllers, strict=True), 1):
        node_dir = folder / f"node-{number}"
        node_dir.mkdir(parents=True)
        values = {
            "node.id": str(number),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}{tls}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(node_dir / "data"),
            **(SINGLE_NODE if nodes == 1 else {}),
            **config,
            **({} if encrypted is None else encrypted.config),
        }
        file = node_dir / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        _format(file)
        files.append(file)
        logs.append(node_dir / "node.log")
    family = Family(cores)
    try:
        began = time.perf_counter()
        for file, log in zip(files, logs, strict=True):
            family.start(_command("kafka.Kafka", str(file)), log)
        await_brokers(family, addresses, logs)
        yield Target(KAFKA, ",".join(addresses), family, time.perf_counter() - began, encrypted)
    finally:
        family.end()


def _format(file: Path) -> None:
    command = _command("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"Apache Kafka's format failed: {done.stdout}{done.stderr}")


def class_path() -> list[str]:
    """What a JVM is told that runs classes of Kafka's."""
    return [f"-Dlog4j2.configurationFile={fetch.LOGGING}", "-Dkavka.log.level=warn", "-cp", f"{fetch.folder()}/*"]


def _command(main_class: str, *arguments: str) -> list[str]:
    return ["java", *JVM, *class_path(), main_class, *arguments]
