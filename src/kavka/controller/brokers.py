"""Heartbeats of brokers, and fencing them when they ask, are not heard, or are unregistered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from kavka.controller.contacts import BrokerContacts, Contact
from kavka.controller.effective import Effective
from kavka.controller.index import PartitionIndex
from kavka.controller.partition_changes import PartitionChanges
from kavka.controller.results import check_count
from kavka.metadata.features import MV_CORDONED_DIRS, MV_DIRECTORIES
from kavka.metadata.image import BrokerRegistration, ClusterImage, MetadataImage
from kavka.metadata.records.nodes import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from kavka.model.errors import BrokerIdNotRegistered, StaleBrokerEpoch
from kavka.model.transition import Divisible, Transition
from kavka.model.types import Endpoint, Uuid


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """A broker that wants to be registered."""

    broker_id: int
    cluster_id: str
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]
    directories: tuple[Uuid, ...]
    rack: str | None = None
    previous_epoch: int = -1
    """The epoch in its clean-shutdown marker; -1 if the last stop was not a clean one."""
    cordoned: tuple[Uuid, ...] | None = None
    connection: int = -1
    """The connection it came on; -1 if over none."""


@dataclass(frozen=True, slots=True)
class ControllerRequest:
    """A controller that wants to be registered."""

    controller_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a broker says of itself, every couple of seconds."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline: tuple[Uuid, ...] = ()
    cordoned: tuple[Uuid, ...] | None = None
    connection: int = -1
    """The connection it came on; -1 if over none."""


class HeartbeatReply(NamedTuple):
    """What the controller thinks of a broker."""

    caught_up: bool
    fenced: bool
    should_shut_down: bool


class _State(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "shutting down"
    SHUTDOWN_NOW = "may stop"


def check_epoch(cluster: ClusterImage, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """The registration of a broker; raises StaleBrokerEpoch if it is not registered, or at another epoch."""
    broker = cluster.brokers.get(broker_id)
    if broker is None:
        raise StaleBrokerEpoch(f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise StaleBrokerEpoch(f"broker {broker_id} is registered at epoch {broker.epoch}, not {broker_epoch}")
    return broker


class Brokers:
    """Decides which brokers are fenced."""

    def __init__(self, effective: Effective, contacts: BrokerContacts, index: PartitionIndex) -> None:
        self._effective = effective
        self._contacts = contacts
        self._index = index

    def heartbeat(self, image: MetadataImage, beat: Heartbeat, now_ms: int) -> Transition[HeartbeatReply]:
        """Hear from a broker, and fence or unfence it, or let it shut down, as it asks and as may be."""
        broker = check_epoch(image.cluster, beat.broker_id, beat.broker_epoch)
        contact = self._contacts.hear(broker.id, broker.epoch, beat.metadata_offset, now_ms, beat.connection)
        changes = PartitionChanges(image, self._effective, self._index)
        now, then = self._states(image, broker, beat, contact)
        records: list[Any] = []
        if now is not then:
            records += self._moves(broker, then, changes)
        elif then is _State.CONTROLLED_SHUTDOWN and self._leads(image, broker):
            records += changes.left(broker.id)  # another controller began this and was cut off
        if then is _State.CONTROLLED_SHUTDOWN and contact.shutdown_offset < 0:
            contact.shutdown_offset = image.offset + len(records)
        if then is _State.SHUTDOWN_NOW:
            self._contacts.forget(broker.id)  # so that its next incarnation need not wait for the session's end
        records += self._directory_changes(image, broker, beat, changes)
        fenced = then in (_State.FENCED, _State.SHUTDOWN_NOW)
        reply = HeartbeatReply(beat.metadata_offset >= broker.epoch, fenced, then is _State.SHUTDOWN_NOW)
        return Transition(reply, Divisible(records))

    def fence_stale(self, image: MetadataImage, now_ms: int) -> tuple[Any, ...]:
        """The records that take one broker out of service which is thought to be gone; none if there is none."""
        for id_ in self._contacts.stale(now_ms):
            contact = self._contacts.contacts.pop(id_)
            broker = image.cluster.brokers.get(id_)
            if broker is not None and broker.epoch == contact.epoch and not broker.fenced:
                changes = PartitionChanges(image, self._effective, self._index)
                return Divisible(self._moves(broker, _State.FENCED, changes))
        return ()

    def unregister(self, image: MetadataImage, broker_id: int) -> Transition[None]:
        """Unregister a broker; it leaves every ISR."""
        broker = image.cluster.brokers.get(broker_id)
        if broker is None:
            raise BrokerIdNotRegistered(f"there is no broker {broker_id}")
        records: list[Any] = list(PartitionChanges(image, self._effective, self._index).left(broker_id))
        records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch))
        check_count(len(records))
        self._contacts.forget(broker_id)
        return Transition(None, Divisible(records))

    # -- fencing ----------------------------------------------------------------------------------

    def _leads(self, image: MetadataImage, broker: BrokerRegistration) -> bool:
        return self._index.at(image.topics).led_by(broker.id) > 0

    def _states(
        self, image: MetadataImage, broker: BrokerRegistration, beat: Heartbeat, contact: Contact
    ) -> tuple[_State, _State]:
        if broker.in_controlled_shutdown and not broker.fenced:
            now = _State.CONTROLLED_SHUTDOWN
            others = (
                contact.metadata_offset
                for id_, contact in self._contacts.contacts.items()
                if image.cluster.is_active(id_)
            )
            # Others must know the new leaders before the old one goes away.
            told = contact.shutdown_offset <= min(others, default=contact.shutdown_offset)
            done = told and not self._leads(image, broker)
            return now, _State.SHUTDOWN_NOW if done else now
        if broker.fenced:
            now = _State.FENCED
            if beat.want_shut_down:
                return now, _State.SHUTDOWN_NOW
            ready = not beat.want_fence and beat.metadata_offset >= broker.epoch
            return now, _State.UNFENCED if ready else now
        now = _State.UNFENCED
        if beat.want_fence:
            return now, _State.SHUTDOWN_NOW if beat.want_shut_down else _State.FENCED
        if beat.want_shut_down:
            return now, _State.CONTROLLED_SHUTDOWN if self._leads(image, broker) else _State.SHUTDOWN_NOW
        return now, now

    def _moves(self, broker: BrokerRegistration, then: _State, changes: PartitionChanges) -> list[Any]:
        if then is _State.UNFENCED:
            return [_changed(broker, fenced=-1), *changes.joined(broker.id)]
        if then is _State.CONTROLLED_SHUTDOWN:
            return [_changed(broker, in_controlled_shutdown=1), *changes.left(broker.id)]
        if broker.fenced:
            return []
        # The fencing comes last: cut off before it, the broker is still not heard and the rest is done again.
        return [*changes.left(broker.id), _changed(broker, fenced=1)]

    def _directory_changes(
        self, image: MetadataImage, broker: BrokerRegistration, beat: Heartbeat, changes: PartitionChanges
    ) -> list[Any]:
        records: list[Any] = []
        metadata_version = image.features.metadata_version
        gone = [directory for directory in broker.directories if directory in beat.offline]
        if gone and metadata_version >= MV_DIRECTORIES:
            for directory in gone:
                records += changes.lost_directory(broker.id, directory)
            left = [directory for directory in broker.directories if directory not in gone]
            if left:  # an empty list would say "no change"; a broker without any directory stops by itself
                records.append(_changed(broker, log_dirs=left))
        cordoned = beat.cordoned
        known = None if broker.cordoned is None else set(broker.cordoned)
        if cordoned is not None and metadata_version >= MV_CORDONED_DIRS and known != set(cordoned):
            records.append(_changed(broker, cordoned_log_dirs=list(cordoned)))
        return records


def _changed(broker: BrokerRegistration, **changes: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, **changes)
