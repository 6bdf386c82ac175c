"""Ten million records in some kilobytes, to a topic whose keys have to be looked at."""

from __future__ import annotations

from crash.administration import create_topic
from crash.raw import Raw
from hostile.attacker import batch, packed, peak_bytes, produce
from kavka.kernels.batches import encode_record
from kavka.testing import Cluster

MESSAGE_TOO_LARGE = 10
RECORDS = 10_000_000
MAX_GROWTH = 48 << 20


def test_they_are_refused_when_too_much_came_out_and_never_become_objects(victim: Cluster) -> None:
    create_topic(victim.bootstrap, "keys", 1, {"cleanup.policy": "compact"})
    raw = Raw(victim.bootstrap)
    before = peak_bytes(victim.pid)
    some = encode_record(0, 0, b"", None) * 10_000
    bomb = batch(packed(4, [some] * (RECORDS // 10_000)), count=RECORDS, codec=4)
    assert len(bomb) < 64 << 10
    assert produce(raw, "keys", bomb) == (MESSAGE_TOO_LARGE, -1)
    assert peak_bytes(victim.pid) - before < MAX_GROWTH
    raw.close()


def test_as_many_as_may_be_are_taken_and_never_become_objects(victim: Cluster) -> None:
    create_topic(victim.bootstrap, "many", 1, {"cleanup.policy": "compact"})
    raw = Raw(victim.bootstrap)
    before = peak_bytes(victim.pid)
    count = 1_000_000
    parts = [
        b"".join(encode_record(number, 0, b"", None) for number in range(start, start + 10_000))
        for start in range(0, count, 10_000)
    ]
    assert produce(raw, "many", batch(packed(4, parts), count=count, codec=4)) == (0, 0)
    assert raw.produce("many", b"after")[0] == 87  # it has no key
    assert peak_bytes(victim.pid) - before < MAX_GROWTH
    raw.close()
