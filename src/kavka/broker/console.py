"""What a node tells the process that serves its console: where the cluster is, and how its listener is secured.

The console is a client like any other. It gets no credentials of the node: who signs in brings their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kavka.broker.config import NodeConfig
from kavka.broker.listeners import CONSOLE, REGISTRY
from kavka.model.properties import parse_properties
from kavka.model.settings import (
    KAVKA_CONSOLE_CLIENT_CONFIG,
    KAVKA_CONSOLE_HOSTS,
    KAVKA_CONSOLE_LISTENER,
    KAVKA_CONSOLE_READ_ONLY,
    KAVKA_CONSOLE_SECURITY_PROTOCOL,
    KAVKA_LOG_FORMAT,
    KAVKA_LOG_LEVEL,
    KAVKA_REGISTRY_SECURITY_PROTOCOL,
    SASL_ENABLED_MECHANISMS,
    SSL_CIPHER_SUITES,
    SSL_CLIENT_AUTH,
    SSL_ENABLED_PROTOCOLS,
    SSL_KEY_PASSWORD,
    SSL_KEYSTORE_CERTIFICATE_CHAIN,
    SSL_KEYSTORE_KEY,
    SSL_KEYSTORE_LOCATION,
    SSL_KEYSTORE_PASSWORD,
    SSL_KEYSTORE_TYPE,
    SSL_PROTOCOL,
    SSL_TRUSTSTORE_CERTIFICATES,
    SSL_TRUSTSTORE_LOCATION,
    SSL_TRUSTSTORE_PASSWORD,
    SSL_TRUSTSTORE_TYPE,
    Password,
    Setting,
    SettingError,
)
from kavka.model.settings.listeners import ListenerValues
from kavka.model.types import EVERY_ADDRESS, Endpoint
from kavka.net.stores import read_stores
from kavka.net.tls_context import server_context

WITH_TLS: Final = ("SSL", "SASL_SSL")
WITH_LOG_IN: Final = ("SASL_PLAINTEXT", "SASL_SSL")
SERVED: Final[tuple[Setting[Any], ...]] = (
    SSL_PROTOCOL,
    SSL_ENABLED_PROTOCOLS,
    SSL_CIPHER_SUITES,
    SSL_KEYSTORE_TYPE,
    SSL_KEYSTORE_LOCATION,
    SSL_KEYSTORE_PASSWORD,
    SSL_KEYSTORE_KEY,
    SSL_KEYSTORE_CERTIFICATE_CHAIN,
    SSL_KEY_PASSWORD,
    SSL_TRUSTSTORE_TYPE,
    SSL_TRUSTSTORE_LOCATION,
    SSL_TRUSTSTORE_PASSWORD,
    SSL_TRUSTSTORE_CERTIFICATES,
)
"""The settings that make HTTPS."""
REGISTRY_OPTIONS: Final = ("schema.registry.", "basic.auth.", "bearer.auth.")
REGISTRY_URL: Final = "schema.registry.url"


def listener_of(config: NodeConfig, endpoints: Iterable[Endpoint]) -> Endpoint:
    """The advertised listener by which the console connects; raises SettingError.

    It is the first that has clients log in, or the first if none has: nobody shall be spared a log-in by the console. A
    client.properties chooses by its security protocol.
    """
    advertised = {endpoint.listener: endpoint for endpoint in endpoints}
    known = [advertised[listener.listener] for listener in config.listeners if listener.listener in advertised]
    if not known:
        what = "a node without clients' listeners has no console: use `kavka console --bootstrap HOST:PORT`"
        raise SettingError(f"{KAVKA_CONSOLE_LISTENER.name}: {what}")
    given = _given(config)
    wanted = WITH_LOG_IN if given is None else (given.get("security.protocol", "PLAINTEXT"),)
    return next((endpoint for endpoint in known if endpoint.security_protocol in wanted), known[0])


def console_facts(
    config: NodeConfig, endpoint: Endpoint, bootstrap: str, metrics: str | None, registry: str | None
) -> Mapping[str, Any]:
    """What the console is told, for a JSON document; raises SettingError."""
    values = config.values
    own = ListenerValues(values, endpoint.listener)
    return {
        "bootstrap": bootstrap,
        "security": _security(config, endpoint, own),
        "mechanisms": list(own[SASL_ENABLED_MECHANISMS]),
        "metrics": metrics,
        **_registry(config, endpoint, registry),
        "tls": _tls(config),
        "read_only": values[KAVKA_CONSOLE_READ_ONLY],
        "hosts": [*values[KAVKA_CONSOLE_HOSTS], endpoint.host],
        "log_level": values[KAVKA_LOG_LEVEL],
        "log_format": values[KAVKA_LOG_FORMAT],
    }


def _registry(config: NodeConfig, endpoint: Endpoint, registry: str | None) -> dict[str, Any]:
    """Where schemas are, and how they are asked for: in a registry that a client.properties names, or in the node's."""
    given = {name: text for name, text in (_given(config) or {}).items() if name.startswith(REGISTRY_OPTIONS)}
    if REGISTRY_URL in given or registry is None:
        return {"registry": given.get(REGISTRY_URL), "registry_options": given, "registry_knows_users": False}
    protocol = config.values[KAVKA_REGISTRY_SECURITY_PROTOCOL]
    trust = _trust(ListenerValues(config.values, REGISTRY)) if protocol in WITH_TLS else {}
    return {
        "registry": _url(registry, protocol, endpoint),
        "registry_options": {**{f"schema.registry.{name}": text for name, text in trust.items()}, **given},
        "registry_knows_users": protocol in WITH_LOG_IN,
    }


