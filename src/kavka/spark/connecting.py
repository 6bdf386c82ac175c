"""The `kafka.*` options: where the brokers are, how connections to them are secured, and the little else that counts.

Rule: an option is honoured or an error. Secrets are references, `${env:NAME}`, until a connection is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from kavka.client.providers import PROVIDERS, REFERENCE
from kavka.client.security import SecuredBootstrap, security_of
from kavka.model.settings import SettingError
from kavka.model.settings.client import SETTINGS

KAFKA: Final = "kafka."
BOOTSTRAP: Final = "kafka.bootstrap.servers"
_ALWAYS: Final[Mapping[str, str]] = {
    "env": "EnvVarConfigProvider",
    "file": "FileConfigProvider",
    "directory": "DirectoryConfigProvider",
}
"""Config providers that need no declaration here."""
SECURITY: Final = frozenset(
    (
        "security.protocol",
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "sasl.mechanism",
        "sasl.jaas.config",
        "sasl.username",
        "sasl.password",
        "sasl.kerberos.service.name",
        "sasl.login.callback.handler.class",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
    )
)
"""What our client acts on; its other settings are a node's, or of Java's libraries."""
_PUBLIC: Final = ("ssl.keystore.certificate.chain", "ssl.truststore.certificates")


class OptionError(ValueError):
    """An option is missing, misspelt or has a value that means nothing."""


def is_security(name: str) -> bool:
    """Whether a setting of a client, without `kafka.`, has to do with how its connections are secured."""
    return name in SECURITY or name == PROVIDERS or name.startswith(f"{PROVIDERS}.")


def check_names(given: Collection[str], known: Collection[str]) -> None:
    """Raise OptionError for a `kafka.*` option, in lower case, that would have no effect."""
    for name in given:
        if name.startswith(KAFKA) and name not in known and not is_security(name.removeprefix(KAFKA)):
            raise OptionError(
                f"{name} would have no effect here, so it is not accepted: leave it out. "
                f"Those that count: {', '.join(sorted({*known, *(KAFKA + each for each in SECURITY)}))}, and "
                f"kafka.{PROVIDERS}"
            )


def bootstrap_of(options: Mapping[str, str]) -> str:
    """The brokers that options with names in lower case lead to, and how they are reached; raises OptionError."""
    text = options.get(BOOTSTRAP)
    if not text:
        raise OptionError('say where the brokers are: option("kafka.bootstrap.servers", "HOST:PORT")')
    security: dict[str, Any] = {
        name.removeprefix(KAFKA): value
        for name, value in options.items()
        if name.startswith(KAFKA) and is_security(name.removeprefix(KAFKA))
    }
    if not security:
        return text
    security = with_providers(security)
    try:
        security_of(security)  # what cannot be honoured is an error here, before any task runs
    except SettingError as error:
        raise OptionError(f"kafka.{error}") from None
    return SecuredBootstrap(text, security)


def with_providers(security: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the config providers declared that need no declaration here."""
    named = [part.strip() for part in str(security.get(PROVIDERS, "")).split(",") if part.strip()]
    missing = [name for name in _ALWAYS if name not in named]
    classes = {f"{PROVIDERS}.{name}.class": _ALWAYS[name] for name in missing}
    return {**classes, **security, PROVIDERS: ",".join([*named, *missing])}


def connection_options(bootstrap: str) -> dict[str, str]:
    """The `kafka.*` options by which a query reaches a cluster, from its addresses and how they are secured."""
    security = bootstrap.security if isinstance(bootstrap, SecuredBootstrap) else {}
    return {BOOTSTRAP: str(bootstrap), **{KAFKA + name: value for name, value in security.items() if is_security(name)}}


def bare_secret(name: str, value: str) -> bool:
    """Whether this is a setting, without `kafka.`, that holds a secret itself instead of a reference to it."""
    row = SETTINGS.get(name)
    return row is not None and row.sensitive and name not in _PUBLIC and REFERENCE.search(value) is None
