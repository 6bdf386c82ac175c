"""CreatePartitions: v0-3.

Behaviour:  the count is the total number of partitions of the topic; answers when they are committed.
Errors:     one per topic; a topic named twice is INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.broker.quotas import Quotas
from kavka.controller.topics import NewPartitions
from kavka.model.errors import InvalidRequest, KafkaError, TopicAuthorizationFailed
from kavka.protocol.schemas.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation, ResourceType

STRICT_SINCE: Final = 3
"""From this version on a topic is refused (89) when the quota for changes is used up; before, its client waits."""


@handler(CreatePartitionsRequest, PER_ITEM, Parts(("topics",), ("results",), unique=("name",)))
async def create_partitions(
    request: CreatePartitionsRequest, ctx: Context, controller: ControllerLoop, quotas: Quotas
) -> CreatePartitionsResponse:
    """Give topics more partitions."""
    mutations = quotas.mutations(ctx, strict_since=STRICT_SINCE)
    times = Counter(topic.name for topic in request.topics)
    outcomes: dict[str, KafkaError | None] = {
        name: InvalidRequest(f"topic {name} is in the request {count} times")
        for name, count in times.items()
        if count > 1
    }
    _, refused = ctx.permitted(Operation.ALTER, ResourceType.TOPIC, times.keys() - outcomes.keys(), str)
    outcomes |= dict.fromkeys(refused, TopicAuthorizationFailed())
    chosen = [
        NewPartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments],
        )
        for topic in request.topics
        if topic.name not in outcomes
    ]
    if chosen:
        try:
            decided = await controller.submit(
                lambda machine, _: machine.create_partitions(
                    chosen, validate_only=request.validate_only, charge=mutations.charge
                )
            )
            outcomes.update(decided)
        except KafkaError as error:
            outcomes |= {topic.name: error for topic in chosen}
    rows = [result(name, outcomes[name]) for name in times]
    return CreatePartitionsResponse(throttle_time_ms=mutations.throttle_ms, results=rows)


def result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    """A topic's row."""
    if error is None:
        return CreatePartitionsTopicResult(name=name, error_code=0, error_message=None)
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message or None)
