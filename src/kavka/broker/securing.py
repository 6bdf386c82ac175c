"""How the listeners of a node are secured: who logs in how, and what they are let in as."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, Protocol, runtime_checkable

from kavka.broker.gate import Gate
from kavka.broker.sasl import Ground, mechanism_of
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.image.kept import EMPTY_KEPT, KEEPS, KeptDraft, KeptImage
from kavka.model.clock import Clock
from kavka.model.settings import (
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
    CONNECTIONS_MAX_REAUTH_MS,
    KAVKA_AUTHENTICATION_TIMEOUT_MS,
    KAVKA_MAX_UNAUTHENTICATED_CONNECTIONS,
    SASL_ENABLED_MECHANISMS,
    SASL_SERVER_MAX_RECEIVE_SIZE,
    SettingError,
    Values,
)
from kavka.model.settings.listeners import ListenerValues
from kavka.model.types import Endpoint
from kavka.net.lobby import Lobby
from kavka.net.login import Logins, Offer
from kavka.net.server import BoundListener

SECRET_BYTES: Final = 32


@runtime_checkable
class Running(Protocol):
    """A mechanism that has something to do while the node runs."""

    async def run(self) -> None:
        """Do it until cancelled."""


class Securing:
    """Lets clients in on the listeners of a node."""

    def __init__(self, values: Values, clock: Clock, gate: Gate) -> None:
        self._values = values
        self._clock = clock
        self._gate = gate
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._kept = EMPTY_KEPT
        self.lobby = Lobby(values[KAVKA_AUTHENTICATION_TIMEOUT_MS], values[KAVKA_MAX_UNAUTHENTICATED_CONNECTIONS])
        self.logins: dict[str, Logins] = {}
        """By the names of the listeners that have clients log in."""
        self.services: list[Running] = []

    def begin_with(self, records: Iterable[Any]) -> None:
        """Know the credentials that formatting left: nodes log in to each other before there is any metadata."""
        draft = KeptDraft(EMPTY_KEPT)
        for record in records:
            if type(record) in KEEPS:
                draft.keep(record)
        self._kept = draft.build()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follow the credentials of the metadata."""
        self._kept = image.kept

    def secured(self, listener: BoundListener, endpoint: Endpoint) -> BoundListener:
        """A listener as its security protocol asks for it; raises SettingError for what cannot be honoured."""
        protocol = endpoint.security_protocol
        secured = replace(listener, security_protocol=protocol)
        if protocol.startswith("SASL_"):
            self.logins[listener.name] = logins = self._logins(listener.name)
            secured = replace(secured, welcome=logins.welcome)
        return secured

    def _logins(self, listener: str) -> Logins:
        own = ListenerValues(self._values, listener)
        enabled = own[SASL_ENABLED_MECHANISMS]
        if not enabled:
            raise SettingError(f"{SASL_ENABLED_MECHANISMS.name}: listener {listener} needs at least one")
        return Logins(
            {name: self._offer(listener, name) for name in enabled},
            max_receive_bytes=own[SASL_SERVER_MAX_RECEIVE_SIZE],
            failure_delay_ms=own[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
            lobby=self.lobby,
            clock=self._clock,
            admit=self._gate.admit,
        )

    def _offer(self, listener: str, name: str) -> Offer:
        settings = ListenerValues(self._values, listener, name)
        mechanism = mechanism_of(Ground(listener, name, settings, self._credentials, self._clock, self._secret))
        if isinstance(mechanism, Running):
            self.services.append(mechanism)
        return Offer(mechanism.begin, settings[CONNECTIONS_MAX_REAUTH_MS])

    def _credentials(self) -> KeptImage:
        return self._kept
