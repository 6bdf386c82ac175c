"""GSSAPI as a client has it: Kerberos tickets of a keytab, or of whoever is logged in on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from kavka.client.sasl import Begin, LoginSetup
from kavka.model.errors import SaslAuthenticationFailed
from kavka.model.settings import SASL_JAAS_CONFIG, SASL_KERBEROS_SERVICE_NAME, SettingError
from kavka.model.settings.client import SASL_MECHANISM
from kavka.security.sasl.exchange import SaslClient
from kavka.security.sasl.gssapi import ContextError, GssapiClient

MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"


class _Begun:
    """An exchange whose first token is there: getting it takes a ticket, and that a question to another server."""

    def __init__(self, exchange: GssapiClient) -> None:
        self._exchange = exchange
        self._first = exchange.begin()

    def begin(self) -> bytes:
        """The first token."""
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge."""
        return self._exchange.respond(challenge)


def login(setup: LoginSetup) -> Begin:
    """Log in with a ticket; raises SettingError for settings that name no service or half a keytab."""
    try:
        from kavka.net.kerberos import Login
    except ImportError as error:
        raise SettingError(f"{SASL_MECHANISM.name}: GSSAPI needs pip install 'kavka[gssapi]' ({error})") from None
    entry = setup.jaas(MODULE)
    options: Mapping[str, str] = {} if entry is None else entry.options
    service = setup.settings[SASL_KERBEROS_SERVICE_NAME] or options.get("serviceName")
    if service is None:
        raise SettingError(f"{SASL_KERBEROS_SERVICE_NAME.name}: it must name the service to log in to, usually kafka")
    principal, keytab = options.get("principal"), options.get("keyTab")
    if keytab is not None and principal is None:
        raise SettingError(f"{SASL_JAAS_CONFIG.name}: {MODULE} has a keyTab and no principal")
    tickets = Login(principal, keytab)

    def first(host: str) -> SaslClient:
        try:
            return _Begun(GssapiClient(tickets.context(service, host)))
        except ContextError as error:
            raise SaslAuthenticationFailed(f"no Kerberos login: {error}") from None

    async def begin(host: str) -> SaslClient:
        return await asyncio.to_thread(first, host)

    return begin
