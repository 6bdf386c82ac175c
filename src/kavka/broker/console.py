"""What a node tells the process that serves its console: where the cluster is, and how its listener is secured.

The console is a client like any other. It gets no credentials of the node: who signs in brings their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kavka.broker.config import NodeConfig
from kavka.model.properties import parse_properties
from kavka.model.settings import (
    KAVKA_CONSOLE_CLIENT_CONFIG,
    KAVKA_CONSOLE_HOSTS,
    KAVKA_CONSOLE_LISTENER,
    KAVKA_CONSOLE_READ_ONLY,
    KAVKA_LOG_FORMAT,
    KAVKA_LOG_LEVEL,
    KAVKA_REGISTRY_SECURITY_PROTOCOL,
    SASL_ENABLED_MECHANISMS,
    SSL_TRUSTSTORE_CERTIFICATES,
    SSL_TRUSTSTORE_LOCATION,
    SSL_TRUSTSTORE_PASSWORD,
    SSL_TRUSTSTORE_TYPE,
    SettingError,
)
from kavka.model.settings.listeners import ListenerValues
from kavka.model.types import EVERY_ADDRESS, Endpoint

WITH_TLS: Final = ("SSL", "SASL_SSL")
WITH_LOG_IN: Final = ("SASL_PLAINTEXT", "SASL_SSL")


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
        "registry": _url(registry, values[KAVKA_REGISTRY_SECURITY_PROTOCOL]) if registry else None,
        "registry_logs_in": values[KAVKA_REGISTRY_SECURITY_PROTOCOL] in WITH_LOG_IN,
        "read_only": values[KAVKA_CONSOLE_READ_ONLY],
        "hosts": [*values[KAVKA_CONSOLE_HOSTS], endpoint.host],
        "log_level": values[KAVKA_LOG_LEVEL],
        "log_format": values[KAVKA_LOG_FORMAT],
    }


def _url(registry: str, protocol: str) -> str:
    """The URL of the node's registry, as the same machine asks it."""
    host, _, port = registry.rpartition(":")
    if host.strip("[]") in EVERY_ADDRESS:
        host = "localhost"
    return f"{'https' if protocol in WITH_TLS else 'http'}://{host}:{port}"


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
    if endpoint.security_protocol in WITH_TLS:  # it believes whom the node does, and shows no certificate of its own
        password, pem = own[SSL_TRUSTSTORE_PASSWORD], own[SSL_TRUSTSTORE_CERTIFICATES]
        found = {
            SSL_TRUSTSTORE_TYPE.name: own[SSL_TRUSTSTORE_TYPE],
            SSL_TRUSTSTORE_LOCATION.name: own[SSL_TRUSTSTORE_LOCATION],
            SSL_TRUSTSTORE_PASSWORD.name: password.value if password is not None else None,
            SSL_TRUSTSTORE_CERTIFICATES.name: pem.value if pem is not None else None,
        }
        options |= {name: text for name, text in found.items() if text is not None}
    return options
