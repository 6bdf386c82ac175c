"""Processes that are counted and ended together."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from bench.rival.family import Family, members, on_cores, split_cores

SPAWNING = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_family_is_its_leaders_and_all_their_descendants() -> None:
    parents = {10: 1, 11: 10, 12: 11, 20: 1, 21: 20, 30: 2}
    assert members(frozenset({10, 20}), parents) == {10, 11, 12, 20, 21}
    assert members(frozenset({99}), parents) == frozenset()


@pytest.mark.parametrize(
    ("available", "brokers", "client"),
    [({0}, {0}, {0}), ({0, 1}, {0}, {1}), ({0, 1, 2}, {0, 1}, {2}), ({4, 5, 6, 7}, {4, 5}, {6, 7})],
)
def test_the_client_is_kept_off_the_brokers_cores_where_there_are_two(
    available: set[int], brokers: set[int], client: set[int]
) -> None:
    assert split_cores(frozenset(available)) == (brokers, client)


def test_a_thread_is_back_on_its_cores_afterwards() -> None:
    before = os.sched_getaffinity(0)
    with on_cores(frozenset({min(before)})):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_a_family_is_pinned_measured_and_ended_with_the_children_of_its_leaders(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    family, log = Family(frozenset({core})), tmp_path / "log"
    leader = family.start([sys.executable, "-c", SPAWNING], log)
    try:
        while not log.read_text().endswith("\n"):
            assert leader.poll() is None
        child = int(log.read_text())
        assert os.sched_getaffinity(leader.pid) == os.sched_getaffinity(child) == {core}
        assert os.getpgid(leader.pid) == leader.pid != os.getpgrp()
        assert family.rss_bytes() > 2 << 20
        assert family.cpu_seconds() > 0
        assert family.ended() is None
    finally:
        family.kill()
    assert leader.returncode is not None
    assert not _runs(child)


def test_a_leader_that_ended_by_itself_is_noticed(tmp_path: Path) -> None:
    family = Family(frozenset(os.sched_getaffinity(0)))
    family.start([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log").wait()
    assert family.ended() == 3
    family.end()


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
