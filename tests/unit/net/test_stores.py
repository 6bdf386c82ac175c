"""Key stores and trust stores: each form, and each setting that cannot be honoured refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from kavka.model.settings import SettingError, broker_values
from kavka.model.settings.listeners import ListenerValues
from kavka.net.stores import read_stores
from kavka.net.tls_context import HandshakeError, client_context, openssl_name, server_context, try_handshake
from kavka.testing.authority import Authority

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("localhost")
SECRET = "s3cret-word"


def settings(texts: dict[str, Any]) -> ListenerValues:
    return ListenerValues(broker_values({f"ssl.{key}": str(text) for key, text in texts.items()}), "SSL")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores")
    (path / "both.pem").write_text(ISSUED.pem)
    (path / "encrypted.pem").write_text(ISSUED.key_pem(SECRET) + ISSUED.certificate_pem)
    (path / "certificate.pem").write_text(ISSUED.certificate_pem)
    (path / "authority.pem").write_text("subject=somebody\n" + AUTHORITY.pem)
    (path / "key.p12").write_bytes(ISSUED.pkcs12(SECRET))
    (path / "trust.jks").write_bytes(AUTHORITY.pkcs12(SECRET))  # as keytool writes them today
    (path / "real.jks").write_bytes(b"\xfe\xed\xfe\xed" + bytes(20))
    (path / "empty").write_bytes(b"")
    (path / "other.pem").write_text(ISSUED.key_pem() + Authority().issue("localhost").certificate_pem)
    return path


def stores_of(folder: Path) -> list[dict[str, Any]]:
    on_one_line = ISSUED.key_pem().replace("\n", " ")
    return [
        {"keystore.type": "PEM", "keystore.location": folder / "both.pem", "truststore.type": "PEM",
         "truststore.location": folder / "authority.pem"},
        {"keystore.type": "PEM", "keystore.location": folder / "encrypted.pem", "key.password": SECRET,
         "truststore.type": "pem", "truststore.location": folder / "authority.pem"},
        {"keystore.location": folder / "key.p12", "keystore.password": SECRET,
         "truststore.location": folder / "trust.jks", "truststore.password": SECRET},
        {"keystore.type": "PKCS12", "keystore.location": folder / "key.p12", "keystore.password": SECRET,
         "truststore.type": "PEM", "truststore.certificates": AUTHORITY.pem},
        {"keystore.type": "PEM", "keystore.key": on_one_line, "keystore.certificate.chain": ISSUED.certificate_pem,
         "truststore.type": "PEM", "truststore.certificates": AUTHORITY.pem.replace("\n", "\\n")},
        {"keystore.type": "PEM", "keystore.key": ISSUED.key_pem(SECRET), "key.password": SECRET,
         "keystore.certificate.chain": ISSUED.certificate_pem, "truststore.type": "PEM",
         "truststore.certificates": AUTHORITY.pem},
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(6))
def test_every_form_of_store_makes_both_sides(folder: Path, number: int) -> None:
    own = settings({**stores_of(folder)[number], "client.auth": "required"})
    stores = read_stores(own)
    says = try_handshake(server_context(own, stores), client_context(own, stores))
    assert says["subject"] == ((("commonName", "localhost"),),)
    assert SECRET not in repr(stores)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"keystore.location": "real.jks", "keystore.password": SECRET}, "keytool -importkeystore"),
        ({"keystore.location": "key.p12"}, "ssl.keystore.password: it must open"),
        ({"keystore.location": "key.p12", "keystore.password": "wrong"}, "cannot be opened"),
        ({"keystore.location": "trust.jks", "keystore.password": SECRET}, "has no private key"),
        ({"keystore.location": "key.p12", "keystore.type": "PEM"}, "is PKCS12, not PEM"),
        ({"keystore.location": "both.pem", "keystore.password": SECRET}, "is PEM, not JKS"),
        ({"keystore.location": "both.pem", "keystore.type": "PEM", "keystore.password": SECRET}, "PEM has none"),
        ({"keystore.location": "encrypted.pem", "keystore.type": "PEM"}, "ssl.key.password: it must open"),
        ({"keystore.location": "certificate.pem", "keystore.type": "PEM"}, "has no private key"),
        ({"keystore.location": "empty"}, "neither PKCS12 nor PEM"),
        ({"keystore.location": "nowhere"}, "No such file"),
        ({"keystore.type": "BKS"}, "is not one of"),
        ({"keystore.password": SECRET}, "there is no ssl.keystore.location"),
        ({"keystore.key": "x"}, "given together"),
        ({"keystore.key": "x", "keystore.certificate.chain": "y"}, "must be PEM"),
        ({"truststore.location": "empty"}, "neither PKCS12 nor PEM"),
        ({"truststore.type": "PEM", "truststore.certificates": "x"}, "has no certificates"),
        ({"truststore.type": "PEM", "truststore.certificates": "x", "truststore.location": "empty"}, "not together"),
        ({"truststore.password": SECRET}, "there is no ssl.truststore.location"),
    ],
)
def test_what_cannot_be_honoured_is_refused_and_no_secret_is_shown(
    folder: Path, texts: dict[str, str], words: str
) -> None:
    placed = {key: folder / text if key.endswith("location") else text for key, text in texts.items()}
    with pytest.raises(SettingError, match=words) as error:
        read_stores(settings(placed))
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not among"),
        ({"protocol": "SSLv3"}, "ssl.protocol"),
        ({"protocol": "TLSv1.2", "enabled.protocols": "TLSv1.3"}, "ssl.protocol"),
        ({"cipher.suites": "TLS_RSA_WITH_NULL_MD5"}, "there is no TLS_RSA_WITH_NULL_MD5"),
        ({"cipher.suites": "TLS_AES_128_GCM_SHA256"}, "all or none"),
        ({"provider": "BC"}, "ssl.provider"),
        ({"engine.factory.class": "com.example.Factory"}, "ssl.engine.factory.class"),
    ],
)
def test_what_openssl_cannot_do_is_refused(folder: Path, texts: dict[str, str], words: str) -> None:
    own = settings({**stores_of(folder)[0], **texts})
    with pytest.raises(SettingError, match=words):
        server_context(own, read_stores(own))


def test_a_key_and_a_certificate_that_do_not_belong_together_are_refused(folder: Path) -> None:
    own = settings({"keystore.type": "PEM", "keystore.location": folder / "other.pem"})
    with pytest.raises(SettingError, match="key values mismatch"):
        server_context(own, read_stores(own))


def test_a_listener_needs_a_key() -> None:
    own = settings({})
    with pytest.raises(SettingError, match=r"ssl\.keystore\.location"):
        server_context(own, read_stores(own))


@pytest.mark.parametrize(
    ("suites", "version"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.2"),
        ("TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256", "TLSv1.3"),
    ],
)
def test_cipher_suites_decide_about_versions(folder: Path, suites: str, version: str) -> None:
    own = settings({**stores_of(folder)[0], "cipher.suites": suites})
    context = server_context(own, read_stores(own))
    assert {context.minimum_version.name, context.maximum_version.name} >= {version.replace("v1.", "v1_")}
    if version == "TLSv1.2":
        assert context.maximum_version.name == "TLSv1_2"
    else:
        assert context.minimum_version.name == "TLSv1_3"


@pytest.mark.parametrize(
    ("java", "ours"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
    ],
)
def test_suites_have_openssls_names(java: str, ours: str) -> None:
    assert openssl_name(java) == ours


@pytest.mark.parametrize("days", [-1.0, 1.0])
def test_a_handshake_in_memory_tells_what_would_fail(folder: Path, days: float) -> None:
    texts = stores_of(folder)[4]
    issued = AUTHORITY.issue("localhost", days=days)
    own = settings({**texts, "keystore.key": issued.key_pem(), "keystore.certificate.chain": issued.certificate_pem})
    stranger = settings({**texts, "truststore.certificates": Authority().pem})
    server = server_context(own, read_stores(own))
    if days > 0:
        try_handshake(server, client_context(own, read_stores(own)))
    else:
        with pytest.raises(HandshakeError, match="expired"):
            try_handshake(server, client_context(own, read_stores(own)))
    with pytest.raises(HandshakeError):
        try_handshake(server, client_context(stranger, read_stores(stranger)))


def test_of_a_key_entry_only_its_own_certificate_is_trusted_as_in_java(tmp_path: Path) -> None:
    other = Authority()
    cipher = serialization.BestAvailableEncryption(SECRET.encode())

    def trusted(*others: x509.Certificate) -> set[str]:
        store = pkcs12.serialize_key_and_certificates(b"node", ISSUED.key, ISSUED.certificate, others, cipher)
        (tmp_path / "store.p12").write_bytes(store)
        texts = {"truststore.location": tmp_path / "store.p12", "truststore.password": SECRET}
        return {one.decode() for one in read_stores(settings(texts)).trusted or ()}

    own, chain, entry = ISSUED.certificate_pem, AUTHORITY.certificate, other.certificate
    assert trusted(chain) == {own}
    assert trusted(chain, entry) == {own, other.pem}
    assert trusted(entry) == {own, other.pem}
    assert trusted(chain, entry, chain) == {
        own,
        other.pem,
        AUTHORITY.pem,
    }  # once in the chain, once an entry of its own


def test_a_key_is_shown_with_its_chain_and_not_with_whom_the_store_trusts(tmp_path: Path) -> None:
    cipher = serialization.BestAvailableEncryption(SECRET.encode())
    others = [Authority().certificate, AUTHORITY.certificate]
    store = pkcs12.serialize_key_and_certificates(b"node", ISSUED.key, ISSUED.certificate, others, cipher)
    (tmp_path / "store.p12").write_bytes(store)
    texts = {"keystore.location": tmp_path / "store.p12", "keystore.password": SECRET}
    identity = read_stores(settings(texts)).identity
    assert identity is not None
    assert [one.decode() for one in identity.chain] == [ISSUED.certificate_pem, AUTHORITY.pem]
