"""The secrets of delegation tokens, and logging in with them."""

from __future__ import annotations

from base64 import b64encode
from types import SimpleNamespace

import pytest

from kavka.model.errors import SaslAuthenticationFailed
from kavka.model.settings import broker_values
from kavka.security.sasl.scram import TOKEN_AUTH, Credentials, Mechanism, ScramClient, ScramServer
from kavka.security.token import REMEMBERED, TokenLogins, TokenSecrets, token_hmac

TOKEN = SimpleNamespace(owner="User:alice", expiration_timestamp=100)


def logins(secrets, mechanism=Mechanism.SCRAM_SHA_256, tokens=None, now_ms=0):
    return TokenLogins(secrets, mechanism, (tokens or {"id": TOKEN}).get, lambda: now_ms)


def log_in(found, secret, name="id", mechanism=Mechanism.SCRAM_SHA_256, by_token=True):
    extensions = {TOKEN_AUTH: "true"} if by_token else None
    client = ScramClient(mechanism, name, b64encode(secret).decode(), "abc", extensions)
    server = ScramServer(mechanism, Credentials(lambda _: None, found, lambda: b"s"), "def")
    answer = client.respond(server.respond(client.begin())) or b""
    assert client.respond(server.respond(answer)) is None
    return server.authenticated


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_a_token_logs_its_owner_in_until_it_is_over(mechanism):
    found = logins(TokenSecrets("key"), mechanism)
    who = log_in(found, token_hmac("key", "id"), mechanism=mechanism)
    assert (who.name, who.expires_at_ms, who.token_authenticated) == ("alice", 100, True)


def test_a_token_is_no_password_and_a_wrong_secret_none_at_all():
    found = logins(TokenSecrets("key"))
    with pytest.raises(SaslAuthenticationFailed):
        log_in(found, token_hmac("key", "id"), by_token=False)
    with pytest.raises(SaslAuthenticationFailed):
        log_in(found, token_hmac("another", "id"))
    with pytest.raises(SaslAuthenticationFailed):
        log_in(found, token_hmac("key", "none"), name="none")


def test_a_token_whose_time_is_over_lets_nobody_in_before_it_is_swept():
    with pytest.raises(SaslAuthenticationFailed):
        log_in(logins(TokenSecrets("key"), now_ms=101), token_hmac("key", "id"))


def test_while_the_key_is_changed_tokens_of_both_keys_are_good():
    found = logins(TokenSecrets("new", "old"))
    assert log_in(found, token_hmac("new", "id")).name == "alice"
    assert log_in(found, token_hmac("old", "id")).name == "alice"
    with pytest.raises(SaslAuthenticationFailed):
        log_in(found, token_hmac("older", "id"))
    assert TokenSecrets("new", "old").make("id") == token_hmac("new", "id")


def test_the_settings_name_the_keys():
    assert TokenSecrets.of(broker_values({})) is None
    texts = {"delegation.token.secret.key": "new", "kavka.delegation.token.accepted.secret.key": "old"}
    secrets = TokenSecrets.of(broker_values(texts))
    assert secrets is not None
    assert list(secrets.accepted("id")) == [token_hmac("new", "id"), token_hmac("old", "id")]


def test_a_token_is_worked_out_once_and_so_many_are_remembered():
    tokens = {str(number): TOKEN for number in range(3)}
    found = logins(TokenSecrets("key"), tokens=tokens)
    first = found("0").credential
    assert found("0").credential is first
    found._made.update((f"other {number}", (first,)) for number in range(REMEMBERED))
    found("1")
    assert len(found._made) <= REMEMBERED + 1
    assert "0" not in found._made
