"""UpdateFeatures (key 57): change the finalized feature levels."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int8, Int16, Int32, fresh, message, request, response, since, until


@message
class FeatureUpdateKey:
    feature: str
    max_version_level: Int16
    allow_downgrade: Annotated[bool, until(0)] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@request(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey]
    validate_only: Annotated[bool, since(1)] = False


@message
class UpdatableFeatureResult:
    feature: str
    error_code: Int16
    error_message: str | None


@response(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
    results: Annotated[list[UpdatableFeatureResult], until(1), IGNORABLE] = fresh()
