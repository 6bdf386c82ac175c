"""A simulated replica tells its producers what the checks count on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kavka.metadata.image import PartitionImage
from kavka.model.types import Uuid
from kavka.replication.leader import Leadership
from kavka.testing.sim.checks import Checks
from kavka.testing.sim.disk import PartitionFiles
from kavka.testing.sim.replica import Committed, FetchFrom, SimReplica
from kavka.testing.sim.world import World

KEY = (Uuid(bytes(16)), 0)
HERE, OTHER = 1, 2


def test_a_record_counts_as_acknowledged_in_the_epoch_that_committed_it() -> None:
    """Whoever leads a later epoch must have it; a leader of an earlier one, which hears of that late, need not."""
    world = World(0)
    broker: Any = SimpleNamespace(
        id=HERE,
        world=world,
        checks=Checks(world),
        min_isr=2,
        brokers={},
        has_news=lambda: None,
        alter_isr=lambda *_: None,
    )
    replica = SimReplica(broker, KEY, PartitionFiles(), Leadership)
    told: list[Any] = []
    replica.follow(PartitionImage(HERE, 4, 7, (HERE, OTHER), (HERE, OTHER), ()))
    replica.produce("a", told.append)
    assert told == []
    replica.follow(PartitionImage(HERE, 5, 8, (HERE, OTHER), (HERE, OTHER), ()))
    assert told == []
    replica.serve(OTHER, 0, FetchFrom(KEY, 5, offset=1, last_epoch=4, log_start=0))
    assert told == [Committed(offset=0, leader_epoch=5)]
