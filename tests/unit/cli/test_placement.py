"""Where `kavka topics reassign` puts partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import pytest

from kavka.cli.output import CommandError
from kavka.cli.placement import cancel, move, plan, planned
from kavka.client import ClusterDescription, Node, PartitionDescription, Reassignment, TopicDescription, TopicPartition
from kavka.model.errors import InvalidReplicaAssignment
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


class Brokers:
    """Brokers 1 to 3: a partition that only loses replicas has lost them at once, one that gets some is on its way."""

    def __init__(self, replicas: dict[TopicPartition, tuple[int, ...]], refused: TopicPartition | None = None) -> None:
        self.replicas = replicas
        self.moving: dict[TopicPartition, Reassignment] = {}
        self.refused = refused
        self.asked = 0

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 1, tuple(Node(id_, "h", 9092, None) for id_ in (1, 2, 3)))

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        return {
            name: topic(name, *(of for tp, of in sorted(self.replicas.items()) if tp.topic == name)) for name in names
        }

    async def reassignments(self) -> dict[TopicPartition, Reassignment]:
        return dict(self.moving)

    async def reassign(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        self.asked += 1
        for tp, wanted in replicas.items():
            if wanted is None:
                del self.moving[tp]
            elif tp != self.refused and set(wanted) <= set(self.replicas[tp]):
                self.replicas[tp] = tuple(wanted)
            elif tp != self.refused:
                self.moving[tp] = Reassignment(self.replicas[tp], tuple(wanted), ())
        if self.refused in replicas:
            self.refused = None
            raise InvalidReplicaAssignment("one of them is refused")


def at(index: int) -> TopicPartition:
    return TopicPartition("a", index)


def test_a_node_that_is_not_there_is_refused_before_anything_is_asked_for() -> None:
    brokers = Brokers({at(0): (1, 2), at(1): (2, 1)})
    with pytest.raises(CommandError, match="99 is no broker in service; these are: 1, 2, 3"):
        asyncio.run(planned(brokers, ["a"], [1, 99], 1))
    assert brokers.asked == 0


def test_if_one_partition_is_refused_none_moves() -> None:
    before = {at(0): (1, 2), at(1): (2, 3), at(2): (3, 1)}
    brokers = Brokers(dict(before), refused=at(2))
    moves = {at(0): ((1, 2), (1,)), at(1): ((2, 3), (1, 2)), at(2): ((3, 1), (1,))}
    with pytest.raises(CommandError, match=r"one of them is refused .* 2 partitions that had begun to move"):
        asyncio.run(move(brokers, moves, wait=True))
    assert brokers.moving.keys() <= {at(0)}  # its second replica is on its way back
    assert at(1) not in brokers.moving
    assert {
        tp: brokers.moving[tp].adding if tp in brokers.moving else of for tp, of in brokers.replicas.items()
    } == before


def test_a_move_that_is_under_way_is_undone() -> None:
    brokers = Brokers({at(0): (1, 2), at(1): (2, 3)})
    asyncio.run(move(brokers, {at(0): ((1, 2), (3,))}, wait=False))
    assert brokers.moving.keys() == {at(0)}
    rows = asyncio.run(cancel(brokers, ["a"]))
    assert rows == [{"topic": "a", "partition": 0, "from": [1, 2], "to": None}]
    assert not brokers.moving
