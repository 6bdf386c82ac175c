"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802) as Kafka speaks them: no channel binding, delegation tokens by extension.

The server never learns a password: it keeps what `Credential` has. Somebody who is not known is answered like
everybody else, with a salt that is always the same for that name and looks like those of others, and is refused at the
end.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from kavka.model.errors import SaslAuthenticationFailed
from kavka.security.sasl.exchange import Authenticated, SaslRefused

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
BELIEVED_ITERATIONS: Final = 1_000_000  # more would keep a client busy for longer than any server needs
TOKEN_AUTH: Final = "tokenauth"

_KAFKAS_BITS: Final = 130
_KAFKAS_SALT: Final = re.compile(rb"[0-9a-z]{20,26}")
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""Kafka's salts are a random number of so many bits in these."""

_SASL_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_VALUE: Final = r"[\x01-\x2B\x2D-\x7F]+"
_NONCE: Final = r"[\x21-\x2B\x2D-\x7E]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
# `re` compiles these at the first log-in, and keeps them: a node that starts need not wait for it.
_CLIENT_FIRST: Final = (
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_SASL_NAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = (
    rf"(?:m={_VALUE},)?r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = (
    rf"(?P<unsigned>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}"


class Mechanism(IntEnum):
    """The two of them, by Kafka's numbers."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """As clients ask for it."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The hash behind it."""
        return "sha256" if self is Mechanism.SCRAM_SHA_256 else "sha512"


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """What is sent to have a credential set; takes some milliseconds, as it is meant to."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


@dataclass(frozen=True, slots=True)
class Credential:
    """What a node keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Credential(iterations={self.iterations})"  # keys never reach a log

    @staticmethod
    def of_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int = MIN_ITERATIONS) -> Credential:
        """Made of a password; takes some milliseconds, as it is meant to."""
        salted = salted_password(mechanism, password, salt, iterations)
        return Credential.of_salted(mechanism, salted, salt, iterations)

    @staticmethod
    def of_salted(mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
        """Made of what clients send to have a credential set (KIP-554)."""
        name = mechanism.hash_name
        stored_key = hashlib.new(name, _hmac(name, salted_password, b"Client Key")).digest()
        return Credential(salt, stored_key, _hmac(name, salted_password, b"Server Key"), iterations)


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """A delegation token, as it can be logged in with."""

    credential: Credential
    owner: str
    expires_at_ms: int
    also: tuple[Credential, ...] = ()
    """Others that are as good, of the same salt and iterations: of another key that tokens are made with."""


class SaltForm(NamedTuple):
    """What a credential shows of itself before anybody has proved anything."""

    size: int | None
    """How many bytes of chance the salt has; None where it is a number in letters and digits, as Kafka makes them."""
    iterations: int

    @staticmethod
    def of(salt: bytes, iterations: int) -> SaltForm:
        """The form of a credential that there is."""
        return SaltForm(None if _KAFKAS_SALT.fullmatch(salt) else len(salt), iterations)


KAFKAS_FORM: Final = SaltForm(None, MIN_ITERATIONS)
TOKEN_FORM: Final = SaltForm(32, MIN_ITERATIONS)
"""That of delegation tokens."""


class Credentials:
    """Where a server looks names up."""

    def __init__(
        self,
        users: Callable[[str], Credential | None],
        tokens: Callable[[str], TokenCredential | None],
        secret: Callable[[], bytes],
        form: Callable[[], SaltForm] = lambda: KAFKAS_FORM,
    ) -> None:
        """The secret makes up what is told to people who are not known, in the form that users have.

        It is best the same on all nodes and after a start, so that what is made up does not differ either.
        """
        self.users = users
        self.tokens = tokens
        self.secret = secret
        self.form = form

    def made_up(self, hash_name: str, name: str, *, by_token: bool) -> Credential:
        """For somebody who is not known: no proof is right."""
        form = TOKEN_FORM if by_token else self.form()
        seed = _hmac("sha512", self.secret(), f"{hash_name} {by_token} {name}".encode())
        size = hashlib.new(hash_name).digest_size
        drawn = hashlib.shake_256(seed).digest(size + max(form.size or 0, _KAFKAS_BITS // 8 + 1))
        key, salt = drawn[:size], drawn[size:]
        if form.size is None:
            return Credential(_in_letters(int.from_bytes(salt) % (1 << _KAFKAS_BITS)), key, key, form.iterations)
        return Credential(salt[: form.size], key, key, form.iterations)


class ScramServer:
    """Judges one login."""

    def __init__(self, mechanism: Mechanism, credentials: Credentials, nonce: str) -> None:
        self._hash = mechanism.hash_name
        self._credentials = credentials
        self._nonce = nonce
        self._first: tuple[str, str, str] | None = None  # the client's bare message, ours, the whole nonce
        self._credential: Credential | None = None
        self._also: tuple[Credential, ...] = ()
        self._known = False
        self._claimed: Authenticated | None = None
        self._gs2 = b""
        self.authenticated: Authenticated | None = None

    def respond(self, token: bytes) -> bytes:
        """The challenge, and then the proof that this server knows the password too."""
        message = token.decode("utf-8", errors="replace")
        if self.authenticated is not None:
            raise SaslRefused("a token came after the login")
        return self._challenge(message) if self._first is None else self._judge(message)

    def _challenge(self, message: str) -> bytes:
        found = re.fullmatch(_CLIENT_FIRST, message)
        if found is None:
            raise SaslRefused("the client's first message is not of SCRAM's form")
        name = _plain_name(found["name"])
        extensions = dict(pair.partition("=")[::2] for pair in found["extensions"].split(",") if pair)
        self._look_up(name, by_token=extensions.get(TOKEN_AUTH, "").lower() == "true")
        if found["authzid"] is not None and _plain_name(found["authzid"]) != name:
            raise SaslAuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        assert self._credential is not None
        self._gs2 = found["gs2"].encode()
        nonce = found["nonce"] + self._nonce
        answer = f"r={nonce},s={b64encode(self._credential.salt).decode()},i={self._credential.iterations}"
        self._first = (found["bare"], answer, nonce)
        return answer.encode()

    def _look_up(self, name: str, *, by_token: bool) -> None:
        if by_token:
            token = self._credentials.tokens(name)
            credential = token.credential if token is not None else None
            if token is not None:
                self._also = token.also
                self._claimed = Authenticated(token.owner, token.expires_at_ms, token_authenticated=True)
        else:
            credential = self._credentials.users(name)
            self._claimed = Authenticated(name)
        self._known = credential is not None
        made_up = self._credentials.made_up(self._hash, name, by_token=by_token)  # in any case: it takes time
        self._credential = made_up if credential is None else credential

    def _judge(self, message: str) -> bytes:
        assert self._first is not None
        assert self._credential is not None
        bare, answer, nonce = self._first
        found = re.fullmatch(_CLIENT_FINAL, message)
        if found is None:
            raise SaslRefused("the client's final message is not of SCRAM's form")
        if not hmac.compare_digest(found["nonce"], nonce):
            raise SaslRefused("the nonce in the final message is another one")
        if b64decode(found["channel"]) != self._gs2:
            raise SaslRefused("the channel binding in the final message is another one")
        signed = f"{bare},{answer},{found['unsigned']}".encode()
        proof = b64decode(found["proof"])
        right = next(
            (credential for credential in (self._credential, *self._also) if self._proves(credential, signed, proof)),
            None,
        )
        if right is None or not self._known:
            raise SaslRefused("the credentials are wrong" if self._known else "there are no such credentials")
        self.authenticated = self._claimed
        return b"v=" + b64encode(_hmac(self._hash, right.server_key, signed))

    def _proves(self, credential: Credential, signed: bytes, proof: bytes) -> bool:
        client_key = _xor(_hmac(self._hash, credential.stored_key, signed), proof)
        return hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key)


class ScramClient:
    """Logs in with a password, or with a delegation token and its HMAC."""

    def __init__(
        self, mechanism: Mechanism, name: str, password: str, nonce: str, extensions: Mapping[str, str] | None = None
    ) -> None:
        self._hash = mechanism.hash_name
        self._password = password
        self._nonce = nonce
        more = "".join(f",{key}={value}" for key, value in (extensions or {}).items())
        self._bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}{more}"
        self._expected: bytes | None = None

    def begin(self) -> bytes:
        """Who it is."""
        return f"n,,{self._bare}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """The proof, and then nothing more if the server has given its own."""
        message = challenge.decode("utf-8", errors="replace")
        if self._expected is not None:
            self._check_server(message)
            return None
        found = re.fullmatch(_SERVER_FIRST, message)
        if found is None or not found["nonce"].startswith(self._nonce):
            raise SaslAuthenticationFailed("the server's first message is not of SCRAM's form")
        iterations = int(found["iterations"])
        if not MIN_ITERATIONS <= iterations <= BELIEVED_ITERATIONS:
            raise SaslAuthenticationFailed(f"the server asks for {iterations} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), b64decode(found["salt"]), iterations)
        unsigned = f"c={b64encode(b'n,,').decode()},r={found['nonce']}"
        signed = f"{self._bare},{message},{unsigned}".encode()
        client_key = _hmac(self._hash, salted, b"Client Key")
        signature = _hmac(self._hash, hashlib.new(self._hash, client_key).digest(), signed)
        self._expected = _hmac(self._hash, _hmac(self._hash, salted, b"Server Key"), signed)
        return f"{unsigned},p={b64encode(_xor(client_key, signature)).decode()}".encode()

    def _check_server(self, message: str) -> None:
        found = re.fullmatch(_SERVER_FINAL, message)
        if found is None or found["error"] is not None:
            raise SaslAuthenticationFailed("the server did not prove that it knows the password")
        assert self._expected is not None
        if not hmac.compare_digest(b64decode(found["signature"]), self._expected):
            raise SaslAuthenticationFailed("the server's proof is wrong: it does not know the password")


def _in_letters(number: int) -> bytes:
    text = bytearray()
    while number:
        number, digit = divmod(number, len(_DIGITS))
        text.append(_DIGITS[digit])
    return bytes(reversed(text))


def _plain_name(sasl_name: str) -> str:
    return sasl_name.replace("=2C", ",").replace("=3D", "=")


def _hmac(hash_name: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, hash_name)


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise SaslRefused("the proof has another length than the hash")
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
