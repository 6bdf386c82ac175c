"""Random bytes under a right CRC: a consumer would stop before them for good."""

from __future__ import annotations

import random

import pytest

from crash.administration import create_topic
from crash.raw import Raw
from hostile.attacker import batch, packed, produce
from kavka.testing import Cluster

UNKNOWN_SERVER_ERROR = -1
INVALID_RECORD = 87


@pytest.mark.parametrize("codec", range(5))
def test_what_is_no_record_is_not_kept(victim: Cluster, codec: int) -> None:
    create_topic(victim.bootstrap, f"poison-{codec}", 1, {})
    raw = Raw(victim.bootstrap)
    noise = random.Random(codec).randbytes(400)
    assert produce(raw, f"poison-{codec}", batch(packed(codec, [noise]), codec=codec)) == (INVALID_RECORD, -1)
    if codec:
        assert produce(raw, f"poison-{codec}", batch(noise, codec=codec)) == (UNKNOWN_SERVER_ERROR, -1)
    assert raw.produce(f"poison-{codec}", b"sound") == (0, 0)
    raw.close()
