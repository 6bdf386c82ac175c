"""How fast does a share group of eight drain a topic, and what do a million records and 1,000 idle partitions cost?"""

from __future__ import annotations

from bench.rival.figures import Figure, less, more
from bench.rival.target import Scale, Target
from bench.share import IDLE, MEMBERS, PARTITIONS, PAYLOAD_BYTES, drain, idle_cpu

NODES = 1
RATE_AIM, CPU_AIM = 1.5, 0.5


def figures(target: Target, scale: Scale) -> list[Figure]:
    """Bare sockets that accept what they got with their next fetch; once before, so that a JVM has compiled it."""
    count = scale.size(400_000, 40_000)
    drain(target, count)
    cpu_seconds, seconds = drain(target, count)
    case = f"{MEMBERS} members, {PARTITIONS} partitions, {PAYLOAD_BYTES:,} B"
    idle = idle_cpu(target, IDLE, scale.size(20, 3))
    return [
        more(case, count / seconds, "records / s", aim=RATE_AIM),
        less(f"{case}: broker CPU", cpu_seconds * 1e6 / count, "CPU-s / million", aim=CPU_AIM),
        less(f"{IDLE:,} idle partitions, one member that waits", idle * 1000, "ms of CPU / s"),
    ]
