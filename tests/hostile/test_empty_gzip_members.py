"""47,500 empty gzip members: each step behind one must not copy all that are left."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import pytest

from crash.administration import create_topic
from crash.raw import Raw
from hostile.attacker import batch, produce
from kavka.kernels.batches import encode_record
from kavka.testing import Cluster
from kavka.wire import compression

MEMBERS = 47_500
DATA = gzip.compress(encode_record(0, 0, b"k", b"v")) + gzip.compress(b"") * MEMBERS


def test_every_member_is_a_step_that_looks_at_little(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    real = zlib.decompressobj

    class Counting:
        def __init__(self, bits: int) -> None:
            self._real = real(bits)

        def decompress(self, data: Any, limit: int) -> bytes:
            nonlocal taken
            taken += len(data)
            return self._real.decompress(data, limit)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    monkeypatch.setattr(compression.zlib, "decompressobj", Counting)
    steps = sum(1 for _ in compression.chunks(1, DATA))
    assert steps > MEMBERS
    assert taken <= (MEMBERS + 2) * 8192  # not with the square of what was sent


def test_they_are_taken_as_kafka_takes_them(victim: Cluster) -> None:
    create_topic(victim.bootstrap, "members", 1, {})
    raw = Raw(victim.bootstrap)
    assert produce(raw, "members", batch(DATA, codec=1)) == (0, 0)
    assert raw.produce("members", b"after") == (0, 1)
    raw.close()
