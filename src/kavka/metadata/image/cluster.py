"""The registered brokers and controllers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kavka.metadata.faults import MetadataError
from kavka.metadata.records.nodes import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kavka.model.types import Endpoint, Uuid

MIGRATING: Final = Uuid.ZERO
"""The directory of a replica from before directories had ids."""
UNASSIGNED: Final = Uuid(bytes(15) + b"\x01")
"""The directory of a replica that its broker has not placed yet."""
LOST: Final = Uuid(bytes(15) + b"\x02")
"""The directory of a replica whose broker lost it without saying which."""

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By their codes on the wire and in records."""


def is_reserved(directory: Uuid) -> bool:
    """Whether no real directory may have this id: the first hundred are Kafka's."""
    return directory[:15] == MIGRATING[:15] and directory[15] < 100


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker as it registered itself, and how the controller sees it."""

    id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    cordoned: tuple[Uuid, ...] | None = None

    @property
    def active(self) -> bool:
        """Whether it may lead partitions and join their ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where it serves a listener."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None

    def has_online(self, directory: Uuid) -> bool:
        """Whether a replica in this directory can be served."""
        if directory in self.directories:
            return True
        if directory == LOST:
            return False
        return directory in (UNASSIGNED, MIGRATING) or not self.directories

    @property
    def default_directory(self) -> Uuid:
        """Where a new replica will be, as far as the controller can know."""
        if not self.directories:
            return MIGRATING
        return self.directories[0] if len(self.directories) == 1 else UNASSIGNED

    @property
    def takes_replicas(self) -> bool:
        """Whether a directory is left that is not cordoned."""
        if not self.directories or self.cordoned is None:
            return True
        return any(directory not in self.cordoned for directory in self.directories)


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """A controller as it registered itself."""

    id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Who is in the cluster."""

    brokers: Mapping[int, BrokerRegistration]
    controllers: Mapping[int, ControllerRegistration]

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered and may lead."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def default_directory(self, broker_id: int) -> Uuid:
        """Where a new replica on a broker will be; UNASSIGNED for a broker that is not registered."""
        broker = self.brokers.get(broker_id)
        return UNASSIGNED if broker is None else broker.default_directory


EMPTY_CLUSTER = ClusterImage({}, {})


class ClusterDraft:
    """The cluster image being changed by records."""

    def __init__(self, image: ClusterImage) -> None:
        self.changed_brokers: set[int] = set()
        self.changed_controllers: set[int] = set()
        self._image = image
        self._brokers = image.brokers
        self._controllers = image.controllers

    def register_broker(self, record: RegisterBrokerRecord) -> None:
        """Add a broker, or replace what was known of it."""
        self._put(
            BrokerRegistration(
                id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=_endpoints(record.end_points),
                features=_features(record.features),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                directories=tuple(sorted(record.log_dirs)),
                cordoned=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
            )
        )

    def unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        """Forget a broker."""
        broker = self._broker(record.broker_id, record.broker_epoch)
        self.changed_brokers.add(broker.id)
        self._brokers = {id_: known for id_, known in self._brokers.items() if id_ != broker.id}

    def fence_broker(self, record: FenceBrokerRecord) -> None:
        """Take a broker out of service (how it was written before 3.3)."""
        self._put(replace(self._broker(record.id, record.epoch), fenced=True))

    def unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        """Unfence a broker (how it was written before 3.3)."""
        self._put(replace(self._broker(record.id, record.epoch), fenced=False))

    def change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        """Change a broker's fencing, controlled shutdown or directories."""
        broker = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise MetadataError(f"broker {broker.id} is put in an unknown state")
        if record.fenced:
            broker = replace(broker, fenced=record.fenced == 1)
        if record.in_controlled_shutdown:
            broker = replace(broker, in_controlled_shutdown=True)
        if record.log_dirs:
            broker = replace(broker, directories=tuple(sorted(record.log_dirs)))
        if record.cordoned_log_dirs is not None:
            broker = replace(broker, cordoned=tuple(record.cordoned_log_dirs))
        self._put(broker)

    def register_controller(self, record: RegisterControllerRecord) -> None:
        """Add a controller, or replace what was known of it."""
        self.changed_controllers.add(record.controller_id)
        self._controllers = {
            **self._controllers,
            record.controller_id: ControllerRegistration(
                id=record.controller_id,
                incarnation_id=record.incarnation_id,
                endpoints=_endpoints(record.end_points),
                features=_features(record.features),
            ),
        }

    def build(self) -> ClusterImage:
        """The image with the changes."""
        if not self.changed_brokers and not self.changed_controllers:
            return self._image
        return ClusterImage(self._brokers, self._controllers)

    def _put(self, broker: BrokerRegistration) -> None:
        self.changed_brokers.add(broker.id)
        self._brokers = {**self._brokers, broker.id: broker}

    def _broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise MetadataError(f"a record changes broker {broker_id} at epoch {epoch}, which is not registered")
        return broker


def _endpoints(written: Iterable[object]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(endpoint.name, endpoint.host, endpoint.port, _protocol(endpoint.security_protocol))  # type: ignore[attr-defined]
        for endpoint in written
    )


def _protocol(code: int) -> str:
    if not 0 <= code < len(SECURITY_PROTOCOLS):
        raise MetadataError(f"an endpoint has unknown security protocol {code}")
    return SECURITY_PROTOCOLS[code]


def _features(written: Iterable[object]) -> dict[str, tuple[int, int]]:
    return {
        feature.name: (feature.min_supported_version, feature.max_supported_version)  # type: ignore[attr-defined]
        for feature in written
    }
