"""Keys and certificates as Kafka's `ssl.*` settings name them: PKCS12 and PEM files, and PEM in the setting (KIP-651).

Everything becomes PEM in memory. What a store holds and what the settings say of it must agree: a setting that cannot
be honoured is refused, in words that name the key and never the secret.
"""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.model.settings import (
    SSL_KEY_PASSWORD,
    SSL_KEYSTORE_CERTIFICATE_CHAIN,
    SSL_KEYSTORE_KEY,
    SSL_KEYSTORE_LOCATION,
    SSL_KEYSTORE_PASSWORD,
    SSL_KEYSTORE_TYPE,
    SSL_TRUSTSTORE_CERTIFICATES,
    SSL_TRUSTSTORE_LOCATION,
    SSL_TRUSTSTORE_PASSWORD,
    SSL_TRUSTSTORE_TYPE,
    Password,
    Setting,
    SettingError,
)
from kavka.model.settings.listeners import Readable

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY: Final = re.compile(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.+?-----END \1PRIVATE KEY-----", re.DOTALL)
_JKS: Final = b"\xfe\xed\xfe\xed"
_DER: Final = b"\x30"
_TYPES: Final = ("JKS", "PKCS12", "PEM")


Stamps = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who one is: a private key and the certificates that vouch for it, its own first."""

    key: bytes
    chain: tuple[bytes, ...]
    password: str | None = None
    """What the key is encrypted with, if it is."""

    def __repr__(self) -> str:
        return f"Identity({len(self.chain)} certificates)"  # the key never reaches a log

    @property
    def certificate(self) -> bytes:
        """The first certificate, in DER."""
        return ssl.PEM_cert_to_DER_cert(self.chain[0].decode("ascii"))


@dataclass(frozen=True, slots=True)
class Stores:
    """What a side of TLS shows, and whom it believes."""

    identity: Identity | None
    trusted: tuple[bytes, ...] | None
    """None where the system's own authorities are believed."""


def read_stores(settings: Readable) -> Stores:
    """The key store and the trust store that settings name; raises SettingError."""
    return Stores(_read_identity(settings), _read_trusted(settings))


def files_of(settings: Readable) -> tuple[str, ...]:
    """The files behind the stores, whose changes matter."""
    paths = (settings[SSL_KEYSTORE_LOCATION], settings[SSL_TRUSTSTORE_LOCATION])
    return tuple(path for path in paths if path)


def stamps_of(settings: Readable) -> Stamps:
    """What tells one version of those files from the next; None for one that is not there."""
    return tuple(map(_stamp, files_of(settings)))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:  # it is being replaced, or gone; reading it says so
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read_identity(settings: Readable) -> Identity | None:
    key, chain = settings[SSL_KEYSTORE_KEY], settings[SSL_KEYSTORE_CERTIFICATE_CHAIN]
    location, password = settings[SSL_KEYSTORE_LOCATION], settings[SSL_KEYSTORE_PASSWORD]
    kind = _kind(SSL_KEYSTORE_TYPE, settings[SSL_KEYSTORE_TYPE])
    key_password = settings[SSL_KEY_PASSWORD]
    if key is not None or chain is not None:
        if key is None or chain is None:
            missing = SSL_KEYSTORE_KEY if key is None else SSL_KEYSTORE_CERTIFICATE_CHAIN
            raise SettingError(f"{missing.name}: key and certificate chain are given together")
        _only_pem(SSL_KEYSTORE_KEY, kind, SSL_KEYSTORE_TYPE, location, SSL_KEYSTORE_LOCATION)
        if password is not None:
            raise SettingError(f"{SSL_KEYSTORE_PASSWORD.name}: PEM has none, {SSL_KEY_PASSWORD.name} is for its key")
        return _pem_identity(SSL_KEYSTORE_KEY.name, _inline(key), _inline(chain), key_password)
    if location is None:
        if password is not None:
            raise SettingError(f"{SSL_KEYSTORE_PASSWORD.name}: there is no {SSL_KEYSTORE_LOCATION.name} that it opens")
        return None
    data = _read(SSL_KEYSTORE_LOCATION, location)
    if _content(SSL_KEYSTORE_LOCATION, location, data, kind, SSL_KEYSTORE_TYPE) == "PEM":
        if password is not None:
            raise SettingError(f"{SSL_KEYSTORE_PASSWORD.name}: PEM has none, {SSL_KEY_PASSWORD.name} is for its key")
        return _pem_identity(f"{SSL_KEYSTORE_LOCATION.name}: {location}", data, data, key_password)
    if password is None:
        raise SettingError(f"{SSL_KEYSTORE_PASSWORD.name}: it must open {location}")
    identity, _ = _pkcs12(SSL_KEYSTORE_LOCATION, location, data, password)
    if identity is None:
        raise SettingError(f"{SSL_KEYSTORE_LOCATION.name}: {location} has no private key")
    return identity


def _read_trusted(settings: Readable) -> tuple[bytes, ...] | None:
    inline, location = settings[SSL_TRUSTSTORE_CERTIFICATES], settings[SSL_TRUSTSTORE_LOCATION]
    password = settings[SSL_TRUSTSTORE_PASSWORD]
    kind = _kind(SSL_TRUSTSTORE_TYPE, settings[SSL_TRUSTSTORE_TYPE])
    if inline is not None:
        _only_pem(SSL_TRUSTSTORE_CERTIFICATES, kind, SSL_TRUSTSTORE_TYPE, location, SSL_TRUSTSTORE_LOCATION)
        if password is not None:
            raise SettingError(f"{SSL_TRUSTSTORE_PASSWORD.name}: PEM has none")
        return _certificates(SSL_TRUSTSTORE_CERTIFICATES.name, _inline(inline))
    if location is None:
        if password is not None:
            name = SSL_TRUSTSTORE_LOCATION.name
            raise SettingError(f"{SSL_TRUSTSTORE_PASSWORD.name}: there is no {name} that it opens")
        return None
    data = _read(SSL_TRUSTSTORE_LOCATION, location)
    if _content(SSL_TRUSTSTORE_LOCATION, location, data, kind, SSL_TRUSTSTORE_TYPE) == "PEM":
        if password is not None:
            raise SettingError(f"{SSL_TRUSTSTORE_PASSWORD.name}: PEM has none")
        return _certificates(f"{SSL_TRUSTSTORE_LOCATION.name}: {location}", data)
    _, trusted = _pkcs12(SSL_TRUSTSTORE_LOCATION, location, data, password)
    if not trusted:
        raise SettingError(f"{SSL_TRUSTSTORE_LOCATION.name}: {location} has no certificates")
    return trusted


def _kind(setting: Setting[str], given: str) -> str:
    kind = given.upper()
    if kind not in _TYPES:
        raise SettingError(f"{setting.name}: {given!r} is not one of {', '.join(_TYPES)}")
    return kind


def _only_pem(
    inline: Setting[Password | None],
    kind: str,
    type_setting: Setting[str],
    location: str | None,
    location_setting: Setting[str | None],
) -> None:
    if kind != "PEM":
        raise SettingError(f"{type_setting.name}: it must be PEM where {inline.name} is given")
    if location is not None:
        raise SettingError(f"{location_setting.name}: not together with {inline.name}")


def _read(setting: Setting[str | None], path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise SettingError(f"{setting.name}: {path}: {error.strerror}") from None


def _content(setting: Setting[str | None], path: str, data: bytes, kind: str, type_setting: Setting[str]) -> str:
    """What is really in a file: keytool writes PKCS12 under any name, and Java takes it under any type but PEM."""
    if data.startswith(_JKS):
        how = f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        raise SettingError(f"{setting.name}: {path} is a JKS file, which only Java reads: convert it with `{how}`")
    found = "PKCS12" if data.startswith(_DER) else "PEM" if b"-----BEGIN " in data else None
    if found is None:
        raise SettingError(f"{setting.name}: {path} is neither PKCS12 nor PEM")
    if (found == "PEM") != (kind == "PEM"):
        raise SettingError(f"{type_setting.name}: {path} is {found}, not {kind}")
    return found


def _inline(secret: Password) -> bytes:
    """PEM as a properties file has it: with line breaks, or with blanks or a backslash and an n in their place."""
    text = secret.value.replace("\\n", "\n")
    return re.sub(
        r"-----BEGIN ([A-Z ]+)-----(.*?)-----END \1-----",
        lambda block: f"-----BEGIN {block[1]}-----\n{_lines(block[2])}\n-----END {block[1]}-----\n",
        text,
        flags=re.DOTALL,
    ).encode()


def _lines(body: str) -> str:
    if ":" in body:  # headers of an encrypted key are lines by themselves
        return body.strip()
    return "\n".join(body.split())


def _certificates(where: str, data: bytes) -> tuple[bytes, ...]:
    found = tuple(_CERTIFICATE.findall(data))
    if not found:
        raise SettingError(f"{where} has no certificates")
    return found


def _pem_identity(where: str, keys: bytes, chain: bytes, password: Password | None) -> Identity:
    key = _KEY.search(keys)
    if key is None:
        raise SettingError(f"{where} has no private key")
    encrypted = b"ENCRYPTED" in key[0]
    if encrypted and password is None:
        raise SettingError(f"{SSL_KEY_PASSWORD.name}: it must open the private key, which is encrypted")
    return Identity(key[0], _certificates(where, chain), password.value if encrypted and password else None)


def _pkcs12(
    setting: Setting[str | None], path: str, data: bytes, password: Password | None
) -> tuple[Identity | None, tuple[bytes, ...]]:
    """The identity of a PKCS12 file, and whom it trusts: as in Java not those who vouch for its own key."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise SettingError(
            f"{setting.name}: {path} is PKCS12, which needs `pip install 'kavka[tls]'`; PEM does not"
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, password.value.encode() if password is not None else None)
    except ValueError:
        raise SettingError(f"{setting.name}: {path} cannot be opened with the password given") from None
    pem = serialization.Encoding.PEM
    others = [extra.certificate for extra in store.additional_certs]
    own = store.cert.certificate if store.cert is not None else None
    if store.key is None or own is None:
        trusted = others if own is None else [own, *others]
        return None, tuple(one.public_bytes(pem) for one in trusted)
    chain = [own]
    while (issuer := _issuer(chain[-1], others)) is not None:
        chain.append(issuer)
        others.remove(issuer)  # once: it may be an entry of its own as well
    key = store.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    identity = Identity(key, tuple(one.public_bytes(pem) for one in chain))
    return identity, tuple(one.public_bytes(pem) for one in (own, *others))


def _issuer(certificate: Certificate, among: list[Certificate]) -> Certificate | None:
    """Who vouches for a certificate."""
    from cryptography.exceptions import InvalidSignature

    if certificate.issuer == certificate.subject:
        return None
    for one in among:
        try:
            certificate.verify_directly_issued_by(one)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return one
    return None
