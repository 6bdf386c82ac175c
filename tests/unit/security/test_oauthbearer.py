"""SASL/OAUTHBEARER on both sides."""

from __future__ import annotations

import pytest

from kavka.model.errors import SaslAuthenticationFailed
from kavka.security.sasl.exchange import Authenticated, SaslRefused
from kavka.security.sasl.oauthbearer import INVALID_TOKEN, InvalidTokenError, OAuthBearerClient, OAuthBearerServer


def judge(token: str) -> Authenticated:
    if token != "good":
        raise InvalidTokenError("it is bad")
    return Authenticated("alice", 7)


def test_a_good_token_is_all_it_takes() -> None:
    client, server = OAuthBearerClient("good", {"logicalCluster": "x y"}), OAuthBearerServer(judge)
    assert client.respond(server.respond(client.begin())) is None
    assert server.authenticated == Authenticated("alice", 7)
    with pytest.raises(SaslRefused):
        server.respond(client.begin())


def test_a_bad_token_is_refused_after_the_client_has_heard_of_it() -> None:
    client, server = OAuthBearerClient("bad"), OAuthBearerServer(judge)
    answer = server.respond(client.begin())
    assert answer == INVALID_TOKEN.encode()
    last = client.respond(answer)
    assert last == b"\x01"
    with pytest.raises(SaslRefused) as refused:
        server.respond(last)
    assert (refused.value.message, refused.value.reason) == (INVALID_TOKEN, "it is bad")
    assert server.authenticated is None


def test_after_a_bad_token_no_other_is_tried() -> None:
    server = OAuthBearerServer(judge)
    server.respond(OAuthBearerClient("bad").begin())
    with pytest.raises(SaslRefused):
        server.respond(OAuthBearerClient("good").begin())
    assert server.authenticated is None


def test_nobody_is_taken_for_another() -> None:
    with pytest.raises(SaslAuthenticationFailed, match="authorization id \\(bob\\)"):
        OAuthBearerServer(judge).respond(b"n,a=bob,\x01auth=Bearer good\x01\x01")
    server = OAuthBearerServer(judge)
    assert server.respond(b"n,a=alice,\x01auth=bearer  good\x01\x01") == b""


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer go\xc3\xb6d\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01a1=x\x01auth=Bearer good\x01\x01",
        b"\xff\xfe",
    ],
)
def test_what_is_no_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(SaslRefused):
        OAuthBearerServer(judge).respond(message)


@pytest.mark.parametrize(
    ("token", "extensions"),
    [
        ("a b", {}),
        ("", {}),
        ("x", {"auth": "x"}),
        ("x", {"k1": "x"}),
        ("x", {"k": "\x01"}),
        ("x", {"k": ""}),
    ],
)
def test_a_client_sends_nothing_that_would_be_read_otherwise(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        OAuthBearerClient(token, extensions)
