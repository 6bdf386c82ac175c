"""How fast does a share group of eight drain a topic, and what do a million records and 1,000 idle partitions cost?"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from bench.bulk import produce, random_payloads
from bench.rival.apache import class_path
from bench.rival.figures import Figure, less, more
from bench.rival.target import Scale, Target
from bench.share import IDLE, MEMBERS, PARTITIONS, PAYLOAD_BYTES, drain, grouped, idle_cpu
from bench.wire import BenchError, Caller

NODES = 1
RATE_AIM, CPU_AIM = 1.5, 0.5
JAVA_MEMBERS = Path(__file__).resolve().parents[1] / "ShareDrain.java"


def figures(target: Target, scale: Scale) -> list[Figure]:
    """Kafka's own consumers, and bare sockets that leave the broker most of the work; each once to get warm."""
    count = scale.size(400_000, 40_000)
    found = _told("Java", count, *by_java(target, 2 * count, warm=count))
    drain(target, count)
    found += _told("bare socket", count, *drain(target, count))
    idle = idle_cpu(target, IDLE, scale.size(20, 3))
    return [*found, less(f"{IDLE:,} idle partitions, one member that waits", idle * 1000, "ms of CPU / s")]


def _told(members: str, count: int, cpu_seconds: float, seconds: float) -> list[Figure]:
    case = f"{MEMBERS} members ({members}), {PARTITIONS} partitions, {PAYLOAD_BYTES:,} B"
    return [
        more(case, count / seconds, "records / s", aim=RATE_AIM),
        less(f"{case}: broker CPU", cpu_seconds * 1e6 / count, "CPU-s / million", aim=CPU_AIM),
    ]


def by_java(target: Target, count: int, *, warm: int) -> tuple[float, float]:
    """CPU-seconds of the broker and seconds that consumers in a JVM take for what comes after the first records."""
    with Caller(target.bootstrap) as caller:
        topic = grouped(caller, PARTITIONS)
        produce(target.bootstrap, topic, random_payloads(PAYLOAD_BYTES), count, "none")
    command = ["java", "-Xmx1G", *class_path(), str(JAVA_MEMBERS), target.bootstrap, topic.name]
    command += [str(MEMBERS), str(warm), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            marks = [(line.strip(), target.cpu_seconds(), time.perf_counter()) for line in process.stdout]
            process.wait()
        finally:
            process.kill()
    if [mark for mark, _, _ in marks] != ["warm", "done"] or process.returncode:
        raise BenchError(f"the consumers ended with {process.returncode} after {marks}")
    (_, cpu, began), (_, cpu_after, ended) = marks
    return cpu_after - cpu, ended - began
