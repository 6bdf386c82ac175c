"""How connections to a cluster are secured: with TLS or without, and with whose credentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kavka.client.providers import resolved
from kavka.client.sasl import Begin, LoginSetup, login_of
from kavka.model.settings.client import SASL_MECHANISM, SECURITY_PROTOCOL, security_values

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True)
class Security:
    """What a connector does with a connection before anybody else uses it."""

    context: Callable[[], ssl.SSLContext] | None = None
    """TLS, asked for at each dial; None for plain text."""
    mechanism: str = ""
    begin: Begin | None = None
    """How to log in; None where nobody does."""


def security_of(options: Mapping[str, Any] | None) -> Security | None:
    """What a client's options ask for, None for plain text; raises SettingError for what cannot be honoured.

    Options are those of Kafka's `client.properties`, references to config providers included; one that is no text, a
    function that gets tokens, is for its mechanism.
    """
    if not options:
        return None
    options = resolved(options)
    settings = security_values({name: text for name, text in options.items() if isinstance(text, str)})
    protocol = settings[SECURITY_PROTOCOL]
    context: Callable[[], ssl.SSLContext] | None = None
    if protocol in ("SSL", "SASL_SSL"):
        from kavka.net.stores import read_stores
        from kavka.net.tls_context import client_context

        made = client_context(settings, read_stores(settings))
        context = lambda: made  # noqa: E731
    if not protocol.startswith("SASL_"):
        return Security(context) if context is not None else None
    mechanism = settings[SASL_MECHANISM]
    others = {name: value for name, value in options.items() if not isinstance(value, str)}
    return Security(context, mechanism, login_of(LoginSetup(mechanism, settings, others)))


class SecuredBootstrap(str):
    """Addresses of a cluster that know how it is secured: whoever is given them needs nothing else."""

    __slots__ = ("security",)

    security: Mapping[str, Any]

    def __new__(cls, addresses: str, security: Mapping[str, Any]) -> SecuredBootstrap:
        """Addresses with the options of a `client.properties`."""
        made = super().__new__(cls, addresses)
        made.security = security
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), dict(self.security))
