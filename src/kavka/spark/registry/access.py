"""How queries reach a registry: by Confluent's own names, on the driver and in each task, with secrets by reference."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kavka.client.providers import resolved
from kavka.model.settings import SettingError
from kavka.spark.connecting import OptionError, with_providers

if TYPE_CHECKING:
    from kavka.client.registry.blocking import SchemaRegistry

PREFIX: Final = "schema.registry."
URL: Final = "schema.registry.url"
NAMES: Final = (
    URL,
    "schema.registry.basic.auth.credentials.source",
    "schema.registry.basic.auth.user.info",
    "schema.registry.bearer.auth.token",
    "schema.registry.ssl.truststore.type",
    "schema.registry.ssl.truststore.location",
    "schema.registry.ssl.truststore.password",
    "schema.registry.ssl.truststore.certificates",
    "schema.registry.ssl.keystore.type",
    "schema.registry.ssl.keystore.location",
    "schema.registry.ssl.keystore.password",
    "schema.registry.ssl.key.password",
)
SECRETS: Final = frozenset(
    (
        "schema.registry.basic.auth.user.info",
        "schema.registry.bearer.auth.token",
        "schema.registry.ssl.truststore.password",
        "schema.registry.ssl.keystore.password",
        "schema.registry.ssl.key.password",
    )
)

Access = tuple[tuple[str, str], ...]
"""The options, secrets as references, in the order of their names."""


def access_of(options: Mapping[str, str]) -> Access | None:
    """How the registry is reached that options, their names in lower case, lead to; None if they name none."""
    given = {name: value for name, value in options.items() if name.startswith(PREFIX)}
    if not given:
        return None
    unknown = sorted(set(given) - set(NAMES))
    if unknown:
        raise OptionError(f"there is no option {unknown[0]!r}; those about a registry are {', '.join(NAMES)}")
    from kavka.client.registry.setup import options_of

    try:
        options_of(given)
    except SettingError as error:
        raise OptionError(str(error)) from None
    return tuple(sorted(given.items()))


@functools.lru_cache(maxsize=8)
def opened(access: Access) -> SchemaRegistry:
    """The client of a registry, one for a process: what it has learned is of use to the next task."""
    return connected(access)


def connected(access: Access) -> SchemaRegistry:
    """A client of its own, for the driver: what is the latest version is asked anew by each query."""
    from kavka.client.registry.blocking import SchemaRegistry

    plain: dict[str, Any] = resolved(with_providers(dict(access)))
    return SchemaRegistry.of({name: value for name, value in plain.items() if name.startswith(PREFIX)})
