"""Records of brokers and controllers: registered, fenced, gone."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import Int8, Int16, Int32, Int64, UInt16, fresh, message, record, since, tag


@message
class BrokerEndpoint:
    name: str
    host: str
    port: UInt16
    security_protocol: Int16


@message
class BrokerFeature:
    name: str
    min_supported_version: Int16
    max_supported_version: Int16


@record(key=0, versions="0-4", flexible="0+")
class RegisterBrokerRecord:
    broker_id: Int32
    is_migrating_zk_broker: Annotated[bool, since(2)] = False
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: str | None
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, since(1)] = False
    log_dirs: Annotated[list[Uuid], since(3), tag(0)] = fresh()
    cordoned_log_dirs: Annotated[list[Uuid] | None, since(4), tag(1)] = None


@record(key=1, versions="0", flexible="0+")
class UnregisterBrokerRecord:
    broker_id: Int32
    broker_epoch: Int64


@record(key=17, versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord:
    broker_id: Int32
    broker_epoch: Int64
    fenced: Annotated[Int8, tag(0)] = 0
    in_controlled_shutdown: Annotated[Int8, since(1), tag(1)] = 0
    log_dirs: Annotated[list[Uuid], since(2), tag(2)] = fresh()
    cordoned_log_dirs: Annotated[list[Uuid] | None, since(3), tag(3)] = None


@record(key=7, versions="0", flexible="0+")
class FenceBrokerRecord:
    id: Int32
    epoch: Int64


@record(key=8, versions="0", flexible="0+")
class UnfenceBrokerRecord:
    id: Int32
    epoch: Int64


@message
class ControllerEndpoint:
    name: str
    host: str
    port: UInt16
    security_protocol: Int16


@message
class ControllerFeature:
    name: str
    min_supported_version: Int16
    max_supported_version: Int16


@record(key=27, versions="0", flexible="0+")
class RegisterControllerRecord:
    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]
