"""The SASL mechanisms that a client can log in with: the table, and what each of them is made of.

A mechanism is a module with a function `login(setup)`, called once: it reads its settings, refuses those that it
cannot honour, and returns who begins the exchanges, one for each connection. Modules are imported where they are asked
for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from kavka.model.settings import SASL_JAAS_CONFIG, SASL_LOGIN_CALLBACK_HANDLER_CLASS, SettingError
from kavka.model.settings.client import SASL_MECHANISM
from kavka.model.settings.listeners import Readable
from kavka.security.sasl.exchange import SaslClient
from kavka.security.sasl.jaas import JaasEntry, JaasError, parse_jaas

MECHANISMS: Final = {
    "PLAIN": "kavka.client.sasl.passwords",
    "SCRAM-SHA-256": "kavka.client.sasl.passwords",
    "SCRAM-SHA-512": "kavka.client.sasl.passwords",
    "OAUTHBEARER": "kavka.client.sasl.oauthbearer",
    "GSSAPI": "kavka.client.sasl.gssapi",
}
"""The module of each mechanism."""

Begin = Callable[[str], Awaitable[SaslClient]]
"""Begins an exchange with the node of a host."""


@dataclass(frozen=True, slots=True)
class LoginSetup:
    """What a client's log-in is made of."""

    mechanism: str
    settings: Readable
    options: Mapping[str, Any]
    """What is no text: a function that gets tokens."""

    def jaas(self, *modules: str) -> JaasEntry | None:
        """The `sasl.jaas.config`, if there is one; raises SettingError unless it names one of these modules."""
        password = self.settings[SASL_JAAS_CONFIG]
        if password is None:
            return None
        try:
            entry = parse_jaas(password.value)
        except JaasError as error:
            raise SettingError(f"{SASL_JAAS_CONFIG.name}: {error}") from None
        if entry.module not in modules:
            names = " or ".join(modules)
            raise SettingError(f"{SASL_JAAS_CONFIG.name}: {entry.module} is no login module for it, {names} is")
        return entry


def login_of(setup: LoginSetup) -> Begin:
    """How to log in as settings say; raises SettingError for a mechanism that is not there or not set up."""
    module = MECHANISMS.get(setup.mechanism)
    if module is None:
        known = ", ".join(sorted(MECHANISMS))
        raise SettingError(f"{SASL_MECHANISM.name}: {setup.mechanism} is not there, there are {known}")
    handler = setup.settings[SASL_LOGIN_CALLBACK_HANDLER_CLASS]
    if handler is not None and setup.mechanism != "OAUTHBEARER":
        raise SettingError(
            f"{SASL_LOGIN_CALLBACK_HANDLER_CLASS.name}: {handler} gives tokens, and {setup.mechanism} has none"
        )
    make: Callable[[LoginSetup], Begin] = import_module(module).login
    return make(setup)
