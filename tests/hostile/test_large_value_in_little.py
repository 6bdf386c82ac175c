"""A value of 255 MB in some kilobytes."""

from __future__ import annotations

import pytest

from crash.administration import create_topic
from crash.raw import Raw
from hostile.attacker import batch, packed, peak_bytes, produce, record_of_zeros
from kavka.testing import Cluster

MESSAGE_TOO_LARGE = 10
MAX_GROWTH = 48 << 20


@pytest.mark.parametrize(("codec", "sent_bytes"), [(1, 300 << 10), (3, 1200 << 10), (4, 32 << 10)])
def test_it_is_refused_when_too_much_came_out_and_is_never_in_memory(
    victim: Cluster, codec: int, sent_bytes: int
) -> None:
    topic = f"large-{codec}"
    create_topic(victim.bootstrap, topic, 1, {"max.message.bytes": str(4 << 20)})
    raw = Raw(victim.bootstrap)
    before = peak_bytes(victim.pid)
    bomb = batch(packed(codec, record_of_zeros(255 << 20)), codec=codec)
    assert len(bomb) < sent_bytes
    assert produce(raw, topic, bomb) == (MESSAGE_TOO_LARGE, -1)
    assert peak_bytes(victim.pid) - before < MAX_GROWTH
    raw.close()


def test_a_large_value_that_may_be_is_taken_and_is_never_in_memory(victim: Cluster) -> None:
    create_topic(victim.bootstrap, "fits", 1, {})
    raw = Raw(victim.bootstrap)
    before = peak_bytes(victim.pid)
    assert produce(raw, "fits", batch(packed(4, record_of_zeros(15 << 20)), codec=4)) == (0, 0)
    assert peak_bytes(victim.pid) - before < 15 << 20
    raw.close()
