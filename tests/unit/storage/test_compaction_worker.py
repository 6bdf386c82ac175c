from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kavka.storage.cleaning import assess, make_plan, take_in
from kavka.storage.compaction import compact
from kavka.storage.compaction_worker import Pace, decode_plan, decode_result, encode_plan, encode_result

NOW = 1_700_000_000_000


@pytest.fixture
def plan(kit):
    kit.create(compact=True, delete=False)
    kit.append(pid=5, txn=True, key=b"a")
    kit.end_txn(5, commit=False)
    for number in range(10):
        kit.append(key=b"%d" % (number % 3))
    kit.log.roll(NOW)
    return make_plan(assess(kit.log, None, kit.log.log_end_offset, NOW), NOW, 1 << 16)


def start(*what):
    command = [sys.executable, *(what or ("-m", "kavka.storage.compaction_worker"))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(data):
    """The status, output and complaints of a worker whose input stays open while it works."""
    with start() as worker:
        worker.stdin.write(data + b"\n")
        worker.stdin.flush()
        out, complaints = worker.stdout.read(), worker.stderr.read()
        return worker.wait(60), out, complaints


def test_plans_and_results_survive_the_pipe(kit, plan):
    assert plan.aborted
    assert plan.last_offsets
    assert decode_plan(encode_plan(plan)) == plan
    result = compact(kit.disk, plan)
    assert decode_result(encode_result(result)) == result


def test_a_process_compacts_and_the_log_takes_it_in(kit, plan):
    status, out, complaints = run(encode_plan(plan))
    assert (status, complaints) == (0, b"")
    result = decode_result(out)
    assert take_in(kit.log, plan, result, NOW) == 12
    assert result.records_read == 12
    assert [record.key for record in kit.records() if record.key and len(record.key) == 1] == [b"1", b"2", b"0"]


def test_a_process_that_fails_says_why_in_one_line(kit, plan):
    path = Path(kit.log.segments[0].file.path)
    path.write_bytes(path.read_bytes()[:-1])
    status, out, complaints = run(encode_plan(plan))
    assert (status, out) == (1, b"")
    assert complaints.startswith(b"compaction failed: ")
    assert complaints.count(b"\n") == 1


ENDLESS = """
import time
from kavka.storage import compaction_worker
compaction_worker.compact = lambda disk, plan, spend: time.sleep(1000)
compaction_worker.main()
"""


def test_a_process_ends_with_the_node_that_started_it(plan):
    with start("-c", ENDLESS) as worker:
        worker.stdin.write(encode_plan(plan) + b"\n")
        worker.stdin.close()
        assert worker.wait(60) == 1
        assert worker.stderr.read() == b""


def test_what_is_read_and_written_takes_as_long_as_the_rate_says(kit, plan, monkeypatch):
    now, sizes = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    pace = Pace(100.0)

    def spend(size):
        sizes.append(size)
        pace(size)

    result = compact(kit.disk, plan, spend)
    assert sum(sizes) == 2 * sum(source.size for source in plan.segments) + sum(group.size for group in result.groups)
    assert now[0] == pytest.approx(sum(sizes) / 100)
    now[0] += 1000
    pace(100)  # what was not spent is not missed
    assert now[0] == pytest.approx(sum(sizes) / 100 + 1000)
