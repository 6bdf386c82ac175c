"""OAUTHBEARER as a client has it: tokens of a function, of an authorization server, or of a file."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from kavka.client.oauth import ALLOWED_URLS, BearerToken, ClientCredentials, TokenSource, allowed_urls
from kavka.client.sasl import Begin, LoginSetup
from kavka.model.errors import SaslAuthenticationFailed
from kavka.model.settings import (
    SASL_JAAS_CONFIG,
    SASL_LOGIN_CALLBACK_HANDLER_CLASS,
    SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID,
    SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET,
    SASL_OAUTHBEARER_SCOPE,
    SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL,
    SettingError,
)
from kavka.security.sasl.exchange import SaslClient
from kavka.security.sasl.oauthbearer import OAuthBearerClient

MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLERS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    }
)
TOKEN: Final = "sasl.oauthbearer.token"
"""The option that is a function, which may be a coroutine function: it returns a token, as text or BearerToken."""
EXTENSION: Final = "extension_"


def login(setup: LoginSetup) -> Begin:
    """Log in with a token; raises SettingError where nobody gives any."""
    entry = setup.jaas(MODULE)
    options: Mapping[str, str] = {} if entry is None else entry.options
    extensions = {key[len(EXTENSION) :]: value for key, value in options.items() if key.startswith(EXTENSION)}
    source = _source(setup, options)

    async def begin(host: str) -> SaslClient:
        found = await source()
        try:
            return OAuthBearerClient(found.value if isinstance(found, BearerToken) else found, extensions)
        except ValueError as error:
            raise SaslAuthenticationFailed(str(error)) from None

    return begin


def _source(setup: LoginSetup, options: Mapping[str, str]) -> TokenSource:
    given = setup.options.get(TOKEN)
    if given is not None:
        return _called(TOKEN, given)
    handler = setup.settings[SASL_LOGIN_CALLBACK_HANDLER_CLASS]
    if handler is not None and ":" in handler:
        return _called(SASL_LOGIN_CALLBACK_HANDLER_CLASS.name, _imported(handler))
    if handler is not None and handler not in HANDLERS:
        raise SettingError(
            f"{SASL_LOGIN_CALLBACK_HANDLER_CLASS.name}: {handler} is not of the form package.module:name"
        )
    url = setup.settings[SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL]
    if url is None:
        raise SettingError(f"{SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL.name}: it, or the function {TOKEN}, must give tokens")
    if url.startswith("file:"):
        return _of_file(url)
    return _of_server(setup, options, url)


def _of_server(setup: LoginSetup, options: Mapping[str, str], url: str) -> TokenSource:
    settings = setup.settings
    secret = settings[SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET]
    client_id = settings[SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID] or options.get("clientId")
    client_secret = options.get("clientSecret") if secret is None else secret.value
    if client_id is None or client_secret is None:
        raise SettingError(
            f"{SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID.name}: it and the secret, or clientId and clientSecret of "
            f"{SASL_JAAS_CONFIG.name}, must say who asks for tokens"
        )
    try:
        return ClientCredentials(
            url, client_id, client_secret, scope=settings[SASL_OAUTHBEARER_SCOPE] or options.get("scope")
        )
    except ValueError as error:
        raise SettingError(f"{SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL.name}: {error}") from None


def _of_file(url: str) -> TokenSource:
    if url not in allowed_urls():
        raise SettingError(f"{SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL.name}: {url} is not among what {ALLOWED_URLS} allows")

    def read() -> str:
        with open(unquote(urlsplit(url).path), encoding="utf-8") as file:
            return file.read().strip()

    async def source() -> str:
        try:
            return await asyncio.to_thread(read)
        except (OSError, UnicodeDecodeError) as error:
            raise SaslAuthenticationFailed(f"no bearer token could be read: {error}") from None

    return source


def _called(key: str, function: Any) -> TokenSource:
    if not callable(function):
        raise SettingError(f"{key}: it must be a function that returns a token")

    async def source() -> BearerToken | str:
        found = function()
        token = await found if inspect.isawaitable(found) else found
        if not isinstance(token, str | BearerToken):
            raise SaslAuthenticationFailed(f"{key} has returned no token")
        return token

    return source


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        key = SASL_LOGIN_CALLBACK_HANDLER_CLASS.name
        raise SettingError(f"{key}: {name} cannot be imported: {error}") from None
