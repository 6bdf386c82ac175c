"""How the listeners of a node are secured: TLS, who logs in how, and what they are let in as."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, Protocol, runtime_checkable

from kavka.broker.config import NodeConfig
from kavka.broker.gate import Gate
from kavka.broker.keys import Keys
from kavka.broker.listeners import controller_names, security_protocols
from kavka.broker.sasl import Ground, mechanism_of
from kavka.client import sasl as client_sasl
from kavka.client.security import Security
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.image.kept import EMPTY_KEPT, KEEPS, KeptDraft, KeptImage
from kavka.model.clock import Clock
from kavka.model.settings import (
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
    CONNECTIONS_MAX_REAUTH_MS,
    KAVKA_AUTHENTICATION_TIMEOUT_MS,
    KAVKA_MAX_UNAUTHENTICATED_CONNECTIONS,
    PRINCIPAL_BUILDER_CLASS,
    SASL_ENABLED_MECHANISMS,
    SASL_MECHANISM_CONTROLLER_PROTOCOL,
    SASL_MECHANISM_INTER_BROKER_PROTOCOL,
    SASL_SERVER_MAX_RECEIVE_SIZE,
    SSL_PRINCIPAL_MAPPING_RULES,
    SettingError,
    Values,
)
from kavka.model.settings.listeners import ListenerValues
from kavka.net.connection import Connection
from kavka.net.lobby import Lobby
from kavka.net.login import Logins, Offer
from kavka.net.server import BoundListener
from kavka.net.session import Session
from kavka.net.tls import RefusedError, TlsListener
from kavka.net.turns import Turns
from kavka.security.principal import MalformedNameError, PrincipalMapper, distinguished_name, subject_of

logger = logging.getLogger(__name__)

SECRET_BYTES: Final = 32
FIXED: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN: Final = "PLAINTEXT"
WITH_TLS: Final = ("SSL", "SASL_SSL")
WITH_SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")


@runtime_checkable
class Running(Protocol):
    """A mechanism that has something to do while the node runs."""

    async def run(self) -> None:
        """Do it until cancelled."""


class Securing:
    """Lets clients in on the listeners of a node."""

    def __init__(self, config: NodeConfig, clock: Clock, gate: Gate) -> None:
        """Raises SettingError for settings that cannot be honoured."""
        values = config.values
        self._values = values
        self._clock = clock
        self._gate = gate
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._kept = EMPTY_KEPT
        self._turns = Turns()
        self.lobby = Lobby(values[KAVKA_AUTHENTICATION_TIMEOUT_MS], values[KAVKA_MAX_UNAUTHENTICATED_CONNECTIONS])
        protocols = protocols_of(config)
        served = [one.listener for one in (*config.listeners, *config.controller_listeners)]
        reached = () if config.standalone else (config.inter_broker_listener, *controller_names(values)[:1])
        if values[PRINCIPAL_BUILDER_CLASS] != PRINCIPAL_BUILDER_CLASS.default and set(protocols.values()) != {PLAIN}:
            raise SettingError(f"{PRINCIPAL_BUILDER_CLASS.name}: it names a part of Java, which is not here")
        self.keys = Keys(
            values,
            {name: protocols[name] for name in served if protocols[name] in WITH_TLS},
            [name for name in dict.fromkeys(reached) if protocols.get(name) in WITH_TLS],
        )
        self.tls = {name: self._tls(name, protocols[name]) for name in served if protocols[name] in WITH_TLS}
        """By the names of the listeners with TLS."""
        self._running: list[Running] = []
        self.logins = {name: self._logins(name) for name in served if protocols[name] in WITH_SASL}
        """By the names of the listeners that have clients log in."""
        self._protocols = protocols
        if not config.standalone and config.inter_broker_listener:
            self._check_enabled(config.inter_broker_listener, values[SASL_MECHANISM_INTER_BROKER_PROTOCOL])
        self.to_brokers = self._outgoing(
            "" if config.standalone else config.inter_broker_listener, values[SASL_MECHANISM_INTER_BROKER_PROTOCOL]
        )
        """How this node connects to others' brokers, and below to controllers; None for plain text."""
        self.to_controllers = self._outgoing(
            "" if config.standalone else next(iter(controller_names(values)), ""),
            values[SASL_MECHANISM_CONTROLLER_PROTOCOL],
        )

    @property
    def services(self) -> list[Running]:
        """What has to run for all this."""
        return [self.keys, *self._running] if list(self.keys) else self._running

    @property
    def early(self) -> bool:
        """Whether other nodes log in with credentials of the metadata before the quorum can have a leader."""
        here = (self.logins[name].offers for name in controller_names(self._values) if name in self.logins)
        return any(mechanism.startswith("SCRAM-") for offers in here for mechanism in offers)

    def begin_with(self, records: Iterable[Any]) -> None:
        """Know credentials that formatting left, or that were known before: there is no committed metadata yet."""
        draft = KeptDraft(self._kept)
        for record in records:
            if type(record) in KEEPS:
                draft.keep(record)
        self._kept = draft.build()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follow the credentials of the metadata."""
        self._kept = image.kept

    def secured(self, listener: BoundListener, protocol: str) -> BoundListener:
        """A listener as its security protocol asks for it; raises SettingError if this was not made for it."""
        tls, logins = self.tls.get(listener.name), self.logins.get(listener.name)
        if (protocol in WITH_TLS and tls is None) or (protocol in WITH_SASL and logins is None):
            listener.socket.close()
            raise SettingError(f"listener {listener.name} is {protocol}, which takes a restart")
        secured = replace(listener, security_protocol=protocol)
        if tls is not None:
            secured = replace(secured, secure=tls.secure, welcome=self._welcome)
        if logins is not None:
            secured = replace(secured, welcome=logins.welcome)
        return secured

    def _check_enabled(self, listener: str, mechanism: str) -> None:
        """Kafka's rule: brokers log in to each other by a mechanism that they offer."""
        if listener in self.logins and mechanism not in self.logins[listener].offers:
            name = SASL_MECHANISM_INTER_BROKER_PROTOCOL.name
            raise SettingError(f"{name}: {mechanism} is not among {SASL_ENABLED_MECHANISMS.name} of {listener}")

    def _outgoing(self, listener: str, mechanism: str) -> Security | None:
        """How connections to listeners of a name are secured; None for plain text."""
        protocol = self._protocols.get(listener, PLAIN)
        context = self.keys.client(listener) if protocol in WITH_TLS else None
        if protocol not in WITH_SASL:
            return None if context is None else Security(context)
        settings = ListenerValues(self._values, listener, mechanism)
        try:
            begin = client_sasl.login_of(client_sasl.Ground(mechanism, settings, {}))
        except SettingError as error:
            raise SettingError(f"{error} (for this node's own log-in on {listener})") from None
        return Security(context, mechanism, begin)

    def _welcome(self, connection: Connection) -> None:
        """Give a client a while for its handshake."""
        self.lobby.enter(connection)
        connection.when_closed(self, lambda: self.lobby.leave(connection))

    def _tls(self, listener: str, protocol: str) -> TlsListener:
        own = ListenerValues(self._values, listener)
        return TlsListener(
            self.keys.server(listener),
            identify=ignored if protocol in WITH_SASL else self._by_certificate(own),
            turns=self._turns,
            lobby=None if protocol in WITH_SASL else self.lobby,
            failure_delay_ms=own[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
        )

    def _by_certificate(self, own: ListenerValues) -> Callable[[Session, bytes | None], None]:
        try:
            mapper = PrincipalMapper(own[SSL_PRINCIPAL_MAPPING_RULES])
        except ValueError as error:
            raise SettingError(str(error)) from None

        def identify(session: Session, certificate: bytes | None) -> None:
            if certificate is None:
                return  # whom nobody vouches for stays anonymous
            try:
                subject = distinguished_name(subject_of(certificate))
            except MalformedNameError as error:
                raise RefusedError(f"the name in the certificate cannot be read: {error}") from None
            name = mapper.name(subject)
            if name is None:
                raise RefusedError(f"no rule of {SSL_PRINCIPAL_MAPPING_RULES.name} is for {subject}")
            session.principal = f"User:{name}"
            self._gate.admit(session)

        return identify

    def _logins(self, listener: str) -> Logins:
        own = ListenerValues(self._values, listener)
        enabled = own[SASL_ENABLED_MECHANISMS]
        if not enabled:
            raise SettingError(f"{SASL_ENABLED_MECHANISMS.name}: listener {listener} needs at least one")
        return Logins(
            {name: self._offer(listener, name, self._values) for name in enabled},
            max_receive_bytes=own[SASL_SERVER_MAX_RECEIVE_SIZE],
            failure_delay_ms=own[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
            lobby=self.lobby,
            clock=self._clock,
            admit=self._gate.admit,
        )

    def check(self, values: Values) -> None:
        """Whether settings that are about to be changed could be used; raises SettingError."""
        self.keys.check(values)
        for listener, name in self._fixed():
            self._offer(listener, name, values)

    def follow(self, values: Values) -> None:
        """Take over changed settings: certificates, and the users that settings name (KIP-226)."""
        self.keys.ask(values)
        for listener, name in self._fixed():
            logins = self.logins[listener]
            try:
                logins.offers = {**logins.offers, name: self._offer(listener, name, values)}
            except SettingError as error:
                logger.error("%s on listener %s stays as it is: %s", name, listener, error)

    def _fixed(self) -> list[tuple[str, str]]:
        """The mechanisms that are nothing but their settings, by listener; the others have their own life."""
        return [(listener, name) for listener, logins in self.logins.items() for name in logins.offers if name in FIXED]

    def _offer(self, listener: str, name: str, values: Values) -> Offer:
        settings = ListenerValues(values, listener, name)
        mechanism = mechanism_of(Ground(listener, name, settings, self._credentials, self._clock, self._secret))
        if isinstance(mechanism, Running):
            self._running.append(mechanism)
        return Offer(mechanism.begin, settings[CONNECTIONS_MAX_REAUTH_MS])

    def _credentials(self) -> KeptImage:
        return self._kept


def protocols_of(config: NodeConfig) -> dict[str, str]:
    """The security protocols of the listeners that a node has or reaches, by name."""
    known = security_protocols(config.values)
    own = (*config.listeners, *config.controller_listeners)
    names = (*(one.listener for one in own), config.inter_broker_listener, *controller_names(config.values)[:1])
    return {name: known.get(name, PLAIN) for name in names if name}


def ignored(session: Session, certificate: bytes | None) -> None:
    """Whoever logs in by SASL is who they log in as, whatever they show before."""
