"""The keys and certificates of a node: read at its start and whenever they change, and used only once they are tried.

There is a pair of contexts for each listener name with TLS: one for those who connect to it here, one for this node's
own connections to it elsewhere. New ones have to shake hands with each other in memory before they take the place of
those before; if they cannot, those before stay, and the log says why.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kavka.client.deadline import within
from kavka.model.settings import (
    SSL_ALLOW_DN_CHANGES,
    SSL_ALLOW_SAN_CHANGES,
    SSL_CLIENT_AUTH,
    SettingError,
    Values,
)
from kavka.model.settings.listeners import ListenerValues
from kavka.net.stores import Stamps, read_stores, stamps_of
from kavka.net.tls_context import HandshakeError, client_context, server_context, try_handshake, try_itself

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often files are looked at for changes."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """What belongs to one listener name."""

    server: ssl.SSLContext | None
    client: ssl.SSLContext | None
    says: Mapping[str, Any]
    """What the node's own certificate says, as Python's ssl has it; empty where it has none."""

    @property
    def ends_at(self) -> float | None:
        """When the certificate ends, in seconds since the epoch."""
        return ssl.cert_time_to_seconds(self.says["notAfter"]) if "notAfter" in self.says else None


@dataclass(frozen=True, slots=True)
class Ready:
    """Contexts that can take the place of those before, and the files that they were made of."""

    contexts: Contexts
    stamps: Stamps
    values: Values
    protocol: str | None
    """The security protocol of the listener here, if there is one."""


class Keys:
    """The contexts in use, by the names of listeners."""

    def __init__(self, reaches: Collection[str]) -> None:
        """`reaches` has the listeners with TLS that this node connects to elsewhere."""
        self._reaches = reaches
        self._ready: dict[str, Ready] = {}
        self._again: set[str] = set()
        self._asked = asyncio.Event()
        self.reloaded = 0
        """How often contexts have taken the place of others."""
        self.reload_failures = 0
        """How often they could not."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._ready)

    def __getitem__(self, name: str) -> Contexts:
        return self._ready[name].contexts

    def take(self, name: str, ready: Ready) -> None:
        """Use contexts from now on."""
        if name in self._ready:
            self.reloaded += 1
        self._ready[name] = ready
        self._asked.set()

    def drop(self, name: str) -> None:
        """Forget a listener that is no more."""
        self._ready.pop(name, None)

    def server(self, name: str) -> Callable[[], ssl.SSLContext]:
        """Where the connections of a listener get their context."""
        ready = self._ready

        def current() -> ssl.SSLContext:
            context = ready[name].contexts.server
            assert context is not None
            return context

        return current

    def client(self, name: str) -> Callable[[], ssl.SSLContext]:
        """Where connections to listeners of this name get their context."""
        ready = self._ready

        def current() -> ssl.SSLContext:
            context = ready[name].contexts.client
            assert context is not None
            return context

        return current

    # -- making -----------------------------------------------------------------------------

    def build(self, name: str, protocol: str | None, values: Values) -> Ready:
        """What settings and files make now, tried; raises SettingError. It reads files, and PKCS12 takes a while."""
        own = ListenerValues(values, name)
        stamps = stamps_of(own)
        ready = Ready(self._contexts(name, protocol, own), stamps, values, protocol)
        self._hold_against(name, ready.contexts, own)
        return ready

    def _contexts(self, name: str, protocol: str | None, own: ListenerValues) -> Contexts:
        stores = read_stores(own)
        client = client_context(own, stores) if name in self._reaches else None
        if protocol is None:
            return Contexts(None, client, {})
        server = server_context(own, stores, _client_auth(protocol, own))
        try:
            says = try_handshake(server, client) if client is not None else try_itself(own, stores)
        except HandshakeError as error:
            whom = "this node's own connections" if client is not None else "anybody"
            raise SettingError(f"ssl.keystore: listener {name} would not be understood by {whom}: {error}") from None
        return Contexts(server, client, says)

    def _hold_against(self, name: str, new: Contexts, own: ListenerValues) -> None:
        """Kafka's rule: a certificate for somebody else is a mistake, unless the settings say that it is none."""
        before = self._ready.get(name)
        if before is None or not before.contexts.says or not new.says:
            return
        old = before.contexts
        rules = (
            ("subject", own[SSL_ALLOW_DN_CHANGES], SSL_ALLOW_DN_CHANGES.name),
            ("subjectAltName", own[SSL_ALLOW_SAN_CHANGES], SSL_ALLOW_SAN_CHANGES.name),
        )
        for field, allowed, key in rules:
            if not allowed and sorted(old.says.get(field, ())) != sorted(new.says.get(field, ())):
                raise SettingError(
                    f"ssl.keystore: the new certificate of listener {name} has another {field}; "
                    f"{key}=true would allow it"
                )

    # -- following ----------------------------------------------------------------------------

    def ask(self) -> None:
        """Have everything read again soon."""
        self._again.update(self._ready)
        self._asked.set()

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            self._asked.clear()
            for name, ready in list(self._ready.items()):
                again = name in self._again
                if again or stamps_of(ListenerValues(ready.values, name)) != ready.stamps:
                    self._again.discard(name)
                    await self._reload(name, ready, logger.debug if again else logger.info)
            if not self._ready:
                await self._asked.wait()
                continue
            try:
                async with within(LOOK_SECONDS):
                    await self._asked.wait()
            except TimeoutError:
                continue

    async def _reload(self, name: str, before: Ready, tell: Callable[..., None]) -> None:
        values, loop = before.values, asyncio.get_running_loop()
        stamps = stamps_of(ListenerValues(values, name))
        try:
            new = await loop.run_in_executor(None, self.build, name, before.protocol, values)
        except SettingError as error:
            self.reload_failures += 1
            logger.error("listener %s: keeping the current keystore and truststore: %s", name, error)
            if self._ready.get(name) is before:
                self._ready[name] = replace(before, stamps=stamps)  # a bad file is tried once, not every second
            return
        if self._ready.get(name) is before:  # else changed settings have come meanwhile
            self.take(name, new)
            until = f", valid until {new.contexts.says['notAfter']}" if new.contexts.says else ""
            tell("listener %s: keystore and truststore reloaded%s", name, until)


def _client_auth(protocol: str, own: ListenerValues) -> str:
    # As in Kafka: where clients log in by SASL, only the listener's own key has them show a certificate as well.
    if protocol == "SASL_SSL" and own.own_key(SSL_CLIENT_AUTH) is None:
        return "none"
    return own[SSL_CLIENT_AUTH]
