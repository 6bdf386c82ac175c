"""IncrementalAlterConfigs: v0-1.

Behaviour:  sets, deletes, appends to or subtracts from single keys of a resource, all of them or none. Log levels
            are changed on the node that is asked, until it stops.
Errors:     one per resource: 42 for a malformed change (also of a broker's settings), 40 for a value that is not
            allowed, 3 for an unknown topic.
"""

from __future__ import annotations

from kavka.broker.config_changes import RESOURCES, ConfigChecks, LoggerChanges, change_configs
from kavka.broker.context import BROKER, Context
from kavka.broker.forwarding import Forwarding
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.metadata.image import ConfigResource
from kavka.metadata.live import LiveSettings
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kavka.quorum.controller_loop import ControllerLoop


@handler(
    IncrementalAlterConfigsRequest,
    PER_ITEM,
    RESOURCES,
)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest,
    ctx: Context,
    controller: ControllerLoop,
    settings: LiveSettings,
    forwarding: Forwarding,
) -> IncrementalAlterConfigsResponse:
    """Change single keys of resources."""
    asked = controller.node_id if ctx.kind == BROKER else None
    checks = ConfigChecks(asked, settings, controller.image.configs)
    loggers = LoggerChanges(controller.node_id, validate_only=request.validate_only)
    outcomes = await change_configs(
        request,
        ctx,
        checks.increments,
        lambda changes: controller.submit(
            lambda machine, _: machine.incremental_alter_configs(changes, validate_only=request.validate_only)
        ),
        forwarding,
        loggers,
    )
    rows = []
    for resource in request.resources:
        error = outcomes[ConfigResource(resource.resource_type, resource.resource_name)]
        rows.append(
            AlterConfigsResourceResponse(
                error_code=0 if error is None else error.code,
                error_message=None if error is None else str(error),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=rows)
