"""SCRAM between our two sides, with the vectors of RFC 7677, and against what a hostile client sends."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest

from kavka.model.errors import SaslAuthenticationFailed
from kavka.security.sasl.exchange import Authenticated
from kavka.security.sasl.scram import (
    KAFKAS_FORM,
    Credential,
    Credentials,
    Mechanism,
    SaltForm,
    ScramClient,
    ScramServer,
    TokenCredential,
)

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
ALICE = {mechanism: Credential.of_password(mechanism, "wonder=land,", b"salt" * 4) for mechanism in Mechanism}


def server(mechanism: Mechanism = SHA_256, nonce: str = "server-nonce", name: str = "alice") -> ScramServer:
    def users(asked: str) -> Credential | None:
        return ALICE[mechanism] if asked == name else None

    def tokens(asked: str) -> TokenCredential | None:
        return TokenCredential(ALICE[mechanism], "bob", 5000) if asked == "token-id" else None

    return ScramServer(mechanism, Credentials(users, tokens, lambda: b"secret"), nonce)


def log_in(client: ScramClient, judge: ScramServer) -> Authenticated | None:
    proof = client.respond(judge.respond(client.begin()))
    assert proof is not None
    assert client.respond(judge.respond(proof)) is None
    return judge.authenticated


@pytest.mark.parametrize("mechanism", Mechanism)
def test_who_knows_the_password_gets_in(mechanism: Mechanism) -> None:
    client = ScramClient(mechanism, "alice", "wonder=land,", "nonce")
    assert log_in(client, server(mechanism)) == Authenticated("alice")


def test_names_with_the_two_reserved_characters_arrive_as_they_are() -> None:
    name = "CN=a,O=b"
    assert log_in(ScramClient(SHA_256, name, "wonder=land,", "nonce"), server(name=name)) == Authenticated(name)


def test_a_delegation_token_is_its_owners_login() -> None:
    client = ScramClient(SHA_512, "token-id", "wonder=land,", "nonce", {"tokenauth": "true"})
    assert log_in(client, server(SHA_512)) == Authenticated("bob", 5000, token_authenticated=True)


def test_the_example_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = Credential.of_password(SHA_256, "pencil", salt, 4096)
    judge = ScramServer(
        SHA_256,
        Credentials(lambda name: credential if name == "user" else None, lambda _: None, lambda: b""),
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    )
    assert judge.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert judge.respond(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert judge.authenticated == Authenticated("user")


@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("nobody", "wonder=land,")])
def test_who_does_not_is_refused_at_the_end_and_told_nothing(name: str, password: str) -> None:
    judge = server()
    client = ScramClient(SHA_256, name, password, "nonce")
    proof = client.respond(judge.respond(client.begin()))
    assert proof is not None
    with pytest.raises(SaslAuthenticationFailed) as refused:
        judge.respond(proof)
    assert refused.value.message == ""
    assert judge.authenticated is None


def test_somebody_unknown_is_always_shown_the_same_salt() -> None:
    challenges = {server().respond(b"n,,n=nobody,r=x") for _ in range(2)}
    assert len(challenges) == 1
    assert server().respond(b"n,,n=another,r=x") not in challenges


def shown(challenge: bytes) -> tuple[bytes, int]:
    """The salt and the iterations of a challenge."""
    _, salt, iterations = challenge.decode().split(",")
    return b64decode(salt[2:]), int(iterations[2:])


@pytest.mark.parametrize("form", [SaltForm(24, 8192), SaltForm(100, 4096), KAFKAS_FORM])
@pytest.mark.parametrize("mechanism", Mechanism)
def test_what_is_made_up_looks_like_what_users_have(mechanism: Mechanism, form: SaltForm) -> None:
    credentials = Credentials(lambda _: None, lambda _: None, lambda: b"secret", lambda: form)
    made = [
        shown(ScramServer(mechanism, credentials, "x").respond(f"n,,n=nobody-{one},r=x".encode())) for one in range(200)
    ]
    assert {SaltForm.of(salt, iterations) for salt, iterations in made} == {form}
    assert len({salt for salt, _ in made}) == 200
    if form.size is None:  # 25 or 26 letters, seldom 24, as Kafka's are
        assert {25, 26} <= {len(salt) for salt, _ in made} <= {23, 24, 25, 26}


def test_somebody_unknown_has_another_salt_for_each_mechanism_and_for_tokens() -> None:
    credentials = Credentials(lambda _: None, lambda _: None, lambda: b"secret")

    def salt(mechanism: Mechanism, extension: bytes = b"") -> bytes:
        return shown(ScramServer(mechanism, credentials, "x").respond(b"n,,n=nobody,r=x" + extension))[0]

    assert len({salt(SHA_256), salt(SHA_512), salt(SHA_256, b",tokenauth=true")}) == 3
    assert len(salt(SHA_256, b",tokenauth=true")) == 32  # as those of tokens


def final_of(judge: ScramServer, nonce: str = "nonce") -> bytes:
    client = ScramClient(SHA_256, "alice", "wonder=land,", nonce)
    proof = client.respond(judge.respond(client.begin()))
    assert proof is not None
    return proof


def test_a_nonce_that_is_not_the_one_of_this_exchange_is_refused() -> None:
    """CVE-2024-56128."""
    judge = server()
    replayed = final_of(server(nonce="another"))
    judge.respond(b"n,,n=alice,r=nonce")
    with pytest.raises(SaslAuthenticationFailed):
        judge.respond(replayed)


def test_a_channel_binding_that_was_not_begun_with_is_refused() -> None:
    judge = server()
    final = final_of(judge)
    with pytest.raises(SaslAuthenticationFailed):
        judge.respond(final.replace(b"c=biws", b"c=" + b64encode(b"y,,")))


def test_nobody_speaks_for_another() -> None:
    """CVE-2017-12610."""
    with pytest.raises(SaslAuthenticationFailed, match="authorization id"):
        server().respond(b"n,a=bob,n=alice,r=nonce")
    assert server().respond(b"n,a=alice,n=alice,r=nonce")


@pytest.mark.parametrize(
    "token",
    [
        b"", b"n,,", b"y,,n=alice,r=x", b"p=tls-unique,,n=alice,r=x", b"n,,n=,r=x", b"n,,n=a=b,r=x", b"n,,n=alice,r=",
        b"n,,n=alice,r=a,b", b"\xff" * 100, b"n,,n=alice,r=x" + b",a=" + b"y" * 100_000 + b"\0",
    ],
)  # fmt: skip
def test_a_first_message_of_another_form_is_refused(token: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        server().respond(token)


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final[:-4],
        lambda final: final.rpartition(b",p=")[0] + b",p=",
        lambda final: final.rpartition(b",p=")[0],
        lambda final: final.rpartition(b",p=")[0] + b",p=" + b64encode(b"short"),
        lambda final: b"",
        lambda final: b"\0" + final,
    ],
)
def test_a_final_message_of_another_form_is_refused(change) -> None:  # type: ignore[no-untyped-def]
    judge = server()
    final = final_of(judge)
    with pytest.raises(SaslAuthenticationFailed):
        judge.respond(change(final))
    assert judge.authenticated is None


def test_a_client_believes_no_server_that_does_not_know_the_password() -> None:
    client = ScramClient(SHA_256, "alice", "wonder=land,", "nonce")
    judge = server()
    assert client.respond(judge.respond(client.begin()))
    with pytest.raises(SaslAuthenticationFailed):
        client.respond(b"v=" + b64encode(bytes(32)))


def test_a_client_refuses_a_challenge_that_would_weaken_it() -> None:
    for challenge in (
        b"r=nonceX,s=c2FsdA==,i=1",
        b"r=nonceX,s=c2FsdA==,i=999999999",
        b"r=other,s=c2FsdA==,i=4096",
        b"e=other-error",
        b"",
    ):
        with pytest.raises(SaslAuthenticationFailed):
            ScramClient(SHA_256, "alice", "x", "nonce").respond(challenge)


def test_a_credential_does_not_show_its_keys() -> None:
    shown = repr(ALICE[SHA_256])
    assert ALICE[SHA_256].stored_key.hex() not in shown
    assert "key" not in shown
