"""UpdateFeatures: v0-2.

Behaviour:  all the updates or none; level 0 switches a feature off. kraft.version 1 puts the voters into the log,
            once all of them are known to support it. Up to v1 a success has a row per feature.
Errors:     INVALID_UPDATE_VERSION for the whole request, saying which feature cannot be set and why.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.controller.features import FeatureUpdate
from kavka.protocol.schemas.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


@handler(UpdateFeaturesRequest, needs=on_cluster(Operation.ALTER))
async def update_features(
    request: UpdateFeaturesRequest, ctx: Context, controller: ControllerLoop
) -> UpdateFeaturesResponse:
    """Finalize other levels of features."""
    updates = {
        update.feature: FeatureUpdate(update.max_version_level, update.upgrade_type)
        for update in request.feature_updates
    }
    await controller.submit(
        lambda machine, _: machine.update_features(
            updates, validate_only=request.validate_only, upgrade_quorum=controller.upgrade_kraft_version
        )
    )
    rows = [UpdatableFeatureResult(feature=name, error_code=0, error_message=None) for name in updates]
    return UpdateFeaturesResponse(error_code=0, error_message=None, results=rows if ctx.api_version <= 1 else [])
