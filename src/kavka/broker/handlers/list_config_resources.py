"""ListConfigResources: v0-1.

Behaviour:  v0 lists client-metrics subscriptions; v1 any types, or all when none is named: topics and brokers that
            there are, groups and subscriptions that have configs.
Errors:     a type that the version does not have is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.broker.topology import all_brokers
from kavka.metadata.image import MetadataImage, ResourceType
from kavka.metadata.view import MetadataView
from kavka.model.errors import UnsupportedVersion
from kavka.protocol.schemas.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kavka.security.acl import Operation

ORDER = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


@handler(ListConfigResourcesRequest, needs=on_cluster(Operation.DESCRIBE_CONFIGS))
async def list_config_resources(
    request: ListConfigResourcesRequest, ctx: Context, view: MetadataView
) -> ListConfigResourcesResponse:
    """List the resources that have a configuration."""
    supported = ORDER if ctx.api_version >= 1 else (ResourceType.CLIENT_METRICS,)
    asked = request.resource_types or supported
    if not set(asked) <= set(supported):
        raise UnsupportedVersion(f"version {ctx.api_version} cannot list all of these types")
    found = [
        ConfigResource(resource_name=name, resource_type=int(kind))
        for kind in ORDER
        if kind in asked
        for name in names(kind, view.image, ctx.listener)
    ]
    return ListConfigResourcesResponse(error_code=0, config_resources=found)


def names(kind: ResourceType, image: MetadataImage, listener: str) -> Iterable[str]:
    """The names of the resources of one type."""
    if kind is ResourceType.TOPIC:
        return image.topics.by_name.keys()
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker.id) for broker, _ in all_brokers(image, listener)]
    return [resource.name for resource in image.configs.resources if resource.type == kind]
