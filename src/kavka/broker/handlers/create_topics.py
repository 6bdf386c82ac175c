"""CreateTopics: v2-7.

Behaviour:  answers when the topics are committed and the unfenced brokers know them, within the request's timeout
            and two seconds at most; each topic stands or falls by itself.
            From v5 the answer has the configs of the topic, from v7 its id.
Errors:     one per topic; a name given twice is INVALID_REQUEST, and so is __cluster_metadata.
            What refuses the whole request (too many partitions, a failing disk) is said of each topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from kavka.broker.config_changes import MAX_KEYS
from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.broker.quotas import Quotas
from kavka.controller.topics import CreatedTopic, NewTopic
from kavka.metadata.live import LiveSettings
from kavka.metadata.names import CLUSTER_METADATA
from kavka.model.errors import InvalidConfig, InvalidRequest, KafkaError, TopicAuthorizationFailed
from kavka.model.settings import Values
from kavka.model.settings.describe import describe_topic
from kavka.protocol.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation, ResourceType

STRICT_SINCE: Final = 6
"""From this version on a topic is refused (89) when the quota for changes is used up; before, its client waits."""


@handler(CreateTopicsRequest, PER_ITEM, Parts(("topics",), ("topics",), unique=("name",)))
async def create_topics(
    request: CreateTopicsRequest, ctx: Context, controller: ControllerLoop, settings: LiveSettings, quotas: Quotas
) -> CreateTopicsResponse:
    """Create topics."""
    mutations = quotas.mutations(ctx, strict_since=STRICT_SINCE)
    times = Counter(topic.name for topic in request.topics)
    wanted = {topic.name: topic for topic in request.topics}
    outcomes: dict[str, CreatedTopic | KafkaError] = {}
    for name in wanted:
        if times[name] > 1:
            outcomes[name] = InvalidRequest(f"topic {name} is in the request {times[name]} times")
        elif len(wanted[name].configs) > MAX_KEYS:
            outcomes[name] = InvalidConfig(f"there are no {len(wanted[name].configs)} settings of a topic")
        elif name == CLUSTER_METADATA:
            outcomes[name] = InvalidRequest(f"{CLUSTER_METADATA} is the quorum's own")
    if not ctx.allows(Operation.CREATE, ResourceType.CLUSTER, asked=False):
        _, refused = ctx.permitted(Operation.CREATE, ResourceType.TOPIC, wanted.keys() - outcomes.keys(), str)
        outcomes |= dict.fromkeys(refused, TopicAuthorizationFailed("Authorization failed."))
    chosen = [new_topic(topic) for name, topic in wanted.items() if name not in outcomes]
    if chosen:
        try:
            decided = await controller.submit(
                lambda machine, _: machine.create_topics(
                    chosen, validate_only=request.validate_only, charge=mutations.charge
                )
            )
            outcomes.update(decided)
        except KafkaError as error:
            outcomes |= {topic.name: error for topic in chosen}
    broker = settings.values
    plain = config_rows({}, broker)  # most topics set nothing of their own, and all of those look alike
    rows = []
    for name, topic in wanted.items():
        given = {config.name: config.value for config in topic.configs if config.value is not None}
        outcome = outcomes[name]
        if not isinstance(outcome, KafkaError) and not ctx.allows(
            Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, asked=False
        ):
            rows.append(undescribed(name, outcome))
            continue
        configs_of = config_rows(given, broker) if given and not isinstance(outcome, KafkaError) else plain
        rows.append(row(name, outcome, configs_of))
    return CreateTopicsResponse(throttle_time_ms=mutations.throttle_ms, topics=rows)


def new_topic(topic: CreatableTopic) -> NewTopic:
    """What the controller is asked for."""
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication=topic.replication_factor,
        assignments=[(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


def row(name: str, outcome: CreatedTopic | KafkaError, configs: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    """What became of a topic."""
    if isinstance(outcome, KafkaError):
        return CreatableTopicResult(name=name, error_code=outcome.code, error_message=str(outcome))
    return CreatableTopicResult(
        name=name,
        topic_id=outcome.id,
        error_code=0,
        error_message=None,
        num_partitions=outcome.partitions,
        replication_factor=outcome.replication,
        configs=configs,
    )


def undescribed(name: str, outcome: CreatedTopic) -> CreatableTopicResult:
    """A topic whose settings the client may create but not see."""
    return CreatableTopicResult(
        name=name,
        topic_id=outcome.id,
        error_code=0,
        error_message=None,
        topic_config_error_code=TopicAuthorizationFailed.code,
        configs=None,
    )


def config_rows(given: Mapping[str, str], broker: Values) -> list[CreatableTopicConfigs]:
    """The settings of a topic that has these of its own."""
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=False,
            config_source=entry.source.value,
            is_sensitive=entry.sensitive,
        )
        for entry in describe_topic(given, broker)
    ]
