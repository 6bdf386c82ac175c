"""Registering brokers and controllers: who they are, where they are reached, what they can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kavka.controller.brokers import BrokerRequest, ControllerRequest
from kavka.controller.contacts import BrokerContacts
from kavka.controller.effective import Effective
from kavka.controller.index import PartitionIndex
from kavka.controller.partition_changes import PartitionChanges
from kavka.metadata.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    MV_CONTROLLER_REGISTRATION,
    MV_CORDONED_DIRS,
    MV_DIRECTORIES,
)
from kavka.metadata.image import BrokerRegistration, MetadataImage
from kavka.metadata.image.cluster import SECURITY_PROTOCOLS, is_reserved
from kavka.metadata.records.nodes import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from kavka.model.errors import (
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    UnsupportedVersion,
)
from kavka.model.transition import Divisible, Transition
from kavka.model.types import Endpoint, Uuid


class Registrations:
    """Decides who is a member."""

    def __init__(self, cluster_id: str, effective: Effective, contacts: BrokerContacts, index: PartitionIndex) -> None:
        self._cluster_id = cluster_id
        self._effective = effective
        self._contacts = contacts
        self._index = index

    def register(
        self, image: MetadataImage, request: BrokerRequest, kraft_version: int, now_ms: int
    ) -> Transition[int]:
        """Register a broker, fenced at first; the reply is its epoch, the offset of its registration record."""
        if request.cluster_id != self._cluster_id:
            raise InconsistentClusterId(f"this is cluster {self._cluster_id}, not {request.cluster_id}")
        known = image.cluster.brokers.get(request.broker_id)
        fresh = known is None or known.incarnation_id != request.incarnation_id
        if known is not None and fresh and self._lives(known, request, now_ms):
            raise DuplicateBrokerRegistration(
                f"another broker {known.id} is in service; if it was just restarted, its session ends soon"
            )
        _check_directories(image, request)
        _check_features({**image.features.levels, KRAFT_VERSION: kraft_version}, request)
        records: list[Any] = []
        if fresh:
            clean = known is not None and known.epoch == request.previous_epoch
            records += self._stopped(image, request.broker_id, clean)
        epoch = image.offset + 1 + len(records) if known is None or fresh else known.epoch
        records.append(_registration(image, request, epoch, None if fresh else known))
        if fresh:
            # It counts as heard: a registration of its last incarnation that comes late must not take its place.
            self._contacts.hear(request.broker_id, epoch, -1, now_ms, request.connection)
        # The registration comes last: cut off before it, the broker registers again and the rest is done again.
        return Transition(epoch, Divisible(records))

    def _lives(self, known: BrokerRegistration, request: BrokerRequest, now_ms: int) -> bool:
        """Whether another incarnation of a broker is thought to run.

        A log directory is locked by the process that uses it: who has the same one and comes when nothing speaks for
        the other any more is what that has become.
        """
        if not self._contacts.in_session(known, now_ms):
            return False
        same_disk = not set(known.directories).isdisjoint(request.directories)
        return not (same_disk and self._contacts.in_doubt(known.id, request.connection))

    def _stopped(self, image: MetadataImage, broker_id: int, clean: bool) -> list[Any]:
        """What the end of a broker's last incarnation means for partitions; after a crash it may have lost records."""
        changes = PartitionChanges(image, self._effective, self._index)
        if clean or not image.features.elr_enabled:
            return list(changes.left(broker_id))
        return list(changes.crashed(broker_id))

    def register_controller(self, image: MetadataImage, request: ControllerRequest) -> Transition[None]:
        """Register a controller."""
        if image.features.metadata_version < MV_CONTROLLER_REGISTRATION:
            raise UnsupportedVersion(f"controllers register from {METADATA_VERSION} {MV_CONTROLLER_REGISTRATION} on")
        record = RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            zk_migration_ready=False,
            end_points=[
                ControllerEndpoint(
                    name=endpoint.listener, host=endpoint.host, port=endpoint.port, security_protocol=_code(endpoint)
                )
                for endpoint in request.endpoints
            ],
            features=[
                ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in request.features.items()
            ],
        )
        return Transition(None, (record,))


def _check_directories(image: MetadataImage, request: BrokerRequest) -> None:
    if image.features.metadata_version < MV_DIRECTORIES:
        return
    directories: Sequence[Uuid] = request.directories
    if not directories:
        raise InvalidRegistration(f"broker {request.broker_id} has no log directory")
    if any(map(is_reserved, directories)):
        raise InvalidRegistration(f"broker {request.broker_id} has a log directory with a reserved id")
    if len(set(directories)) != len(directories):
        raise InvalidRegistration(f"broker {request.broker_id} has two log directories with one id")
    for other in image.cluster.brokers.values():
        shared = set(directories) & set(other.directories)
        if other.id != request.broker_id and shared:
            raise InvalidRegistration(f"log directory {shared.pop()} belongs to broker {other.id}")


def _check_features(finalized: Mapping[str, int], request: BrokerRequest) -> None:
    if METADATA_VERSION not in request.features:
        raise InvalidRegistration(f"broker {request.broker_id} does not say which {METADATA_VERSION} it supports")
    for name in {**finalized, **request.features}:
        level = finalized.get(name, 0)
        low, high = request.features.get(name, (0, 0))
        if not low <= level <= high:
            raise UnsupportedVersion(
                f"broker {request.broker_id} supports {name} from {low} to {high}, but the cluster is at {level}"
            )


def _registration(
    image: MetadataImage, request: BrokerRequest, epoch: int, known: BrokerRegistration | None
) -> RegisterBrokerRecord:
    metadata_version = image.features.metadata_version
    cordoned = request.cordoned if metadata_version >= MV_CORDONED_DIRS else None
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(
                name=endpoint.listener, host=endpoint.host, port=endpoint.port, security_protocol=_code(endpoint)
            )
            for endpoint in request.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in request.features.items()
        ],
        rack=request.rack,
        fenced=True if known is None else known.fenced,
        in_controlled_shutdown=False if known is None else known.in_controlled_shutdown,
        log_dirs=list(request.directories) if metadata_version >= MV_DIRECTORIES else [],
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def _code(endpoint: Endpoint) -> int:
    return SECURITY_PROTOCOLS.index(endpoint.security_protocol)
