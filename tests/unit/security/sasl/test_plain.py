"""PLAIN: a name, a password, and what Kafka says of tokens that are not both."""

from __future__ import annotations

import pytest

from kavka.model.errors import SaslAuthenticationFailed
from kavka.security.sasl.exchange import Authenticated
from kavka.security.sasl.plain import PlainClient, PlainServer


def server() -> PlainServer:
    return PlainServer(lambda name, password: (name, password) == ("alice", "wonderland"))


def test_the_right_password_is_enough() -> None:
    judge = server()
    assert judge.respond(PlainClient("alice", "wonderland").begin()) == b""
    assert judge.authenticated == Authenticated("alice")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wonderland", "Authentication failed: Invalid username or password"),
        (b"\0\0wonderland", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"alice\0wonderland", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0wonderland\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 1000, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (
            b"bob\0alice\0wonderland",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_anything_else_is_refused_with_kafkas_words(token: bytes, message: str) -> None:
    judge = server()
    with pytest.raises(SaslAuthenticationFailed) as refused:
        judge.respond(token)
    assert refused.value.message == message
    assert judge.authenticated is None
