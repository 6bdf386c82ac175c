"""Where and on what a run was made: a figure without these means nothing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import confluent_kafka

from bench.rival import apache, kavka

_ROOT = Path(__file__).resolve().parents[2]


def facts(brokers: frozenset[int], client: frozenset[int]) -> dict[str, str]:
    """Machine, versions and command, each a line."""
    versions = {**apache.versions(), **kavka.versions()}
    pinned = f"brokers on {_cores(brokers)}, client on {_cores(client)}"
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "command": " ".join(["python", "-m", "bench.rival", *sys.argv[1:]]),
        "commit": _commit(),
        "processor": _processor(),
        "cores": f"{os.cpu_count()}, {pinned if brokers != client else 'shared by brokers and client'}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load average at the start": f"{os.getloadavg()[0]:.1f}",
        **versions,
        "heap of Apache Kafka": " ".join(apache.JVM),
        "client": f"confluent-kafka {confluent_kafka.version()}, librdkafka {confluent_kafka.libversion()[0]}",
    }


def _cores(cores: frozenset[int]) -> str:
    return f"core{'s' if len(cores) > 1 else ''} {', '.join(map(str, sorted(cores)))}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _commit() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"
