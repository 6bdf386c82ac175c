"""Schemas as large as requests may be, and batches full of schemas that nobody has: no callback holds the loop."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from crash.administration import create_topic
from crash.raw import Raw
from hostile.attacker import batch, packed, peak_bytes, produce
from hostile.test_blow_up import GAP_MS
from kavka.kernels.batches import encode_record
from kavka.testing import Cluster

INVALID_RECORD = 87
MAX_GROWTH = 48 << 20
RECORDS = 500_000


class Victim:
    """A watched node with a registry."""

    def __init__(self, cluster: Cluster, watched: TextIO) -> None:
        self.cluster = cluster
        self._watched = watched

    def forget(self) -> None:
        """Take no account of what was until now."""
        self._watched.read()

    def held_ms(self) -> float:
        """How much CPU time the longest callback has taken since."""
        with urllib.request.urlopen(f"{self.cluster.registry}/subjects", timeout=120) as answer:
            answer.read()  # its answer comes after the callbacks that are asked about have ended
        return max((float(line.split(" ", 1)[0]) for line in self._watched.read().splitlines()), default=0.0)

    def register(self, size: int) -> int:
        """The status with which a schema of about so many bytes is answered."""
        fields = [{"name": f"field_{number:07}", "type": ["null", "string"]} for number in range(size // 49)]
        text = json.dumps({"type": "record", "name": "Wide", "fields": fields}, separators=(",", ":"))
        request = urllib.request.Request(
            f"{self.cluster.registry}/subjects/wide-{size}/versions", json.dumps({"schema": text}).encode()
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code


@pytest.fixture(scope="module")
def watched_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    file = tmp_path_factory.mktemp("watched") / "watched"
    file.touch()
    program = [sys.executable, str(Path(__file__).with_name("watched.py"))]
    config = {"kavka.registry.listener": "127.0.0.1:0"}
    with Cluster(program=program, env={"KAVKA_WATCHED": str(file)}, config=config) as cluster, file.open() as lines:
        victim = Victim(cluster, lines)
        assert victim.register(100) == 200  # what a node loads once is not what is looked at here
        yield victim


@pytest.mark.parametrize(("size", "status"), [(800_000, 200), (1_400_000, 422), (3_400_000, 413)])
def test_a_large_schema_holds_nobody_up(watched_node: Victim, size: int, status: int) -> None:
    watched_node.forget()
    assert watched_node.register(size) == status
    assert watched_node.held_ms() < GAP_MS


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_many_schemas_that_nobody_has_hold_nobody_up(watched_node: Victim, codec: int) -> None:
    topic, victim = f"checked-{codec}", watched_node.cluster
    configs = {"confluent.value.schema.validation": "true", "max.message.bytes": "9000000"}
    create_topic(victim.bootstrap, topic, 1, configs)
    records = b"".join(encode_record(at, 0, None, b"\0" + at.to_bytes(4, "big"), ()) for at in range(RECORDS))
    raw = Raw(victim.bootstrap)
    bomb = batch(packed(codec, [records]), count=RECORDS, codec=codec)
    watched_node.forget()
    before = peak_bytes(victim.pid)
    assert produce(raw, topic, bomb)[0] == INVALID_RECORD
    assert watched_node.held_ms() < GAP_MS
    assert peak_bytes(victim.pid) - before < MAX_GROWTH + 3 * len(bomb)
    raw.close()
