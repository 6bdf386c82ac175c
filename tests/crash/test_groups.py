"""kill -9 of the node during rebalances and commits: groups resume, and no committed offset is lost."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "compat"))

from groups.play import HEARTBEAT_MS, QUICK, SESSION_MS, Play

from crash.administration import create_topic
from kavka.client import Admin, TopicPartition
from kavka.testing import Cluster
from kavka.testing.crash_disk import cut_back
from scale import rounds

ROUNDS = rounds(full=30, ci=2)
PARTITIONS = 6
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "classic": ("confluent", {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}),
    "consumer": ("confluent", {"group.protocol": "consumer"}),
}


def stir(play: Play, rng: random.Random) -> None:
    """Begin a rebalance."""
    if len(play.members) < 4 and rng.random() < 0.6:
        play.start()
    elif len(play.members) > 1:
        play.remove(rng.choice(play.members), crash=rng.random() < 0.5)


@pytest.mark.timeout(120 + 60 * ROUNDS)
def test_groups_go_on_after_kill_9_and_no_committed_offset_is_lost(rng: random.Random) -> None:
    with Cluster(config=QUICK) as node:
        plays = [Play(node.bootstrap, PARTITIONS, client, configs) for client, configs in KINDS.values()]
        try:
            for play in plays:
                play.start(2)
            for play in plays:
                play.settle()
            for _ in range(ROUNDS):
                for play in plays:
                    stir(play, rng)
                time.sleep(rng.random() * 1.5)  # the moment of the crash is what is tried
                node.kill()
                time.sleep(rng.random() * 0.5)
                node.start()
                for play in plays:
                    play.settle(120)
                    play.check_acknowledged()
            for play in plays:
                play.finish()
                play.check_acknowledged()
        finally:
            for play in plays:
                play.close()


async def commit_all(bootstrap: str, offsets: dict[TopicPartition, int], groups: list[str]) -> None:
    """Commit the same offsets for several groups at once."""
    async with Admin(bootstrap) as admin, asyncio.TaskGroup() as tasks:
        for group in groups:
            tasks.create_task(admin.alter_group_offsets(group, offsets))


async def committed(bootstrap: str, group: str) -> dict[TopicPartition, int]:
    """How far a group has read."""
    async with Admin(bootstrap) as admin:
        return {tp: found.offset for tp, found in (await admin.group_offsets(group)).items()}


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_offsets_that_were_committed_after_an_fsync_survive_a_power_failure(rng: random.Random, tmp_path: Path) -> None:
    data_dir, journal = tmp_path / "data", str(tmp_path / "journal")
    data_dir.mkdir()
    program = [sys.executable, str(Path(__file__).with_name("node_on_disk.py")), "journal", journal]
    config = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "3"}
    groups = [f"g{number}" for number in range(12)]
    places = [TopicPartition("orders", partition) for partition in range(2)]
    with Cluster(data_dir=data_dir, program=program, config=config) as node:
        create_topic(node.bootstrap, "orders", len(places))
        offset = 0
        for number in range(rounds(full=10, ci=2)):
            for _ in range(rng.randint(1, 5)):
                offset += 1
                asyncio.run(commit_all(node.bootstrap, dict.fromkeys(places, offset), groups))
            node.kill()
            sys.stdout.write(f"round {number}:\n  " + "\n  ".join(cut_back(journal, str(data_dir), rng)) + "\n")
            node.start()
            for group in groups:
                assert asyncio.run(committed(node.bootstrap, group)) == dict.fromkeys(places, offset)
