"""TLS as Kafka's `ssl.*` settings ask for it: OpenSSL contexts for either side, and a handshake to try them with."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kavka.model.settings import (
    SSL_CIPHER_SUITES,
    SSL_CLIENT_AUTH,
    SSL_ENABLED_PROTOCOLS,
    SSL_ENDPOINT_IDENTIFICATION_ALGORITHM,
    SSL_ENGINE_FACTORY_CLASS,
    SSL_KEYSTORE_LOCATION,
    SSL_PROTOCOL,
    SSL_PROVIDER,
    SettingError,
)
from kavka.model.settings.listeners import Readable
from kavka.net.stores import Identity, Stores

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Those of TLS 1.2 that nothing is known against: forward secret, and authenticated."""
TLS_13_SUITES: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(settings: Readable, stores: Stores, client_auth: str | None = None) -> ssl.SSLContext:
    """The side that is connected to; raises SettingError."""
    if stores.identity is None:
        raise SettingError(f"{SSL_KEYSTORE_LOCATION.name}: TLS needs a private key and its certificates")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _set_up(context, settings, stores)
    context.verify_mode = _CLIENT_AUTH[settings[SSL_CLIENT_AUTH] if client_auth is None else client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, stores)
    return context


def client_context(settings: Readable, stores: Stores) -> ssl.SSLContext:
    """The side that connects; raises SettingError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _set_up(context, settings, stores)
    algorithm = settings[SSL_ENDPOINT_IDENTIFICATION_ALGORITHM]
    if algorithm.lower() not in ("https", ""):
        name = SSL_ENDPOINT_IDENTIFICATION_ALGORITHM.name
        raise SettingError(f"{name}: {algorithm!r} is not https, or empty for a peer of any name")
    context.check_hostname = bool(algorithm)
    _trust(context, stores)
    return context


def _set_up(context: ssl.SSLContext, settings: Readable, stores: Stores) -> None:
    for foreign in (SSL_PROVIDER, SSL_ENGINE_FACTORY_CLASS):
        if settings[foreign]:
            raise SettingError(f"{foreign.name}: it names a part of Java, which is not here")
    lowest, highest = _versions(settings)
    suites = settings[SSL_CIPHER_SUITES]
    if suites:
        modern = TLS_13_SUITES & set(suites)
        if modern and modern != TLS_13_SUITES and highest is ssl.TLSVersion.TLSv1_3:
            raise SettingError(
                f"{SSL_CIPHER_SUITES.name}: of {', '.join(sorted(TLS_13_SUITES))} all or none can be had"
            )
        older = [name for name in suites if name not in TLS_13_SUITES]
        if not modern:
            highest = min(highest, ssl.TLSVersion.TLSv1_2)
        if not older:
            lowest = max(lowest, ssl.TLSVersion.TLSv1_3)
        if lowest > highest:
            raise SettingError(f"{SSL_CIPHER_SUITES.name}: none of them goes with {SSL_ENABLED_PROTOCOLS.name}")
        _set_ciphers(context, older)
    else:
        context.set_ciphers(CIPHERS)
    context.minimum_version, context.maximum_version = lowest, highest
    if stores.identity is not None:
        _show(context, stores.identity)


def _versions(settings: Readable) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    enabled = settings[SSL_ENABLED_PROTOCOLS]
    unknown = [name for name in enabled if name not in _VERSIONS]
    if unknown or not enabled:
        named = unknown[0] if unknown else "nothing"
        raise SettingError(f"{SSL_ENABLED_PROTOCOLS.name}: {named} is not among {', '.join(_VERSIONS)}")
    chosen = sorted(_VERSIONS[name] for name in enabled)
    protocol = settings[SSL_PROTOCOL]
    if protocol not in ("TLS", *_VERSIONS):
        raise SettingError(f"{SSL_PROTOCOL.name}: {protocol!r} is not among TLS, {', '.join(_VERSIONS)}")
    highest = min(chosen[-1], _VERSIONS.get(protocol, chosen[-1]))
    if highest < chosen[0]:
        raise SettingError(f"{SSL_PROTOCOL.name}: {protocol} is less than {SSL_ENABLED_PROTOCOLS.name} ask for")
    return chosen[0], highest


def openssl_name(suite: str) -> str:
    """OpenSSL's name for a cipher suite of TLS 1.2 in the notation of IANA and Java."""
    exchange, _, rest = suite.removeprefix("TLS_").partition("_WITH_")
    for java, ours in (("AES_128", "AES128"), ("AES_256", "AES256"), ("POLY1305_SHA256", "POLY1305"), ("_CBC", "")):
        rest = rest.replace(java, ours)
    return f"{exchange}_{rest}".replace("_", "-")


def _set_ciphers(context: ssl.SSLContext, suites: list[str]) -> None:
    for suite in suites:
        try:
            context.set_ciphers(openssl_name(suite))
        except ssl.SSLError:
            raise SettingError(f"{SSL_CIPHER_SUITES.name}: there is no {suite} here") from None
    if suites:
        context.set_ciphers(":".join(map(openssl_name, suites)))


def _show(context: ssl.SSLContext, identity: Identity) -> None:
    """Give a context its key; from memory, so that nothing of it is ever on a disk."""
    pem = b"\n".join((identity.key, *identity.chain, b""))
    password = identity.password
    with _as_file(pem) as path:
        try:
            context.load_cert_chain(path, password=(lambda: password) if password is not None else _no_password)
        except (ssl.SSLError, ValueError, OSError) as error:
            reason = str(getattr(error, "reason", None) or "it cannot be read").lower().replace("_", " ")
            raise SettingError(f"ssl.keystore: the private key and its certificate cannot be used: {reason}") from None


def _no_password() -> str:
    return ""


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    fd = os.memfd_create("kavka", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _trust(context: ssl.SSLContext, stores: Stores) -> None:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, whatever is in a trust store ends a chain
    if stores.trusted is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=b"\n".join(stores.trusted).decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise SettingError("ssl.truststore: a certificate in it cannot be read") from None


class HandshakeError(Exception):
    """Two sides that would not understand each other."""


def try_handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> Mapping[str, Any]:
    """A handshake in memory between the two sides, names aside; what the server's certificate says.

    Raises HandshakeError.
    """
    checks = client.check_hostname
    client.check_hostname = False  # whichever names the certificate has
    try:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        accepting = server.wrap_bio(to_server, to_client, server_side=True)
        connecting = client.wrap_bio(to_client, to_server)
    finally:
        client.check_hostname = checks
    try:
        for side in (connecting, accepting, connecting, accepting):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
        connecting.write(b"?")
        accepting.read(1)  # a client's certificate is judged last of all
    except ssl.SSLError as error:
        words = getattr(error, "verify_message", None) or error.reason or str(error)
        raise HandshakeError(str(words).lower().replace("_", " ")) from None
    return connecting.getpeercert() or {}


def try_itself(settings: Readable, stores: Stores) -> Mapping[str, Any]:
    """A handshake with somebody who believes nobody but this side: whether key, certificate, dates and ciphers fit.

    Raises SettingError or HandshakeError.
    """
    server = server_context(settings, stores, "none")
    assert stores.identity is not None  # or there would be no such context
    return try_handshake(server, client_context(settings, Stores(None, stores.identity.chain)))
