"""Power failures: after the kill every file is cut back to its last fsync, and one is torn in the middle.

Acknowledged metadata is there again; each log is a prefix of what was sent; what was acknowledged after an fsync
(`flush.messages=1`) is there as well; and the node says what it cut.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from crash.administration import Administration, create_topic, work
from crash.history import History, Place, Sender, read_log
from kavka.kernels.batches import scan_prefix
from kavka.testing import Cluster
from kavka.testing.crash_disk import cut_back
from scale import rounds

ROUNDS = rounds(full=20, ci=3)
PARTITIONS = 2
SCRIPT = str(Path(__file__).with_name("node_on_disk.py"))
FLUSHED, SOMETIMES, LAZY = "flushed", "sometimes", "lazy"
TOPICS = {FLUSHED: {"flush.messages": "1"}, SOMETIMES: {"flush.messages": "40"}, LAZY: {}}
PLACES: list[Place] = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_a_power_failure_takes_only_what_was_not_forced_to_disk(rng: random.Random, tmp_path: Path) -> None:
    data_dir, journal = tmp_path / "data", str(tmp_path / "journal")
    data_dir.mkdir()
    logs: dict[Place, list[bytes]] = {place: [] for place in PLACES}
    with Cluster(data_dir=data_dir, program=[sys.executable, SCRIPT, "journal", journal]) as cluster:
        for topic, config in TOPICS.items():
            create_topic(cluster.bootstrap, topic, PARTITIONS, config)
        administration = Administration(cluster.bootstrap, rng)
        for number in range(ROUNDS):
            history = History()
            sender = Sender(f"sender-{number}", cluster.bootstrap, PLACES, history, rng)
            work(sender, administration, history, records=rng.randint(20, 400), changes=1)
            sender.burst(serve_s=0)
            cluster.kill()
            sender.abandon()
            assert history.failures == []
            sys.stdout.write(f"round {number}:\n  " + "\n  ".join(cut_back(journal, str(data_dir), rng)) + "\n")
            torn = torn_logs(data_dir)
            said = len(cluster.log)
            cluster.start()
            for name, cut_bytes in torn.items():
                assert f"{name}: log recovery truncated {cut_bytes} bytes" in cluster.log[said:]
            administration.settle()
            administration.check()
            for place in PLACES:
                logs[place] = check_prefix(place, logs[place], history, read_log(cluster.bootstrap, place))
    assert administration.acknowledged >= ROUNDS


def check_prefix(place: Place, earlier: list[bytes], history: History, log: list[tuple[int, bytes]]) -> list[bytes]:
    """The log holds what an earlier start had recovered, then some of what was sent since; returns its values."""
    assert [offset for offset, _ in log] == list(range(len(log))), f"the offsets of {place} have gaps"
    values = [value for _, value in log]
    wanted = earlier + history.sent[place]
    assert values == wanted[: len(values)], f"{place} is not a prefix of what was sent"
    assert len(values) >= len(earlier), f"{place} lost what an earlier start had recovered"
    if place[0] == FLUSHED:
        for offset, value in history.acknowledged[place].items():
            assert values[offset : offset + 1] == [value], f"{place} lost offset {offset} after its fsync"
    return values


def torn_logs(data_dir: Path) -> dict[str, int]:
    """The partitions whose last segment does not end with a whole batch, and by how many bytes."""
    torn = {}
    for place in PLACES:
        name = f"{place[0]}-{place[1]}"
        segments = sorted(data_dir.glob(f"{name}/*.log"))
        if segments:
            data = segments[-1].read_bytes()
            _, valid, _ = scan_prefix(data)
            if valid < len(data):
                torn[name] = len(data) - valid
    return torn
