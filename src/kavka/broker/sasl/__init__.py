"""The SASL mechanisms that a listener can offer: the table, and what each of them is made of.

A mechanism is a module with a function `mechanism(setup)`, called once per listener at start: it reads its settings,
refuses those that it cannot honour, and returns who begins the exchanges. One that has something to do while the node
runs (fetching keys) has `async def run()` as well, which the node runs. Modules are imported where they are enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

from kavka.metadata.image.security import SecurityImage
from kavka.model.clock import Clock
from kavka.model.settings import (
    SASL_ENABLED_MECHANISMS,
    SASL_JAAS_CONFIG,
    SASL_SERVER_CALLBACK_HANDLER_CLASS,
    SettingError,
)
from kavka.model.settings.listeners import ListenerValues
from kavka.net.session import Session
from kavka.security.sasl.exchange import SaslServer
from kavka.security.sasl.jaas import JaasEntry, JaasError, parse_jaas

MECHANISMS: Final = {
    "PLAIN": "kavka.broker.sasl.plain",
    "SCRAM-SHA-256": "kavka.broker.sasl.scram",
    "SCRAM-SHA-512": "kavka.broker.sasl.scram",
    "OAUTHBEARER": "kavka.broker.sasl.oauthbearer",
    "GSSAPI": "kavka.broker.sasl.gssapi",
}
"""The module of each mechanism."""
_SECURITY: Final = "org.apache.kafka.common.security."
HANDLERS: Final[Mapping[str, str]] = {
    f"{_SECURITY}plain.internals.PlainServerCallbackHandler": "PLAIN",
    f"{_SECURITY}scram.internals.ScramServerCallbackHandler": "SCRAM",
    f"{_SECURITY}oauthbearer.OAuthBearerValidatorCallbackHandler": "OAUTHBEARER",
    f"{_SECURITY}oauthbearer.secured.OAuthBearerValidatorCallbackHandler": "OAUTHBEARER",
    f"{_SECURITY}authenticator.SaslServerCallbackHandler": "GSSAPI",
}
"""Kafka's own handlers, by the mechanism that does the same here."""


@dataclass(frozen=True, slots=True)
class MechanismSetup:
    """What a mechanism of a listener is made of."""

    listener: str
    mechanism: str
    settings: ListenerValues
    """The listener's, with those of the mechanism on it first."""
    security: Callable[[], SecurityImage]
    """The credentials and tokens of the metadata, as they are now."""
    clock: Clock
    secret: bytes
    """Known to this start of the node alone."""
    cluster: Callable[[], str] = str
    """The cluster's id, which strangers do not know; empty before the node knows it."""

    def refusal(self, key: str, why: str) -> SettingError:
        """An error that names a key as it is set for this listener."""
        return SettingError(f"{key}: {why} (for {self.mechanism} on listener {self.listener})")

    def judge(self) -> Callable[..., Any] | None:
        """The operator's own function that judges log-ins, if there is one; raises SettingError.

        What is set for all mechanisms is OAUTHBEARER's; another one has it with its name before it.
        """
        setting = SASL_SERVER_CALLBACK_HANDLER_CLASS
        name = self.settings[setting]
        if name is None:
            return None
        key = self.settings.own_key(setting) or setting.name
        mine = key.endswith(f".{self.mechanism.lower()}.{setting.name}")
        if ":" not in name:
            if name not in HANDLERS or (mine and not self.mechanism.startswith(HANDLERS[name])):
                raise self.refusal(key, f"{name} is a part of Java, which is not here, and no package.module:function")
            return None
        if self.mechanism == "OAUTHBEARER" or (mine and self.mechanism == "PLAIN"):
            return _imported(self, key, name)
        if mine or "OAUTHBEARER" not in self.settings[SASL_ENABLED_MECHANISMS]:
            own = f"listener.name.{self.listener.lower()}.plain.{setting.name}"
            raise self.refusal(key, f"{name} would judge nobody: OAUTHBEARER has such a function, or PLAIN by {own}")
        return None

    def jaas(self, *modules: str) -> JaasEntry | None:
        """The listener's `sasl.jaas.config`, if it has one; raises SettingError unless it names one of these modules.

        As in Kafka only the key with listener and mechanism before it counts on a node.
        """
        key = self.settings.own_key(SASL_JAAS_CONFIG)
        password = self.settings[SASL_JAAS_CONFIG] if key is not None else None
        if key is None or password is None:
            return None
        try:
            entry = parse_jaas(password.value)
        except JaasError as error:
            raise self.refusal(key, str(error)) from None
        if entry.module not in modules:
            raise self.refusal(key, f"{entry.module} is no login module for it, {' or '.join(modules)} is")
        return entry


class SaslMechanism(Protocol):
    """One mechanism of one listener."""

    def begin(self, session: Session) -> SaslServer:
        """A new exchange with whoever is at the other end of a connection."""


Make = Callable[[MechanismSetup], SaslMechanism]


def mechanism_of(setup: MechanismSetup) -> SaslMechanism:
    """The mechanism that a listener asks for; raises SettingError for one that is not there or not set up."""
    module = MECHANISMS.get(setup.mechanism)
    if module is None:
        known = ", ".join(sorted(MECHANISMS))
        raise setup.refusal(SASL_ENABLED_MECHANISMS.name, f"{setup.mechanism} is not there, there are {known}")
    setup.judge()  # where nobody asks for it, it must not be there
    make: Make = import_module(module).mechanism
    return make(setup)


def _imported(setup: MechanismSetup, key: str, name: str) -> Callable[..., Any]:
    """A function of the operator's own, named as package.module:function."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise setup.refusal(key, f"{name} cannot be imported: {error}") from None
    if not callable(found):
        raise setup.refusal(key, f"{name} is no function")
    judge: Callable[..., Any] = found
    return judge
