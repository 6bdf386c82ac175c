"""DeleteTopics: v1-6.

Behaviour:  by name, or from v6 by name or id; answers when the deletions are committed.
Errors:     one per topic: 3 unknown name, 100 unknown id, 42 named twice, or named both by name and by id.
            With delete.topic.enable=false every topic is TOPIC_DELETION_DISABLED (INVALID_REQUEST before v3).
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.quotas import Quotas
from kavka.metadata.image import TopicsImage
from kavka.metadata.live import LiveSettings
from kavka.model.errors import (
    InvalidRequest,
    KafkaError,
    TopicAuthorizationFailed,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kavka.model.settings import DELETE_TOPIC_ENABLE
from kavka.model.types import Uuid
from kavka.protocol.schemas.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation, ResourceType

STRICT_SINCE: Final = 5
"""From this version on a topic is refused (89) when the quota for changes is used up; before, its client waits."""


class NameAndId(NamedTuple):
    """How a request names a topic: by one of both."""

    name: str | None
    topic_id: Uuid


@handler(DeleteTopicsRequest, needs=PER_ITEM)
async def delete_topics(
    request: DeleteTopicsRequest, ctx: Context, controller: ControllerLoop, settings: LiveSettings, quotas: Quotas
) -> DeleteTopicsResponse:
    """Delete topics."""
    named = [DeleteTopicState(name=name, topic_id=Uuid.ZERO) for name in request.topic_names]
    asked = [*named, *request.topics]
    if not settings[DELETE_TOPIC_ENABLE]:
        refused = TopicDeletionDisabled() if ctx.api_version >= 3 else InvalidRequest("topics are not deleted here")
        return DeleteTopicsResponse(responses=[result(topic, refused) for topic in asked])
    mutations = quotas.mutations(ctx, strict_since=STRICT_SINCE)
    rows, chosen = sorted_out(asked, controller.image.topics, ctx)
    if chosen:
        outcomes: dict[Uuid, KafkaError | None]
        try:
            outcomes = await controller.submit(
                lambda machine, _: machine.delete_topics(list(chosen), charge=mutations.charge)
            )
        except KafkaError as error:
            outcomes = dict.fromkeys(chosen, error)
        rows += [result(DeleteTopicState(name=name, topic_id=id_), outcomes[id_]) for id_, name in chosen.items()]
    return DeleteTopicsResponse(throttle_time_ms=mutations.throttle_ms, responses=rows)


def sorted_out(
    asked: list[DeleteTopicState], topics: TopicsImage, ctx: Context
) -> tuple[list[DeletableTopicResult], dict[Uuid, str]]:
    """The rows of what cannot be deleted, and the names by id of what can."""
    rows: list[DeletableTopicResult] = []
    chosen: dict[Uuid, str] = {}
    twice: set[Uuid] = set()
    times = Counter(NameAndId(topic.name, topic.topic_id) for topic in asked)
    # Ids come first, so that a name that means the same topic is the one that is refused.
    for key in sorted(times, key=lambda key: key.name is not None):
        state = DeleteTopicState(name=key.name, topic_id=key.topic_id)
        try:
            id_, name = resolve(state, times[key], topics)
            if not may_delete(name, ctx):
                shown = ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, name, asked=False)
                rows.append(
                    result(DeleteTopicState(name=name, topic_id=id_) if shown else state, TopicAuthorizationFailed())
                )
                continue
        except KafkaError as error:
            hidden = isinstance(error, UnknownTopicOrPartition) and not may_delete(state.name or "", ctx)
            rows.append(result(state, TopicAuthorizationFailed() if hidden else error))
            continue
        if id_ in chosen or id_ in twice:
            chosen.pop(id_, None)
            twice.add(id_)
            both = InvalidRequest(f"topic {name} is named both by name and by id")
            rows.append(result(DeleteTopicState(name=name, topic_id=id_), both))
        else:
            chosen[id_] = name
    return rows, chosen


def may_delete(name: str, ctx: Context) -> bool:
    """Whether the client may delete a topic."""
    return ctx.allows(Operation.DELETE, ResourceType.CLUSTER, asked=False) or ctx.allows(
        Operation.DELETE, ResourceType.TOPIC, name
    )


def resolve(state: DeleteTopicState, times: int, topics: TopicsImage) -> tuple[Uuid, str]:
    """The id and name of a topic that may be deleted."""
    if state.name is not None and state.topic_id != Uuid.ZERO:
        raise InvalidRequest("a topic is named either by name or by id")
    if state.name is None and state.topic_id == Uuid.ZERO:
        raise InvalidRequest("a topic is named neither by name nor by id")
    if times > 1:
        raise InvalidRequest("a topic is named more than once")
    topic = topics.by_id.get(state.topic_id) if state.name is None else topics.by_name.get(state.name)
    if topic is None:
        if state.name is None:
            raise UnknownTopicId(f"there is no topic with id {state.topic_id}")
        raise UnknownTopicOrPartition(f"there is no topic {state.name}")
    return topic.id, topic.name


def result(state: DeleteTopicState, error: KafkaError | None) -> DeletableTopicResult:
    """A topic's row."""
    return DeletableTopicResult(
        name=state.name,
        topic_id=state.topic_id,
        error_code=0 if error is None else error.code,
        error_message=None if error is None else str(error),
    )
