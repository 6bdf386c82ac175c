"""kill -9 under idempotent load: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import random

import pytest

from crash.administration import Administration, create_topic, work
from crash.history import History, Sender, read_log
from kavka.testing import Cluster
from scale import rounds

ROUNDS = rounds(full=50, ci=3)
PARTITIONS = 4


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_no_acknowledged_record_or_change_is_lost_or_doubled_by_kill_9(rng: random.Random) -> None:
    places = [("orders", partition) for partition in range(PARTITIONS)]
    history = History()
    with Cluster() as cluster:
        create_topic(cluster.bootstrap, "orders", PARTITIONS)
        administration = Administration(cluster.bootstrap, rng)
        sender = Sender("sender-0", cluster.bootstrap, places, history, rng)
        for number in range(1, ROUNDS + 1):
            work(sender, administration, history, records=rng.randint(20, 400), changes=1)
            sender.burst(serve_s=0)  # so that requests are under way when the process ends
            cluster.kill()
            for _ in range(rng.randint(0, 2)):
                sender.burst()
            keep = rng.random() < 0.6
            if not keep:
                sender.abandon()
            cluster.start()
            administration.settle()
            administration.check()
            if keep:
                sender.finish()  # the same producer goes on: its retries span the crash
            else:
                sender = Sender(f"sender-{number}", cluster.bootstrap, places, history, rng)
            assert history.failures == []
            for place in places:
                history.check(place, read_log(cluster.bootstrap, place))
    assert history.acknowledgements > 20 * ROUNDS
    assert administration.acknowledged >= ROUNDS
