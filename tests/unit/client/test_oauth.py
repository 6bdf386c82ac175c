"""Bearer tokens from an authorization server."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from http_server import answering, http_server
from kavka.client.oauth import ALLOWED_URLS, BearerToken, ClientCredentials
from kavka.model.errors import SaslAuthenticationFailed


def answer(**fields) -> bytes:
    return json.dumps(fields).encode()


def test_a_token_is_asked_for_by_id_and_secret_and_used_until_most_of_its_time_is_over() -> None:
    now = 1000.0
    with http_server(answering(answer(access_token="a.b.c", expires_in=100))) as (url, requests):
        source = ClientCredentials(url, "i d", "s:", scope="kafka read", allowed=frozenset({url}), now=lambda: now)
        assert asyncio.run(source()) == BearerToken("a.b.c", 1100.0)
        now = 1079.0
        asyncio.run(source())
        assert len(requests) == 1
        now = 1081.0
        assert asyncio.run(source()).expires_at == 1181.0
    assert len(requests) == 2
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert b"Authorization: Basic " + base64.b64encode(b"i+d:s%3A") in head
    assert body == b"grant_type=client_credentials&scope=kafka+read"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", answer(access_token=7), answer(access_token="")])
def test_an_answer_without_a_token_is_a_failed_login(body: bytes) -> None:
    with http_server(answering(body)) as (url, _):
        source = ClientCredentials(url, "id", "secret", allowed=frozenset({url}))
        with pytest.raises(SaslAuthenticationFailed) as failed:
            asyncio.run(source())
    assert "secret" not in str(failed.value)


def test_a_configuration_cannot_send_a_client_where_its_program_does_not_allow(monkeypatch) -> None:
    monkeypatch.delenv(ALLOWED_URLS, raising=False)
    url = "https://issuer.example/token"
    with pytest.raises(ValueError, match="is not among the URLs"):
        ClientCredentials(url, "id", "secret")
    monkeypatch.setenv(ALLOWED_URLS, f"https://x, {url}")
    ClientCredentials(url, "id", "secret")
    with pytest.raises(ValueError, match="https"):
        ClientCredentials("file:///etc/passwd", "id", "secret", allowed=frozenset({"file:///etc/passwd"}))


def test_tokens_and_secrets_are_not_shown() -> None:
    assert "a.b.c" not in repr(BearerToken("a.b.c"))
