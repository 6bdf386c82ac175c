"""ElectLeaders: v0-2.

Behaviour:  before v1 always for preferred leaders. Without a list all partitions are meant, and those that need no
            election are left out of the answer. An unclean election asks the live
            replicas first how far they are: the longest log leads.
Errors:     one per partition: 3 unknown, 84 no election needed, 80 the preferred leader cannot lead, 83 nobody can; an
            error of the whole request is that of every partition as well, for v0 has no other place for it.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.controller.elections import ElectionType, TopicOutcomes
from kavka.model.errors import KafkaError
from kavka.protocol.schemas.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.recovery import UncleanRecovery
from kavka.security.acl import Operation


@handler(
    ElectLeadersRequest,
    on_cluster(Operation.ALTER),
    Parts(("topic_partitions", "partitions"), ("replica_election_results", "partition_result"), 200),
)
async def elect_leaders(
    request: ElectLeadersRequest, ctx: Context, controller: ControllerLoop, recovery: UncleanRecovery
) -> ElectLeadersResponse:
    """Elect leaders."""
    wanted = None
    if request.topic_partitions is not None:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    code = 0
    recovered: set[tuple[str, int]] = set()
    try:
        if request.election_type == ElectionType.UNCLEAN and controller.is_active:
            recovered = await recovery.elect(wanted)
        outcomes = await controller.submit(lambda machine, _: machine.elect_leaders(request.election_type, wanted))
    except KafkaError as error:
        code = error.code
        outcomes = [(name, [(index, error) for index in indexes]) for name, indexes in wanted or ()]
    return ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=code if ctx.api_version >= 1 else 0,
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=[result(*row) for row in rows])
            for name, rows in with_recovered(outcomes, recovered)
        ],
    )


def with_recovered(outcomes: TopicOutcomes, recovered: set[tuple[str, int]]) -> TopicOutcomes:
    """The outcomes, in which what was recovered before did not need an election any more."""
    if not recovered:
        return outcomes
    by_topic: dict[str, set[int]] = {}
    for name, index in recovered:
        by_topic.setdefault(name, set()).add(index)
    found: TopicOutcomes = []
    for name, rows in outcomes:
        mine = by_topic.get(name, set())
        others = [row for row in rows if row[0] not in mine]
        found.append((name, sorted([*others, *((index, None) for index in mine)], key=lambda row: row[0])))
    return found


def result(index: int, error: KafkaError | None) -> PartitionResult:
    """A partition's row."""
    if error is None:
        return PartitionResult(partition_id=index, error_code=0, error_message=None)
    return PartitionResult(partition_id=index, error_code=error.code, error_message=str(error))
