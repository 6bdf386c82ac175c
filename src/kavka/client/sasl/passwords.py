"""PLAIN and SCRAM as a client has them: a name and a password."""

from __future__ import annotations

import secrets
from typing import Final

from kavka.client.sasl import Begin, LoginSetup
from kavka.model.settings import SASL_JAAS_CONFIG, SettingError
from kavka.model.settings.client import SASL_PASSWORD, SASL_USERNAME
from kavka.security.sasl.exchange import SaslClient
from kavka.security.sasl.jaas import JaasError
from kavka.security.sasl.plain import PlainClient
from kavka.security.sasl.scram import TOKEN_AUTH, Mechanism, ScramClient

NONCE_BYTES: Final = 24
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def login(setup: LoginSetup) -> Begin:
    """Log in with a name and a password; raises SettingError where they are missing."""
    plain = setup.mechanism == "PLAIN"
    entry = setup.jaas(PLAIN_MODULE if plain else SCRAM_MODULE)
    by_token = False
    if entry is not None:
        try:
            name, password = entry.option("username"), entry.option("password")
        except JaasError as error:
            raise SettingError(f"{SASL_JAAS_CONFIG.name}: {error}") from None
        by_token = entry.options.get(TOKEN_AUTH, "").lower() == "true"
    else:
        given, secret = setup.settings[SASL_USERNAME], setup.settings[SASL_PASSWORD]
        if given is None or secret is None:
            raise SettingError(
                f"{SASL_JAAS_CONFIG.name}: it, or {SASL_USERNAME.name} and {SASL_PASSWORD.name}, must say who logs in"
            )
        name, password = given, secret.value

    async def begin(host: str) -> SaslClient:
        if plain:
            return PlainClient(name, password)
        mechanism = Mechanism[setup.mechanism.replace("-", "_")]
        extensions = {TOKEN_AUTH: "true"} if by_token else None
        return ScramClient(mechanism, name, password, secrets.token_urlsafe(NONCE_BYTES), extensions)

    return begin
