"""ApiVersions: v0-4.

Behaviour:  what this listener serves, and the cluster's features of which it serves the APIs; needs no authentication.
            A version this node does not know is answered at v0 with UNSUPPORTED_VERSION (the dispatcher does that).
Errors:     a client name or version that breaks KIP-511's pattern is INVALID_REQUEST with an empty list.
"""

from __future__ import annotations

import re

from kavka.broker.config import metrics_are_seen
from kavka.broker.context import BROKER, Context, ListenerKind
from kavka.broker.handlers import HANDLERS, HOT, IMPLEMENTED_FEATURES, TELEMETRY, latest_version, modules
from kavka.broker.handlers.marks import NOTHING, handler
from kavka.metadata.features import KRAFT_VERSION, SUPPORTED, advertised
from kavka.metadata.live import LiveSettings
from kavka.metadata.view import MetadataView
from kavka.model.errors import InvalidRequest
from kavka.model.settings import Values
from kavka.net.session import LONGEST_KEPT
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE_SINCE = 3
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")


def served(kind: ListenerKind = BROKER, values: Values | None = None) -> list[ApiVersion]:
    """The APIs of one kind of listener with their versions."""
    keys = modules(kind, (*HANDLERS, *HOT) if kind == BROKER else HANDLERS)
    return [
        ApiVersion(
            api_key=api.key,
            # KAFKA-18659: librdkafka decides by Produce v0 whether it may compress, so Kafka still lists it.
            min_version=0 if api.key == ApiKey.PRODUCE else api.min_version,
            max_version=latest_version(api, values),
        )
        for api in API.values()
        if api.key in keys and (api.key not in TELEMETRY or values is None or metrics_are_seen(values))
    ]


@handler(ApiVersionsRequest, needs=NOTHING)
async def api_versions(
    request: ApiVersionsRequest, ctx: Context, view: MetadataView, settings: LiveSettings
) -> ApiVersionsResponse:
    """Say what this node can do."""
    names = (request.client_software_name, request.client_software_version)
    if ctx.api_version >= SOFTWARE_SINCE and not all(SOFTWARE.fullmatch(name) for name in names):
        return ApiVersionsResponse(error_code=InvalidRequest.code, api_keys=[])
    if ctx.api_version >= SOFTWARE_SINCE:
        ctx.session.client_software_name, ctx.session.client_software_version = (name[:LONGEST_KEPT] for name in names)
    image = view.image
    finalized = {**image.features.levels, KRAFT_VERSION: view.kraft_version}
    return ApiVersionsResponse(
        error_code=0,
        api_keys=served(ctx.kind, settings.values),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=SUPPORTED[name][0], max_version=SUPPORTED[name][1])
            for name in advertised(SUPPORTED, IMPLEMENTED_FEATURES)
            # KAFKA-17492: clients that speak v3 cannot read a feature whose lowest level is 0.
            if SUPPORTED[name][0] > 0 or ctx.api_version >= 4
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=finalized[name], min_version_level=finalized[name])
            for name in advertised(finalized, IMPLEMENTED_FEATURES)
            if finalized[name] > 0
        ],
    )
