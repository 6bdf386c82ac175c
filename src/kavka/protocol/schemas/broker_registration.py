"""BrokerRegistration (key 62): a broker registers with the controller."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int16, Int32, Int64, UInt16, fresh, message, request, response, since


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


@request(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest:
    broker_id: Int32
    cluster_id: str
    incarnation_id: Uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: str | None
    is_migrating_zk_broker: Annotated[bool, since(1)] = False
    log_dirs: Annotated[list[Uuid], since(2), IGNORABLE] = fresh()
    previous_broker_epoch: Annotated[Int64, since(3), IGNORABLE] = -1


@response(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    broker_epoch: Int64 = -1
