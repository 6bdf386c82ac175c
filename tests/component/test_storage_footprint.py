"""An idle partition costs little memory and no descriptors of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOGS = 1500
LIMIT_BYTES = 6 * 1024

PROGRAM = """
import gc, json, os, sys
from kavka.kernels.batches import scan
from kavka.model.types import TopicPartition, Uuid
from kavka.records.builder import BatchBuilder
from kavka.storage.disk import RealDisk
from kavka.storage.loader import load_log
from kavka.storage.log import Log, LogConfig

root, logs = sys.argv[1], int(sys.argv[2])
config = LogConfig()

def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def batch():
    builder = BatchBuilder(producer_id=1, producer_epoch=0, base_sequence=0)
    builder.append(b"k", b"v" * 50, 1000)
    return builder.build()

def load(disk, clean):
    found = []
    for number in range(logs):
        tp = TopicPartition(f"topic{number}", 0)
        log, report = load_log(disk, f"{root}/topic{number}-0", tp, config, clean=clean, now_ms=2000)
        assert not report.notes and log.log_end_offset == 1
        found.append(log)
    return found

data = batch()
if sys.argv[3] == "create":
    disk = RealDisk(max_open=100)
    for number in range(logs):
        tp = TopicPartition(f"topic{number}", 0)
        log = Log.create(disk, f"{root}/topic{number}-0", tp, Uuid(os.urandom(16)), config, 1000)
        log.append_as_leader(data, scan(data), 0, 1000)
        log.close(sync=False)
    print(json.dumps({}))
else:
    disk = RealDisk(max_open=100)
    load_log(disk, f"{root}/topic0-0", TopicPartition("topic0", 0), config, clean=True)
    gc.collect()
    before = rss()
    held = load(disk, sys.argv[3] == "clean")
    gc.collect()
    print(json.dumps({"bytes": (rss() - before) / logs, "open": disk.open_files}))
"""


def run(root: Path, phase: str) -> dict[str, float]:
    command = [sys.executable, "-c", PROGRAM, str(root), str(LOGS), phase]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
    return found


def test_an_idle_log_takes_at_most_six_kilobytes_however_it_was_loaded(tmp_path: Path) -> None:
    run(tmp_path, "create")
    for phase in ("clean", "unclean"):
        found = run(tmp_path, phase)
        assert found["bytes"] < LIMIT_BYTES, phase
        assert found["open"] <= 101
