"""Soft state of the controller: which broker was heard when, and until when it counts as alive.

No log remembers it: a new leader starts by giving everyone a full session, but for the broker on the node that led
before it, which has most likely gone down with its controller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kavka.metadata.image import BrokerRegistration, ClusterImage

RECONNECT_GRACE_MS: Final = 500
"""How long a broker whose heartbeat connection closed may take to be heard again before it is fenced; and how long the
broker on the node of the former controller may take to be heard by its successor."""


@dataclass(slots=True)
class Contact:
    """When a broker was last heard, how far it has read the metadata, and when its shutdown was written."""

    epoch: int
    last_ms: int
    ends_ms: int
    """When it is thought to be gone."""
    alive: bool = True
    """Whether it is thought to run, so that another incarnation must wait."""
    connection: int = -1
    """The latest of the connections it was heard on; -1 if none is known."""
    in_doubt: bool = False
    """Whether that connection has closed, or this controller has not heard from it at all."""
    metadata_offset: int = -1
    shutdown_offset: int = -1


@dataclass(slots=True)
class BrokerContacts:
    """Who was heard when."""

    session_ms: int
    contacts: dict[int, Contact] = field(default_factory=dict)

    def activate(self, cluster: ClusterImage, now_ms: int, own_id: int, former_leader: int = -1) -> None:
        """Start afresh: unfenced brokers count as just heard; this node's own may be of its last incarnation."""
        self.contacts = {
            broker.id: Contact(
                broker.epoch,
                now_ms,
                now_ms + self._session(broker.id == former_leader),
                alive=broker.id != own_id,
                in_doubt=True,
            )
            for broker in cluster.brokers.values()
            if not broker.fenced
        }

    def _session(self, former_leader: bool) -> int:
        return min(self.session_ms, RECONNECT_GRACE_MS) if former_leader else self.session_ms

    def in_session(self, broker: BrokerRegistration, now_ms: int) -> bool:
        """Whether a broker was heard lately enough to be thought alive."""
        contact = self.contacts.get(broker.id)
        if contact is None or contact.epoch != broker.epoch:
            return False
        return contact.alive and now_ms < contact.ends_ms

    def in_doubt(self, broker_id: int, connection: int) -> bool:
        """Whether a broker may be gone as far as who comes on a connection can know.

        What comes on an earlier connection than the broker was heard on is from an earlier life.
        """
        contact = self.contacts.get(broker_id)
        return contact is not None and contact.in_doubt and connection > contact.connection

    def hear(self, broker_id: int, epoch: int, metadata_offset: int, now_ms: int, connection: int = -1) -> Contact:
        """Note that a broker was heard."""
        contact = self.contacts.get(broker_id)
        if contact is None or contact.epoch != epoch:
            contact = self.contacts[broker_id] = Contact(epoch, now_ms, now_ms)
        contact.last_ms = max(contact.last_ms, now_ms)
        contact.ends_ms = contact.last_ms + self.session_ms
        contact.alive = True
        contact.in_doubt = False
        contact.metadata_offset = metadata_offset
        # What lay unread on a connection that was given up may be read after what came on the next one.
        contact.connection = max(contact.connection, connection)
        return contact

    def lost(self, broker_id: int, epoch: int, now_ms: int, connection: int = -1) -> None:
        """Note that the connection a broker was heard on has closed; passed over if it was heard on another since."""
        contact = self.contacts.get(broker_id)
        if contact is not None and contact.epoch == epoch and connection in (-1, contact.connection):
            contact.ends_ms = min(contact.ends_ms, now_ms + RECONNECT_GRACE_MS)
            contact.in_doubt = True

    def back(self, broker_id: int, epoch: int) -> None:
        """Note that a broker asks for something: it is there, though that counts for no longer than its heartbeat."""
        contact = self.contacts.get(broker_id)
        if contact is not None and contact.epoch == epoch:
            contact.ends_ms = contact.last_ms + self.session_ms
            contact.in_doubt = False

    def forget(self, broker_id: int) -> None:
        """A broker is out of service: nothing is expected of it."""
        self.contacts.pop(broker_id, None)

    def stale(self, now_ms: int) -> list[int]:
        """The brokers that are thought to be gone, the longest silent first."""
        silent = [(contact.ends_ms, id_) for id_, contact in self.contacts.items() if now_ms >= contact.ends_ms]
        return [id_ for _, id_ in sorted(silent)]

    def next_deadline_ms(self) -> int | None:
        """When the next broker will be thought gone if it is not heard before."""
        return min((contact.ends_ms for contact in self.contacts.values()), default=None)
