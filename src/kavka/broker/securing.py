"""How the listeners of a node are secured: TLS, who logs in how, and what they are let in as."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable

from kavka.broker.config import NodeConfig
from kavka.broker.gate import Gate
from kavka.broker.keys import Keys, Ready
from kavka.broker.listeners import REGISTRY, controller_names, security_protocols
from kavka.broker.live_listeners import broker_listeners
from kavka.broker.own_login import OwnLogin, Texts, texts_of
from kavka.broker.sasl import MechanismSetup, mechanism_of
from kavka.client.security import Security
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.image.security import EMPTY_SECURITY, KEEPS, SecurityDraft, SecurityImage
from kavka.model.clock import Clock
from kavka.model.errors import KafkaError
from kavka.model.settings import (
    CONNECTION_FAILED_AUTHENTICATION_DELAY_MS,
    CONNECTIONS_MAX_REAUTH_MS,
    KAVKA_AUDIT_ENABLE,
    KAVKA_AUDIT_TOPIC_ENABLE,
    KAVKA_AUTHENTICATION_TIMEOUT_MS,
    KAVKA_MAX_UNAUTHENTICATED_CONNECTIONS,
    KAVKA_REGISTRY_LISTENER,
    KAVKA_REGISTRY_SECURITY_PROTOCOL,
    REMOTE_LOG_STORAGE_SYSTEM_ENABLE,
    SASL_ENABLED_MECHANISMS,
    SASL_MECHANISM_CONTROLLER_PROTOCOL,
    SASL_MECHANISM_INTER_BROKER_PROTOCOL,
    SASL_SERVER_MAX_RECEIVE_SIZE,
    SSL_PRINCIPAL_MAPPING_RULES,
    SettingError,
    Values,
)
from kavka.model.settings.listeners import ListenerValues
from kavka.model.types import Endpoint
from kavka.net.lobby import Lobby
from kavka.net.login import Logins, Offer, Tell
from kavka.net.server import BoundListener
from kavka.net.session import Session
from kavka.net.tls import RefusedError, TlsListener
from kavka.pacing.turns import Turns
from kavka.security.principal import MalformedNameError, PrincipalMapper, distinguished_name, subject_of

logger = logging.getLogger(__name__)

SECRET_BYTES: Final = 32
CONCERNED: Final = ("ssl.", "sasl.", "connections.max.reauth.ms", "delegation.token.")
"""In the names of settings that have to do with security."""
BY_HTTP: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The mechanisms whose users can log in on the registry's listener: with a password, or a token."""
PLAIN: Final = "PLAINTEXT"
WITH_TLS: Final = ("SSL", "SASL_SSL")
WITH_SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")


@runtime_checkable
class Running(Protocol):
    """A mechanism that has something to do while the node runs."""

    async def run(self) -> None:
        """Do it until cancelled."""


Identify = Callable[[Session, bytes | None], None]
Look = tuple[str, Texts]
"""The protocol of a listener and all settings that have to do with its security: another look, another security."""


@dataclass(frozen=True, slots=True)
class OwnOffer(Offer):
    """A mechanism that goes on as it runs while its own settings are the same."""

    texts: Texts = frozenset()


@dataclass(frozen=True, slots=True)
class Part:
    """What makes one listener secure, ready to be used."""

    look: Look
    keys: Ready | None
    identify: Identify
    offers: Mapping[str, Offer] | None