def _url(registry: str, protocol: str, endpoint: Endpoint) -> str:
    """The URL of the node's registry, as the same machine asks it; by a name that certificates have, with TLS."""
    host, _, port = registry.rpartition(":")
    if host.strip("[]") in EVERY_ADDRESS:
        host = endpoint.host if protocol in WITH_TLS else "localhost"
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"{'https' if protocol in WITH_TLS else 'http'}://{host}:{port}"


def _tls(config: NodeConfig) -> dict[str, str]:
    """By what the console serves HTTPS, none for plain HTTP; raises SettingError."""
    if config.values[KAVKA_CONSOLE_SECURITY_PROTOCOL] != "SSL":
        return {}
    if any(endpoint.listener == CONSOLE for endpoint in (*config.listeners, *config.controller_listeners)):
        raise SettingError(f"listeners: {CONSOLE} is the name of {KAVKA_CONSOLE_LISTENER.name}, choose another")
    own = ListenerValues(config.values, CONSOLE)
    client_auth = own[SSL_CLIENT_AUTH] if own.own_key(SSL_CLIENT_AUTH) is not None else "none"  # brokers' own is theirs
    server_context(own, read_stores(own), client_auth)
    told: dict[str, str] = {SSL_CLIENT_AUTH.name: client_auth}
    for setting in SERVED:
        value: Any = own[setting]
        if value is not None and setting in own:
            text = value.value if isinstance(value, Password) else value
            told[setting.name] = ",".join(text) if isinstance(text, tuple) else str(text)
    return told


def _given(config: NodeConfig) -> dict[str, str] | None:
    """The client.properties of the console, if it has one."""
    path = config.values[KAVKA_CONSOLE_CLIENT_CONFIG]
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return dict(parse_properties(file.read()))
    except (OSError, ValueError) as error:
        raise SettingError(f"{KAVKA_CONSOLE_CLIENT_CONFIG.name}: {path}: {error}") from None


def _security(config: NodeConfig, endpoint: Endpoint, own: ListenerValues) -> dict[str, str]:
    given = _given(config)
    if given is not None:
        return given
    options = {"security.protocol": endpoint.security_protocol}
    return options | _trust(own) if endpoint.security_protocol in WITH_TLS else options


def _trust(own: ListenerValues) -> dict[str, str]:
    """Whom a listener believes: so does the console, and it shows no certificate of its own."""
    password, pem = own[SSL_TRUSTSTORE_PASSWORD], own[SSL_TRUSTSTORE_CERTIFICATES]
    found = {
        SSL_TRUSTSTORE_TYPE.name: own[SSL_TRUSTSTORE_TYPE],
        SSL_TRUSTSTORE_LOCATION.name: own[SSL_TRUSTSTORE_LOCATION],
        SSL_TRUSTSTORE_PASSWORD.name: password.value if password is not None else None,
        SSL_TRUSTSTORE_CERTIFICATES.name: pem.value if pem is not None else None,
    }
    return {name: text for name, text in found.items() if text is not None}
