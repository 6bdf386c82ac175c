"""Where `kavka topics reassign` puts partitions."""

from __future__ import annotations

import pytest

from kavka.cli.output import CommandError
from kavka.cli.placement import plan
from kavka.client import PartitionDescription, TopicDescription, TopicPartition
from kavka.model.types import Uuid


def topic(name: str, *replicas: tuple[int, ...]) -> TopicDescription:
    rows = tuple(
        PartitionDescription(index=index, leader=of[0], leader_epoch=0, replicas=of, isr=of, offline=())
        for index, of in enumerate(replicas)
    )
    return TopicDescription(name=name, id=Uuid.ZERO, internal=False, partitions=rows)


def test_partitions_are_spread_over_the_nodes_in_turn() -> None:
    moves = plan([topic("a", (1,), (1,)), topic("b", (1,))], [2, 3], None)
    assert {tp: tuple(after) for tp, (_, after) in moves.items()} == {
        TopicPartition("a", 0): (2,),
        TopicPartition("a", 1): (3,),
        TopicPartition("b", 0): (2,),
    }


def test_what_is_there_already_stays() -> None:
    assert plan([topic("a", (2, 3), (3, 2))], [2, 3, 4], None) == {}


def test_more_replicas_are_a_move_too() -> None:
    moves = plan([topic("a", (1,), (2,))], [1, 2, 3], 3)
    assert [tuple(after) for _, after in moves.values()] == [(1, 2, 3), (2, 3, 1)]


def test_too_few_nodes_are_refused() -> None:
    with pytest.raises(CommandError, match="a has 2 replicas, which 1 nodes cannot hold"):
        plan([topic("a", (1, 2))], [3], None)
