"""ElectLeaders: v0-2.

Behaviour:  before v1 always for preferred leaders. Without a list all partitions are meant, and those that need no
            election are left out of the answer. An unclean election asks the live replicas for their log end offsets
            first: the one with the longest log becomes the leader.
Errors:     one per partition: 3 unknown, 84 no election needed, 80 the preferred leader cannot lead, 83 nobody can; an
            error of the whole request is that of every partition as well, for v0 has no other place for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import partial
from typing import Final

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.controller.elections import ElectionType, TopicOutcomes
from kavka.controller.machine import Controller
from kavka.model.errors import KafkaError
from kavka.model.transition import Transition
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.recovery import UncleanRecovery
from kavka.security.acl import Operation

AT_A_TIME: Final = 200
"""How many partitions are decided on at a time."""

Wanted = Sequence[tuple[str, Sequence[int]]]
"""Partitions by topic."""


@handler(ElectLeadersRequest, needs=on_cluster(Operation.ALTER))
async def elect_leaders(
    request: ElectLeadersRequest, ctx: Context, controller: ControllerLoop, recovery: UncleanRecovery
) -> ElectLeadersResponse:
    """Elect leaders."""
    wanted = None
    if request.topic_partitions is not None:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    code, turn = 0, Turn()
    recovered: set[tuple[str, int]] = set()
    rows: dict[str, list[PartitionResult]] = {}
    try:
        if request.election_type == ElectionType.UNCLEAN and controller.is_active:
            recovered = await recovery.elect(wanted)
        for part in [None] if wanted is None else portions(wanted):
            outcomes = await controller.submit(partial(elect, request.election_type, part))
            add(rows, outcomes, recovered)
            await turn.breathe()
        if wanted is None:
            add(rows, [(name, [(index, None)]) for name, index in sorted(recovered)], recovered)
    except KafkaError as error:
        code = error.code
        rows.clear()
        for part in portions(wanted or ()):
            add(rows, [(name, [(index, error) for index in indexes]) for name, indexes in part], set())
            await turn.breathe()
    return ElectLeadersResponse(
        error_code=code if ctx.api_version >= 1 else 0,
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=found) for name, found in rows.items()
        ],
    )


def elect(election_type: int, wanted: Wanted | None, machine: Controller, now_ms: int) -> Transition[TopicOutcomes]:
    """Elect leaders of some of the partitions."""
    return machine.elect_leaders(election_type, wanted)


def portions(wanted: Wanted) -> Iterator[Wanted]:
    """The partitions, some at a time; one portion if there are none."""
    portion: list[tuple[str, Sequence[int]]] = []
    size = 0
    for name, indexes in wanted:
        for first in range(0, max(len(indexes), 1), AT_A_TIME):
            some = indexes[first : first + AT_A_TIME]
            portion.append((name, some))
            size += max(len(some), 1)
            if size >= AT_A_TIME:
                yield portion
                portion, size = [], 0
    if portion or not wanted:
        yield portion


def add(rows: dict[str, list[PartitionResult]], outcomes: TopicOutcomes, recovered: Set[tuple[str, int]]) -> None:
    """Add outcomes to the rows of their topics; what was recovered before did not need an election any more."""
    for name, found in outcomes:
        rows.setdefault(name, []).extend(
            result(index, None if (name, index) in recovered else error) for index, error in found
        )


def result(index: int, error: KafkaError | None) -> PartitionResult:
    """A partition's row."""
    if error is None:
        return PartitionResult(partition_id=index, error_code=0, error_message=None)
    return PartitionResult(partition_id=index, error_code=error.code, error_message=str(error))
