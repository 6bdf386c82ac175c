"""The settings by which a client secures its connections, named as in Kafka's `client.properties`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kavka.model.settings import security
from kavka.model.settings.rules import refuse_foreign
from kavka.model.settings.types import PASSWORD, STRING, Setting, SettingError, Source, collect, one_of
from kavka.model.settings.values import Layer, Values

SECURITY_PROTOCOL = STRING(
    "security.protocol", "PLAINTEXT", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), doc="How to connect."
)
SASL_MECHANISM = STRING("sasl.mechanism", "GSSAPI", doc="How to log in.")
SASL_USERNAME = STRING.optional("sasl.username", doc="Who to log in as, where sasl.jaas.config does not say it.")
SASL_PASSWORD = PASSWORD.optional("sasl.password", doc="The password, where sasl.jaas.config does not say it.")

OWN: Final = collect(globals())
SETTINGS: Final[Mapping[str, Setting[Any]]] = {
    **{name: row for name, row in security.SETTINGS.items() if name.startswith(("ssl.", "sasl."))},
    **OWN,
}
PREFIXES: Final = ("ssl.", "sasl.", "security.")


def security_values(options: Mapping[str, str]) -> Values:
    """The security settings among the options of a client; raises SettingError for those that there are not.

    Options that have nothing to do with security, as a `client.properties` may well have, are somebody else's.
    """
    texts = {name: text for name, text in options.items() if name.startswith(PREFIXES)}
    unknown = sorted(name for name in texts if name not in SETTINGS and name != "security.providers")
    if unknown:
        raise SettingError(f"{unknown[0]}: there is no such setting of a client")
    refuse_foreign(texts)
    return Values(SETTINGS, (Layer(Source.STATIC, texts),), {})
