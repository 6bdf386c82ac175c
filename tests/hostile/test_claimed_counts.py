"""Seventy bytes that claim two thousand million records: each would use up a segment's offsets and roll it."""

from __future__ import annotations

import pytest

from crash.administration import create_topic
from crash.raw import Raw
from hostile.attacker import MAX_COUNT, batch, packed, produce
from kavka.kernels.batches import encode_record
from kavka.testing import Cluster

INVALID_RECORD = 87


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_has_no_more_records_than_it_holds(victim: Cluster, codec: int) -> None:
    create_topic(victim.bootstrap, f"claims-{codec}", 1, {})
    raw = Raw(victim.bootstrap)
    claims = batch(packed(codec, [encode_record(0, 0, None, b"v")]), count=MAX_COUNT, codec=codec)
    assert len(claims) < 150
    for _ in range(20):
        assert produce(raw, f"claims-{codec}", claims) == (INVALID_RECORD, -1)
    assert raw.produce(f"claims-{codec}", b"sound") == (0, 0)
    raw.close()
    assert len(list((victim.data_dir / f"claims-{codec}-0").glob("*.log"))) == 1
