"""DescribeConfigs: v1-4.

Behaviour:  every key of a resource with its value, where that was set, and (if asked for) what else could have set
            it; a null or empty list of keys means all. The broker named "" shows what is set for all brokers.
Errors:     one per resource: 3 unknown topic, 17 invalid name, 42 another broker's id or a type that has no configs.
"""

from __future__ import annotations

from kavka.broker.config_changes import require_config_right
from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.metadata.image import ConfigResource, MetadataImage, ResourceType
from kavka.metadata.live import LiveSettings
from kavka.metadata.names import validate_topic_name
from kavka.metadata.view import MetadataView
from kavka.model.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from kavka.model.settings import Values
from kavka.model.settings.describe import (
    Entry,
    describe_broker,
    describe_client_metrics,
    describe_cluster,
    describe_group,
    describe_loggers,
    describe_topic,
)
from kavka.protocol.schemas.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kavka.security.acl import Operation
from kavka.telemetry.loggers import levels


@handler(DescribeConfigsRequest, PER_ITEM, Parts(("resources",), ("results",), 20, fold=True))
async def describe_configs(
    request: DescribeConfigsRequest, ctx: Context, view: MetadataView, settings: LiveSettings
) -> DescribeConfigsResponse:
    """Show the configuration of resources."""
    image, node_id = view.image, view.node_id
    broker = settings.values
    results = []
    for resource in request.resources:
        code, message, found = 0, "", []  # Kafka's message for success is empty, not null
        try:
            require_config_right(ctx, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
            found = entries(resource, image, node_id, broker)
        except KafkaError as error:
            code, message = error.code, error.message  # of a topic that is not there Kafka has no more to say
        results.append(
            DescribeConfigsResult(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[row(entry, request) for entry in found],
            )
        )
    return DescribeConfigsResponse(results=results)


def entries(resource: DescribeConfigsResource, image: MetadataImage, node_id: int, broker: Values) -> list[Entry]:
    """The keys of a resource that were asked for."""
    kind, name, keys = resource.resource_type, resource.resource_name, resource.configuration_keys
    texts = image.configs.of(ConfigResource(kind, name))
    if kind == ResourceType.TOPIC:
        validate_topic_name(name)
        if name not in image.topics.by_name:
            raise UnknownTopicOrPartition
        return describe_topic(texts, broker, keys)
    if kind == ResourceType.BROKER and not name:
        return describe_cluster(broker, keys)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        check_broker(name, node_id)
        return describe_broker(broker, keys) if kind == ResourceType.BROKER else describe_loggers(levels(), keys)
    if kind not in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
        raise InvalidRequest(f"resources of type {kind} have no configuration")
    if not name:
        raise InvalidRequest("the resource has no name")
    return describe_group(texts, broker, keys) if kind == ResourceType.GROUP else describe_client_metrics(texts, keys)


def check_broker(name: str, node_id: int) -> None:
    """Raise InvalidRequest for a broker that is not this one."""
    if not (name.isascii() and name.lstrip("-").isdigit()):
        raise InvalidRequest(f"{name!r} is no broker id")
    if int(name) != node_id:
        raise InvalidRequest(f"this is broker {node_id}: broker {name} is described at its own address")


def row(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    """A key's row."""
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source.value,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source.value)
            for synonym in synonyms
        ],
        config_type=entry.type_code,
        documentation=entry.documentation if request.include_documentation else None,
    )
