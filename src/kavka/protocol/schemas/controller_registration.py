"""ControllerRegistration (key 70): a controller registers with the active one."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, UInt16, message, request, response


@message
class Listener:
    name: str
    host: str
    port: UInt16
    security_protocol: Int16


@message
class Feature:
    name: str
    min_supported_version: Int16
    max_supported_version: Int16


@request(key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest:
    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: bool
    listeners: list[Listener]
    features: list[Feature]


@response(key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
