"""How a registry is reached, as programs say it and as Confluent's properties do."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

from kavka.model.settings import SettingError

URL: Final = "schema.registry.url"
_PREFIX: Final = "schema.registry."


def trust_of(tls: ssl.SSLContext | Mapping[str, str] | None) -> ssl.SSLContext | None:
    """The TLS that a context or Kafka's `ssl.*` settings ask for; None for what the machine trusts."""
    if tls is None or isinstance(tls, ssl.SSLContext):
        return tls
    from kavka.client.security import security_of

    security = security_of({"security.protocol": "SSL", **tls})
    assert security is not None
    assert security.context is not None
    return security.context()


def options_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a client from Confluent's properties; raises SettingError.

    They are `schema.registry.url`, `basic.auth.credentials.source` (URL or USER_INFO) with `basic.auth.user.info`,
    `bearer.auth.token`, and `schema.registry.ssl.*` as Kafka's `ssl.*`; all but the first with `schema.registry.`
    before them or without, and others are somebody else's.
    """
    urls = str(properties.get(URL) or "").strip()
    if not urls:
        raise SettingError(f"{URL}: it has no value: give the address of a schema registry, such as http://HOST:8081")
    options: dict[str, Any] = {"urls": urls}
    source = str(_either(properties, "basic.auth.credentials.source") or "USER_INFO").upper()
    if source not in ("URL", "USER_INFO"):
        raise SettingError(f"basic.auth.credentials.source: {source} is not supported, URL and USER_INFO are")
    user = _either(properties, "basic.auth.user.info")
    if user is not None and source == "USER_INFO":
        name, colon, password = str(user).partition(":")
        if not colon:
            raise SettingError("basic.auth.user.info: it is not NAME:PASSWORD")
        options["auth"] = (name, password)
    token = _either(properties, "bearer.auth.token")
    if token is not None:
        options["token"] = str(token)
    tls = {name[len(_PREFIX) :]: str(text) for name, text in properties.items() if name.startswith(f"{_PREFIX}ssl.")}
    if tls:
        options["tls"] = tls
    return options


def _either(properties: Mapping[str, Any], name: str) -> Any:
    found = properties.get(_PREFIX + name)
    return properties.get(name) if found is None else found
