"""SASL/GSSAPI on both sides, over contexts that tests play; and which user a principal is."""

from __future__ import annotations

import pytest

from kavka.model.errors import SaslAuthenticationFailed
from kavka.security.kerberos import PrincipalToLocal
from kavka.security.sasl.exchange import SaslRefused
from kavka.security.sasl.gssapi import ContextError, GssapiClient, GssapiServer

SEAL = b"sealed:"


class Context:
    """A context that is complete after some tokens, and seals messages with a word."""

    def __init__(self, *tokens: bytes, peer: str = "alice@REALM") -> None:
        self._tokens = list(tokens)
        self.peer = peer

    @property
    def complete(self) -> bool:
        return not self._tokens

    def step(self, token: bytes | None) -> bytes:
        if token == b"bad":
            raise ContextError("bad token")
        return self._tokens.pop(0)

    def wrap(self, message: bytes) -> bytes:
        return SEAL + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(SEAL):
            raise ContextError("no seal")
        return message.removeprefix(SEAL)


def first_name(principal: str) -> str | None:
    return principal.partition("@")[0] if principal.endswith("@REALM") else None


@pytest.mark.parametrize(
    ("client_tokens", "server_tokens"),
    [([b"ticket", b""], [b"reply"]), ([b"ticket"], [b""]), ([b"one", b"two", b""], [b"more", b"last"])],
    ids=["mutual", "one-way", "longer"],
)
def test_a_ticket_logs_in(client_tokens: list[bytes], server_tokens: list[bytes]) -> None:
    client, server = GssapiClient(Context(*client_tokens)), GssapiServer(Context(*server_tokens), first_name)
    token: bytes | None = client.begin()
    while token is not None:
        assert server.authenticated is None
        token = client.respond(server.respond(token))
    assert server.authenticated is not None
    assert server.authenticated.name == "alice"
    with pytest.raises(SaslRefused):
        server.respond(b"")


def established(peer: str = "alice@REALM") -> GssapiServer:
    server = GssapiServer(Context(b"reply", peer=peer), first_name)
    assert server.respond(b"ticket") == b"reply"
    assert server.respond(b"") == SEAL + b"\x01\0\0\0"
    return server


def test_whom_a_client_asks_to_be_taken_for_does_not_matter() -> None:
    server = established()
    server.respond(SEAL + b"\x01\0\0\0admin")
    assert server.authenticated is not None
    assert server.authenticated.name == "alice"


@pytest.mark.parametrize("answer", [b"\x01\0\0\0", SEAL + b"\x02\0\0\0", SEAL + b"\x04\0\0\0", SEAL, SEAL + b"\x01"])
def test_a_choice_that_is_not_sealed_or_not_ours_is_refused(answer: bytes) -> None:
    server = established()
    with pytest.raises(SaslRefused):
        server.respond(answer)
    assert server.authenticated is None


def test_what_the_context_does_not_take_or_need_is_refused() -> None:
    with pytest.raises(SaslRefused):
        GssapiServer(Context(b"reply"), first_name).respond(b"bad")
    server = GssapiServer(Context(b"reply"), first_name)
    server.respond(b"ticket")
    with pytest.raises(SaslRefused):
        server.respond(b"more")
    with pytest.raises(SaslRefused):
        established("mallory@ELSEWHERE").respond(SEAL + b"\x01\0\0\0")


@pytest.mark.parametrize("offer", [b"\x01\0\0\0", SEAL + b"\x06\0\0\0", SEAL + b""])
def test_a_client_takes_no_layer_and_nothing_that_is_not_sealed(offer: bytes) -> None:
    client = GssapiClient(Context(b"ticket"))
    client.begin()
    with pytest.raises(SaslAuthenticationFailed):
        client.respond(offer)
    with pytest.raises(SaslAuthenticationFailed):
        GssapiClient(Context(b"ticket", b"")).respond(b"bad")


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (["DEFAULT"], "alice@REALM", "alice"),
        (["DEFAULT"], "kafka/host@REALM", "kafka"),
        (["DEFAULT"], "alice@ELSEWHERE", None),
        (["DEFAULT"], "alice", "alice"),
        (["DEFAULT"], "a/b/c@REALM", None),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "bob@OTHER", "bob"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "alice@REALM", "alice"),
        (["RULE:[2:$1;$2](^.*;admin$)s/;admin$//"], "joe/admin@REALM", "joe"),
        (["RULE:[1:$1]/L"], "Alice@ANY", "alice"),
        (["RULE:[1:$1]/U"], "Alice@ANY", "ALICE"),
        (["RULE:[1:App.$1](App\\..*)s/App\\.(.*)/$1/g"], "svc@ANY", "svc"),
        (["RULE:[1:$1](a+)s/a/b/"], "aaa@ANY", "baa"),
        (["RULE:[1:$1](a+)s/a/b/g"], "aaa@ANY", "bbb"),
        (["RULE:[1:$1@$0]"], "alice@REALM", None),  # no simple name
        (["RULE:[2:$1]"], "alice@REALM", None),
    ],
)
def test_rules_say_which_user_a_principal_is(rules: list[str], principal: str, user: str | None) -> None:
    assert PrincipalToLocal(rules, "REALM")(principal) == user


@pytest.mark.parametrize(
    "rule", ["", "default", "RULE:[1:$1", "RULE:[:$1]", "RULE:[1:$2]", "RULE:[1:$]", "RULE:[1:$1](()s/a/b/", "DEFAULTX"]
)
def test_a_rule_that_cannot_be_read_is_an_error(rule: str) -> None:
    with pytest.raises(ValueError):
        PrincipalToLocal([rule], "REALM")