class Securing:
    """Lets clients in on the listeners of a node."""

    def __init__(self, config: NodeConfig, clock: Clock, gate: Gate) -> None:
        """Raises SettingError for settings that cannot be honoured."""
        values = config.values
        self._config = config
        self._values = values
        self._clock = clock
        self._gate = gate
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self.cluster_id = ""
        """Empty until the node knows it."""
        self._security = EMPTY_SECURITY
        self._turns = Turns()
        self.lobbies: dict[str, Lobby] = {}
        """By the names of the listeners that clients are let in on; a crowd at one keeps nobody out at another."""
        self.tls: dict[str, TlsListener] = {}
        """By the names of the listeners with TLS."""
        self.logins: dict[str, Logins] = {}
        """By the names of the listeners that have clients log in."""
        self._parts: dict[str, Part] = {}
        self._tried: dict[str, Part] = {}
        """What the last check made, for the change that comes of it."""
        self._changed = asyncio.Event()
        self._subscribers: list[Callable[[], None]] = []
        protocols = protocols_of(config, values)
        self._controllers = [endpoint.listener for endpoint in config.controller_listeners]
        self._asks_brokers = not config.standalone or asks_itself(values)
        controllers = () if config.standalone else controller_names(values)[:1]
        reached = (config.inter_broker_listener, *controllers) if self._asks_brokers else ()
        self._reached = [name for name in dict.fromkeys(reached) if protocols.get(name) in WITH_TLS]
        self.keys = Keys(self._reached)
        for name, look in self._looks(values).items():
            self._take(name, self._part(name, look, values))
        self.hears_logins: Tell | None = None
        """Who keeps the audit log, if somebody does."""
        self._protocols = protocols
        self._own_logins: list[OwnLogin] = []
        self.to_brokers = self._outgoing(
            config.inter_broker_listener if self._asks_brokers else "", values[SASL_MECHANISM_INTER_BROKER_PROTOCOL]
        )
        """How this node connects to brokers, its own too, and below to controllers; None for plain text."""
        self.to_controllers = self._outgoing(
            "" if config.standalone else next(iter(controller_names(values)), ""),
            values[SASL_MECHANISM_CONTROLLER_PROTOCOL],
        )

    @property
    def early(self) -> bool:
        """Whether other nodes log in with credentials of the metadata before the quorum can have a leader."""
        here = (self.logins[name].offers for name in controller_names(self._values) if name in self.logins)
        return any(mechanism.startswith("SCRAM-") for offers in here for mechanism in offers)

    def begin_with(self, records: Iterable[Any]) -> None:
        """Know credentials that formatting left, or that were known before: there is no committed metadata yet."""
        draft = SecurityDraft(self._security)
        for record in records:
            if type(record) in KEEPS:
                draft.keep(record)
        self._security = draft.build()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follow the credentials of the metadata."""
        self._security = image.security

    def ready(self, endpoint: Endpoint) -> bool:
        """Whether a listener can be opened as its protocol asks for it."""
        part = self._parts.get(endpoint.listener)
        return endpoint.security_protocol == PLAIN or (part is not None and part.look[0] == endpoint.security_protocol)

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        """Tell when listeners that were not ready may be."""
        self._subscribers.append(subscriber)

    def secured(self, listener: BoundListener, protocol: str) -> BoundListener:
        """A listener that is ready, as its security protocol asks for it."""
        secured = replace(listener, security_protocol=protocol)
        if protocol in WITH_TLS:
            secured = replace(
                secured, secure=self.tls[listener.name].secure, welcome=self._lobby(listener.name).welcome
            )
        if protocol in WITH_SASL and listener.name == REGISTRY:
            secured = replace(secured, welcome=self._lobby(REGISTRY).welcome)
        elif protocol in WITH_SASL:
            secured = replace(secured, welcome=self.logins[listener.name].welcome)
        return secured

    @property
    def security(self) -> SecurityImage:
        """The credentials of the metadata: another object whenever one of them changes."""
        return self._security

    def _outgoing(self, listener: str, mechanism: str) -> Security | None:
        """How connections to listeners of a name are secured; None for plain text."""
        protocol = self._protocols.get(listener, PLAIN)
        context = self.keys.client(listener) if protocol in WITH_TLS else None
        if protocol not in WITH_SASL:
            return None if context is None else Security(context)
        login = OwnLogin(listener, mechanism, self._values)
        self._own_logins.append(login)
        return Security(context, mechanism, login.begin)

    def _lobby(self, listener: str) -> Lobby:
        """Where the clients of a listener wait until they are let in."""
        if listener not in self.lobbies:
            timeout_ms, limit = (
                self._values[KAVKA_AUTHENTICATION_TIMEOUT_MS],
                self._values[KAVKA_MAX_UNAUTHENTICATED_CONNECTIONS],
            )
            self.lobbies[listener] = Lobby(listener, timeout_ms, limit)
        return self.lobbies[listener]

    def _tls(self, listener: str, part: Part) -> TlsListener:
        protocol, _ = part.look
        return TlsListener(
            self.keys.server(listener),
            identify=part.identify,
            line=self._turns.line(),
            lobby=self._lobby(listener),
            enough=protocol not in WITH_SASL,
            failure_delay_ms=ListenerValues(self._values, listener)[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
        )

    def _by_certificate(self, own: ListenerValues) -> Identify:
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

    def _logins(self, listener: str, offers: Mapping[str, Offer]) -> Logins:
        own = ListenerValues(self._values, listener)
        return Logins(
            offers,
            max_receive_bytes=own[SASL_SERVER_MAX_RECEIVE_SIZE],
            failure_delay_ms=own[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
            lobby=self._lobby(listener),
            clock=self._clock,
            admit=self._gate.admit,
            tell=self._tell_login,
        )

    def _tell_login(self, session: Session, mechanism: str, refused: KafkaError | None, why: str) -> None:
        if self.hears_logins is not None:
            self.hears_logins(session, mechanism, refused, why)

    # -- settings that change (KIP-226) -------------------------------------------------------

    async def check(self, values: Values) -> None:
        """Whether settings that are about to be changed could be used; raises SettingError."""
        for login in self._own_logins:
            login.check(values)
        looks = self._looks(values)
        names = [name for name, look in looks.items() if not self._looks_like(name, look)] or list(looks)
        made, errors = await self._make(names, looks, values)
        for error in errors.values():
            raise error
        self._tried = made

    def follow(self, values: Values) -> None:
        """Take over changed settings: listeners, certificates, mechanisms, and the users that settings name."""
        try:
            looks = self._looks(values)
        except SettingError as error:
            logger.error("keeping the listeners as they are secured: %s", error)
            return
        self._values = values
        for login in self._own_logins:
            login.follow(values)
        tried, self._tried = self._tried, {}
        for name in self._parts.keys() - looks.keys():
            self._drop(name)
        for name, part in tried.items():
            if looks.get(name) == part.look:
                self._take(name, part)
        self._changed.set()

    async def run(self) -> None:
        """Follow certificates and settings, and do what mechanisms have to do, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.keys.run())
            running: dict[Running, asyncio.Task[None]] = {}
            while True:
                self._changed.clear()
                await self._catch_up()
                wanted = {
                    offer.mechanism: None
                    for logins in self.logins.values()
                    for offer in logins.offers.values()
                    if isinstance(offer.mechanism, Running)
                }
                for service in running.keys() - wanted.keys():
                    running.pop(service).cancel()
                running |= {service: tasks.create_task(service.run()) for service in wanted if service not in running}
                await self._changed.wait()

    async def _catch_up(self) -> None:
        """Make what settings ask for that nobody checked before: they came with the metadata."""
        values = self._values
        looks = self._looks(values)
        names = [name for name, look in looks.items() if not self._looks_like(name, look)]
        if not names:
            return
        made, errors = await self._make(names, looks, values)
        if self._values is not values:
            self._changed.set()  # to what they are by now
            return
        for name, part in made.items():
            self._take(name, part)
        for name, error in errors.items():
            logger.error("listener %s: keeping it as it is secured: %s", name, error)
        for subscriber in self._subscribers:
            subscriber()

    async def _make(
        self, names: Iterable[str], looks: Mapping[str, Look], values: Values
    ) -> tuple[dict[str, Part], dict[str, SettingError]]:
        """What makes listeners secure, and why that cannot be; off the loop, because files are read."""
        made, errors = {}, {}
        for name in names:
            try:
                work = partial(self._part, name, looks[name], values)
                made[name] = await asyncio.get_running_loop().run_in_executor(None, work)
            except SettingError as error:
                errors[name] = error
        return made, errors

    def _looks(self, values: Values) -> dict[str, Look]:
        """How the listeners that are secured look under some settings."""
        protocols = protocols_of(self._config, values)
        names = (*broker_listeners(values), *self._controllers, REGISTRY)
        secured = [name for name in names if protocols.get(name, PLAIN) != PLAIN]
        return {
            name: (protocols[name], texts_of(values, f"listener.name.{name.lower()}.", *CONCERNED))
            for name in dict.fromkeys((*secured, *self._reached))
        }

    def _looks_like(self, name: str, look: Look) -> bool:
        part = self._parts.get(name)
        return part is not None and part.look == look

    def _part(self, name: str, look: Look, values: Values) -> Part:
        """What makes a listener secure; raises SettingError."""
        protocol, _ = look
        served = name in broker_listeners(values) or name in self._controllers or name == REGISTRY
        keys = self.keys.build(name, protocol if served else None, values) if protocol in WITH_TLS else None
        own = ListenerValues(values, name)
        identify = self._by_certificate(own) if served and protocol == "SSL" else ignored
        return Part(look, keys, identify, self._offers(name, values) if served and protocol in WITH_SASL else None)

    def _offers(self, listener: str, values: Values) -> Mapping[str, Offer]:
        """The mechanisms of a listener; those that are more than their settings keep the life that they have."""
        enabled = ListenerValues(values, listener)[SASL_ENABLED_MECHANISMS]
        if not enabled:
            raise SettingError(f"{SASL_ENABLED_MECHANISMS.name}: listener {listener} needs at least one")
        if listener == REGISTRY:
            enabled = tuple(name for name in enabled if name in BY_HTTP)
            if not enabled:
                name = f"listener.name.registry.{SASL_ENABLED_MECHANISMS.name}"
                raise SettingError(f"{name}: over HTTP one of {', '.join(BY_HTTP)} is needed")
        between = values[SASL_MECHANISM_INTER_BROKER_PROTOCOL]
        if self._asks_brokers and listener == self._config.inter_broker_listener and between not in enabled:
            # Kafka's rule: brokers log in to each other by a mechanism that they offer
            name = SASL_MECHANISM_INTER_BROKER_PROTOCOL.name
            raise SettingError(f"{name}: {between} is not among {SASL_ENABLED_MECHANISMS.name} of {listener}")
        return {name: self._offer(listener, name, values) for name in enabled}

    def _offer(self, listener: str, name: str, values: Values) -> Offer:
        settings = ListenerValues(values, listener, name)
        own = texts_of(values, f"listener.name.{listener.lower()}.", f"{name.lower()}.")
        part = self._parts.get(listener)
        before = None if part is None or part.offers is None else part.offers.get(name)
        if isinstance(before, OwnOffer) and before.texts == own and isinstance(before.mechanism, Running):
            return replace(before, max_reauth_ms=settings[CONNECTIONS_MAX_REAUTH_MS])
        setup = MechanismSetup(
            listener, name, settings, self._credentials, self._clock, self._secret, lambda: self.cluster_id
        )
        mechanism = mechanism_of(setup)
        return OwnOffer(mechanism.begin, settings[CONNECTIONS_MAX_REAUTH_MS], mechanism, own)

    def _take(self, name: str, part: Part) -> None:
        """Use what was made."""
        self._parts[name] = part
        if part.keys is not None:
            self.keys.take(name, part.keys)
            if name in self.tls:
                self.tls[name].identify = part.identify
            elif part.keys.protocol is not None:
                self.tls[name] = self._tls(name, part)
        if part.offers is not None:
            if name in self.logins:
                self.logins[name].offers = part.offers
            else:
                self.logins[name] = self._logins(name, part.offers)

    def _drop(self, name: str) -> None:
        """Forget a listener that is closed."""
        del self._parts[name]
        self.keys.drop(name)
        for of in (self.tls, self.logins, self.lobbies):
            of.pop(name, None)

    def _credentials(self) -> SecurityImage:
        return self._security


