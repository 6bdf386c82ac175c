"""AlterConfigs: v0-2.

Behaviour:  replaces all configs of a resource; IncrementalAlterConfigs is the kinder way.
Errors:     one per resource: 42 for a malformed change (also of a broker's settings), 40 for a value that is not
            allowed, 3 for an unknown topic.
"""

from __future__ import annotations

from kavka.broker.config_changes import RESOURCES, ConfigChecks, change_configs
from kavka.broker.context import BROKER, Context
from kavka.broker.forwarding import Forwarding
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.metadata.image import ConfigResource
from kavka.metadata.live import LiveSettings
from kavka.protocol.schemas.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kavka.quorum.controller_loop import ControllerLoop


@handler(AlterConfigsRequest, PER_ITEM, RESOURCES)
async def alter_configs(
    request: AlterConfigsRequest,
    ctx: Context,
    controller: ControllerLoop,
    settings: LiveSettings,
    forwarding: Forwarding,
) -> AlterConfigsResponse:
    """Replace the configuration of resources."""
    asked = controller.node_id if ctx.kind == BROKER else None
    checks = ConfigChecks(asked, settings, controller.image.configs)
    outcomes = await change_configs(
        request,
        ctx,
        checks.replacement,
        lambda wanted: controller.submit(
            lambda machine, _: machine.alter_configs(wanted, validate_only=request.validate_only)
        ),
        forwarding,
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
    return AlterConfigsResponse(responses=rows)
