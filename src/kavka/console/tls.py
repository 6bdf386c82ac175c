"""HTTPS for the console: the key that Kafka's `ssl.*` settings name, followed when its files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from typing import Final

from kavka.model.settings import SettingError
from kavka.model.settings.client import security_values
from kavka.net.stores import Stores, read_stores, stamps_of
from kavka.net.tls_context import HandshakeError, server_context, try_itself

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
CLIENT_AUTH: Final = "ssl.client.auth"


class ServedTls:
    """What new connections are secured with."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options` are named as in a node's settings; raises SettingError."""
        self._client_auth = options.get(CLIENT_AUTH, "none")
        self._settings = security_values({name: text for name, text in options.items() if name != CLIENT_AUTH})
        self._seen = stamps_of(self._settings)
        self._latest = self.context = self._made_of(read_stores(self._settings))
        """Given to the server once; whoever connects gets what was read last."""
        self.context.sni_callback = self._chosen

    def _chosen(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._latest

    def _made_of(self, stores: Stores) -> ssl.SSLContext:
        return server_context(self._settings, stores, self._client_auth)

    def look(self) -> None:
        """Use the files as they are now, if they have changed and can be used."""
        now = stamps_of(self._settings)
        if now == self._seen:
            return
        self._seen = now
        try:
            stores = read_stores(self._settings)
            latest = self._made_of(stores)
            try_itself(self._settings, stores)
        except (SettingError, HandshakeError) as error:
            logger.error("the console keeps the certificate that it has: %s", error)
        else:
            self._latest = latest
            logger.info("the console's certificate was read again")

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.get_running_loop().run_in_executor(None, self.look)