def protocols_of(config: NodeConfig, values: Values) -> dict[str, str]:
    """The security protocols of the listeners that a node has or reaches, by name."""
    known = security_protocols(values)
    if values[KAVKA_REGISTRY_LISTENER]:
        if REGISTRY in broker_listeners(values) or REGISTRY in controller_names(values):
            raise SettingError(f"listeners: {REGISTRY} is the name of {KAVKA_REGISTRY_LISTENER.name}, choose another")
        known = {**known, REGISTRY: config.values[KAVKA_REGISTRY_SECURITY_PROTOCOL]}
    names = (
        *broker_listeners(values),
        *(endpoint.listener for endpoint in config.controller_listeners),
        config.inter_broker_listener,
        *controller_names(values)[:1],
        REGISTRY if values[KAVKA_REGISTRY_LISTENER] else "",
    )
    return {name: known.get(name, PLAIN) for name in names if name}


def asks_itself(values: Values) -> bool:
    """Whether a node is a client of its own broker: it writes the audit topic, or the catalogue of remote segments."""
    audits = values[KAVKA_AUDIT_ENABLE] and values[KAVKA_AUDIT_TOPIC_ENABLE]
    return audits or values[REMOTE_LOG_STORAGE_SYSTEM_ENABLE]


def ignored(session: Session, certificate: bytes | None) -> None:
    """Whoever logs in by SASL is who they log in as, whatever they show before."""
