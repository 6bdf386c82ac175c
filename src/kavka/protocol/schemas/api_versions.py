"""ApiVersions (key 18): learn which APIs and versions a node serves, and the cluster's features."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int32, Int64, fresh, message, request, response, since, tag


@request(key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    client_software_name: Annotated[str, since(3), IGNORABLE] = ""
    client_software_version: Annotated[str, since(3), IGNORABLE] = ""


@message
class ApiVersion:
    api_key: Int16
    min_version: Int16
    max_version: Int16


@message
class SupportedFeatureKey:
    name: str
    min_version: Int16
    max_version: Int16


@message
class FinalizedFeatureKey:
    name: str
    max_version_level: Int16
    min_version_level: Int16


@response(key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    supported_features: Annotated[list[SupportedFeatureKey], since(3), tag(0), IGNORABLE] = fresh()
    finalized_features_epoch: Annotated[Int64, since(3), tag(1), IGNORABLE] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], since(3), tag(2), IGNORABLE] = fresh()
    zk_migration_ready: Annotated[bool, since(3), tag(3), IGNORABLE] = False
