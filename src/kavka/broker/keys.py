"""The keys and certificates of a node: read at its start and whenever they change, and used only once they are tried.

There is a pair of contexts for each listener name with TLS: one for those who connect to it here, one for this node's
own connections to it elsewhere. New ones have to shake hands with each other in memory before they take the place of
those before; if they cannot, those before stay, and the log says why.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
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
from kavka.net.stores import Stores, files_of, read_stores
from kavka.net.tls_context import HandshakeError, client_context, server_context, try_handshake

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often files are looked at for changes."""

Stamps = tuple[tuple[int, int, int] | None, ...]


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


class Keys:
    """The contexts in use, by the names of listeners."""

    def __init__(self, values: Values, serves: Mapping[str, str], reaches: Collection[str]) -> None:
        """`serves` has the security protocols of the listeners with TLS here, `reaches` those connected to elsewhere.

        Raises SettingError for stores that cannot be used.
        """
        self._values = values
        self._serves = serves
        self._reaches = reaches
        self._contexts: dict[str, Contexts] = {}
        self._stamps: dict[str, Stamps] = {}
        self._asked = asyncio.Event()
        self.reloaded = 0
        """How often contexts have taken the place of others."""
        self.kept = 0
        """How often they could not."""
        for name in dict.fromkeys((*serves, *reaches)):
            self._stamps[name] = stamps_of(ListenerValues(values, name))
            self._contexts[name] = self.build(name, values)

    def __iter__(self) -> Any:
        return iter(self._contexts)

    def __getitem__(self, name: str) -> Contexts:
        return self._contexts[name]

    def server(self, name: str) -> Callable[[], ssl.SSLContext]:
        """Where the connections of a listener get their context."""
        contexts = self._contexts

        def current() -> ssl.SSLContext:
            context = contexts[name].server
            assert context is not None
            return context

        return current

    def client(self, name: str) -> Callable[[], ssl.SSLContext]:
        """Where connections to listeners of this name get their context."""
        contexts = self._contexts

        def current() -> ssl.SSLContext:
            context = contexts[name].client
            assert context is not None
            return context

        return current

    # -- making -----------------------------------------------------------------------------

    def build(self, name: str, values: Values) -> Contexts:
        """The contexts that settings and files make now, tried; raises SettingError. PKCS12 takes a while."""
        own = ListenerValues(values, name)
        stores = read_stores(own)
        client = client_context(own, stores) if name in self._reaches else None
        if name not in self._serves:
            return Contexts(None, client, {})
        server = server_context(own, stores, self._client_auth(name, own))
        try:
            if client is not None:
                says = try_handshake(server, client)
            else:
                says = try_handshake(server_context(own, stores, "none"), _believing_itself(own, stores))
        except HandshakeError as error:
            whom = "this node's own connections" if client is not None else "anybody"
            raise SettingError(f"ssl.keystore: listener {name} would not be understood by {whom}: {error}") from None
        return Contexts(server, client, says)

    def _client_auth(self, name: str, own: ListenerValues) -> str:
        # As in Kafka: where clients log in by SASL, only the listener's own key has them show a certificate as well.
        if self._serves[name] == "SASL_SSL" and own.own_key(SSL_CLIENT_AUTH) is None:
            return "none"
        return own[SSL_CLIENT_AUTH]

    def check(self, values: Values) -> None:
        """Whether settings that are about to be changed could be used; raises SettingError."""
        for name in self._contexts:
            self._hold_against(name, self.build(name, values), values)

    def _hold_against(self, name: str, new: Contexts, values: Values) -> None:
        """Kafka's rule: a certificate for somebody else is a mistake, unless the settings say that it is none."""
        own, old = ListenerValues(values, name), self._contexts[name]
        if not old.says or not new.says:
            return
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

    def ask(self, values: Values | None = None) -> None:
        """Have everything read again soon, under changed settings if there are such."""
        if values is not None:
            self._values = values
        self._stamps.clear()
        self._asked.set()

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            self._asked.clear()
            for name in self._contexts:
                stamps = stamps_of(ListenerValues(self._values, name))
                before = self._stamps.get(name)
                if stamps != before:
                    self._stamps[name] = stamps  # a bad file is tried once, not every second
                    await self._reload(name, logger.debug if before is None else logger.info)
            try:
                async with within(LOOK_SECONDS):
                    await self._asked.wait()
            except TimeoutError:
                continue

    async def _reload(self, name: str, tell: Callable[..., None]) -> None:
        values, loop = self._values, asyncio.get_running_loop()
        try:
            new = await loop.run_in_executor(None, self.build, name, values)
            self._hold_against(name, new, values)
        except SettingError as error:
            self.kept += 1
            logger.error("the certificates of listener %s stay as they are: %s", name, error)
            return
        self._contexts[name] = new
        self.reloaded += 1
        until = f", valid until {new.says['notAfter']}" if new.says else ""
        tell("the certificates of listener %s were read again%s", name, until)


def stamps_of(own: ListenerValues) -> Stamps:
    """What tells one version of the files from the next; None for one that is not there."""
    found: list[tuple[int, int, int] | None] = []
    for path in files_of(own):
        try:
            status = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


def _believing_itself(own: ListenerValues, stores: Stores) -> ssl.SSLContext:
    """A client that believes nobody but this node: whether key, certificate, dates and ciphers go together."""
    assert stores.identity is not None
    return client_context(own, Stores(None, stores.identity.chain))
