"""What the console knows when it starts: where the cluster is, how its listeners are secured, what may be done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kavka.client.providers import resolved
from kavka.client.registry import SchemaRegistry
from kavka.client.registry.setup import URL, options_of
from kavka.client.security import SecuredBootstrap
from kavka.console.values import ASK_MS

MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""By which a name and a password are enough; the others are no matter for a form."""
CREDENTIALS: Final = ("sasl.jaas.config", "sasl.username")


@dataclass(frozen=True)
class ConsoleSettings:
    """What was said on the command line, or by the node that has started this."""

    bootstrap: str
    security: Mapping[str, str] = field(default_factory=dict)
    """As in a client.properties, with credentials or without."""
    mechanisms: tuple[str, ...] = ()
    metrics: str | None = None
    """HOST:PORT of the node's page of metrics."""
    registry: str | None = None
    """The URL of a schema registry."""
    registry_options: Mapping[str, str] = field(default_factory=dict)
    """How it is reached, in Confluent's words: `schema.registry.ssl.*`, `schema.registry.basic.auth.user.info`, ..."""
    registry_knows_users: bool = False
    """Whether it is the cluster's own and has people log in as the cluster has."""
    tls: Mapping[str, str] = field(default_factory=dict)
    """The `ssl.*` settings by which browsers are served; without them HTTP is plain."""
    read_only: bool = False
    hosts: tuple[str, ...] = ()
    """Names that the console may be asked for by, beside addresses and this machine's own."""
    log_level: str = "info"
    log_format: str = "text"

    @property
    def signs_in(self) -> bool:
        """Whether people have to say who they are."""
        protocol = self.security.get("security.protocol", "PLAINTEXT")
        return protocol.startswith("SASL_") and not any(name in self.security for name in CREDENTIALS)

    @property
    def offered(self) -> list[str]:
        """The mechanisms of the form, the best first."""
        chosen = self.security.get("sasl.mechanism")
        known = [chosen] if chosen else self.mechanisms or MECHANISMS
        return [name for name in MECHANISMS if name in known]

    def schemas(self, credentials: tuple[str, str] | None = None) -> SchemaRegistry | None:
        """A client of the registry, if there is one, for whoever has signed in; raises SettingError."""
        if self.registry is None:
            return None
        options = options_of(resolved({**self.registry_options, URL: self.registry}))
        if self.registry_knows_users and credentials is not None and not {"auth", "token"} & set(options):
            options["auth"] = credentials
        return SchemaRegistry(**options, timeout_ms=ASK_MS)

    def cluster(self, credentials: Mapping[str, str] | None = None) -> str:
        """The cluster's addresses with what connections to them need."""
        options = {**self.security, **(credentials or {})}
        return SecuredBootstrap(self.bootstrap, options) if options else self.bootstrap


def read_settings(line: bytes) -> ConsoleSettings:
    """The settings that a node has written down."""
    told = json.loads(line)
    return ConsoleSettings(**{**told, "mechanisms": tuple(told["mechanisms"]), "hosts": tuple(told["hosts"])})
