"""OAUTHBEARER on a listener: tokens signed by keys of a JWKS document (extra `oauth`), or judged by a function.

There is no way of believing tokens by leaving something out: without a source of keys a node does not start.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kavka.broker.sasl import MechanismSetup
from kavka.client.http import checked_url
from kavka.model.settings import (
    KAVKA_SASL_OAUTHBEARER_UNSECURED,
    ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_URLS,
    SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS,
    SASL_OAUTHBEARER_EXPECTED_AUDIENCE,
    SASL_OAUTHBEARER_EXPECTED_ISSUER,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_URL,
    SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS,
    SASL_OAUTHBEARER_SCOPE_CLAIM_NAME,
    SASL_OAUTHBEARER_SUB_CLAIM_NAME,
)
from kavka.net.session import Session
from kavka.security.sasl.exchange import Authenticated
from kavka.security.sasl.oauthbearer import InvalidTokenError, Judge, OAuthBearerServer

logger = logging.getLogger(__name__)

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
MODULE: Final = f"{_PACKAGE}OAuthBearerLoginModule"
VALIDATORS: Final = frozenset({f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator"})


class Judged:
    """Tokens that a function judges."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def begin(self, session: Session) -> OAuthBearerServer:
        """Judge one login."""
        return OAuthBearerServer(self._judge)


class KeySource(Protocol):
    """Who has keys, and may have to fetch them."""

    async def run(self) -> None:
        """Fetch them while the node runs."""


class Signed(Judged):
    """Tokens that are signed by known keys."""

    def __init__(self, judge: Judge, keys: KeySource) -> None:
        super().__init__(judge)
        self._keys = keys

    async def run(self) -> None:
        """Keep the keys up to date."""
        await self._keys.run()


def mechanism(setup: MechanismSetup) -> Judged:
    """OAUTHBEARER with what a listener trusts; raises SettingError where that is nothing."""
    settings = setup.settings
    validator = settings[SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS]
    if validator not in VALIDATORS:
        key = SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS.name
        raise setup.refusal(key, f"{validator} is none of {', '.join(sorted(VALIDATORS))}")
    judge = setup.judge()
    if judge is not None:
        return Judged(_by(judge))
    url, unsecured = settings[SASL_OAUTHBEARER_JWKS_ENDPOINT_URL], settings[KAVKA_SASL_OAUTHBEARER_UNSECURED]
    if url is None and not unsecured:
        raise setup.refusal(SASL_OAUTHBEARER_JWKS_ENDPOINT_URL.name, "it must say where the keys of tokens are")
    if url is not None and unsecured:
        raise setup.refusal(KAVKA_SASL_OAUTHBEARER_UNSECURED.name, "not together with keys of tokens")
    try:
        from kavka.security.jwt import JwtRules, judge_unsecured
    except ImportError:
        raise setup.refusal("sasl.enabled.mechanisms", "it needs pip install 'kavka[oauth]'") from None
    rules = JwtRules(
        audiences=frozenset(settings[SASL_OAUTHBEARER_EXPECTED_AUDIENCE]),
        issuer=settings[SASL_OAUTHBEARER_EXPECTED_ISSUER],
        scope_claim=settings[SASL_OAUTHBEARER_SCOPE_CLAIM_NAME],
        subject_claim=settings[SASL_OAUTHBEARER_SUB_CLAIM_NAME],
        clock_skew_seconds=settings[SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS],
    )
    now_ms = setup.clock.now_ms
    if url is None:
        return Judged(lambda token: judge_unsecured(token, rules, now_ms()))
    return _signed(setup, url, rules)


def _by(function: Callable[[str], object]) -> Judge:
    """The operator's own function; if it fails, nobody is let in, and its token is in no log."""

    def judge(token: str) -> Authenticated:
        try:
            found = function(token)
        except InvalidTokenError:
            raise
        except Exception as error:
            # no traceback: what it has to do with may be in the error
            logger.error("the function that judges bearer tokens has failed: %s", type(error).__name__)
            raise InvalidTokenError("the function that judges tokens has failed") from None
        if not isinstance(found, Authenticated):
            logger.error("the function that judges bearer tokens says nothing: %s", type(found).__name__)
            raise InvalidTokenError("the function that judges tokens has said nothing")
        return found

    return judge


def _signed(setup: MechanismSetup, url: str, rules: Any) -> Signed:
    from kavka.broker.sasl.jwks import RefreshingJwks, from_file, from_url, read_file
    from kavka.security.jwt import Jwks, JwtRules, UnknownKeyError

    assert isinstance(rules, JwtRules)
    key, settings = SASL_OAUTHBEARER_JWKS_ENDPOINT_URL.name, setup.settings
    if url not in settings[ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_URLS]:
        raise setup.refusal(key, f"{url} is not among {ORG_APACHE_KAFKA_SASL_OAUTHBEARER_ALLOWED_URLS.name}")
    keys = None
    if url.startswith("file:"):
        load = from_file(url)
        try:
            keys = Jwks.parse(read_file(url))
        except (OSError, ValueError) as error:
            raise setup.refusal(key, str(error)) from None
    else:
        try:
            checked_url(url)
        except ValueError as error:
            raise setup.refusal(key, str(error)) from None
        load = from_url(url, _trust(setup))
    jwks = RefreshingJwks(
        load,
        setup.clock,
        refresh_ms=settings[SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS],
        backoff_ms=settings[SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS],
        backoff_max_ms=settings[SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS],
        keys=keys,
    )
    now_ms = setup.clock.now_ms

    def judge(token: str) -> Any:
        try:
            return rules.judge(token, jwks.keys, now_ms())
        except UnknownKeyError as error:
            jwks.miss(error.kid)
            raise

    return Signed(judge, jwks)


def _trust(setup: MechanismSetup) -> ssl.SSLContext | None:
    """Whose certificates the server of the keys may have, where that is not left to the system."""
    entry = setup.jaas(MODULE)
    options: Mapping[str, str] = {} if entry is None else entry.options
    location = options.get("ssl.truststore.location")
    if location is None:
        return None
    key = "sasl.jaas.config"
    if options.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise setup.refusal(key, "ssl.truststore.location must be a file of ssl.truststore.type PEM")
    try:
        return ssl.create_default_context(cafile=location)
    except (OSError, ssl.SSLError) as error:
        raise setup.refusal(key, f"ssl.truststore.location: {location}: {error}") from None
