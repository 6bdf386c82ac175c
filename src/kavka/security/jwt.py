"""What a JSON Web Token is worth: its signature by a known key, and its claims, as Kafka's BrokerJwtValidator has them.

The algorithms are fixed here; what a token says of itself chooses among keys, never how it is judged.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey, import_key
from joserfc.jws import deserialize_compact

from kavka.security.sasl.exchange import Authenticated
from kavka.security.sasl.oauthbearer import InvalidTokenError

KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""The algorithms that are taken, all with two keys, and the type of key that each needs."""
PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth"})
"""The parts of a key that nobody should have published, and that nobody here needs."""
MIN_RSA_BITS: Final = 2048
MAX_KID: Final = 1000
MAX_TOKEN_BYTES: Final = 64 * 1024

Key = RSAKey | ECKey | OKPKey


class UnknownKeyError(InvalidTokenError):
    """No key is known by the id that a token names."""

    def __init__(self, kid: str) -> None:
        super().__init__("no key of this id is known")
        self.kid = kid


class Jwks:
    """A set of public keys, by their ids."""

    def __init__(self, keys: Sequence[Key] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    @staticmethod
    def parse(text: bytes) -> Jwks:
        """The keys for signatures in a JWKS document; what is none is passed over. Raises ValueError."""
        try:
            document = json.loads(text)
            rows = document["keys"]
        except (ValueError, KeyError, TypeError):
            raise ValueError("it is no JSON Web Key Set") from None
        if not isinstance(rows, list):
            raise ValueError("it is no JSON Web Key Set")
        return Jwks([key for row in rows if (key := _public_key(row)) is not None])

    def find(self, kid: str | None, algorithm: str) -> Key:
        """The key that a token was signed with; one that names none needs to have no choice. Raises UnknownKeyError."""
        kind = KINDS[algorithm]
        fit = [key for key in self._keys if key.key_type == kind and key.get("alg") in (None, algorithm)]
        if kid is not None:
            fit = [key for key in fit if key.kid == kid]
        if len(fit) != 1:
            raise UnknownKeyError(kid or "")
        return fit[0]


def _public_key(row: Any) -> Key | None:
    if not isinstance(row, dict) or row.get("kty") not in KINDS.values() or row.get("use", "sig") != "sig":
        return None
    if not isinstance(row.get("kid", ""), str) or (row["kty"] == "RSA" and _bits(row.get("n")) < MIN_RSA_BITS):
        return None
    try:
        key = import_key({name: value for name, value in row.items() if name not in PRIVATE})
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return key if isinstance(key, RSAKey | ECKey | OKPKey) else None


def _bits(number: Any) -> int:
    """The size of a number in base64."""
    try:
        return int.from_bytes(urlsafe_b64decode(number + "=" * (-len(number) % 4)), "big").bit_length()
    except (ValueError, TypeError):
        return 0


@dataclass(frozen=True, slots=True)
class JwtRules:
    """What the configuration says of tokens."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    scope_claim: str = "scope"
    subject_claim: str = "sub"
    clock_skew_seconds: int = 30

    def judge(self, token: str, keys: Jwks, now_ms: int) -> Authenticated:
        """Who a signed token is for, and until when; raises InvalidTokenError."""
        header = read_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in KINDS:
            raise InvalidTokenError("it is signed by an algorithm that is not taken")
        if kid is not None and not (isinstance(kid, str) and len(kid) <= MAX_KID):
            raise InvalidTokenError("its key id is no text of a sensible length")
        key = keys.find(kid, algorithm)
        try:
            payload = deserialize_compact(token, key, algorithms=[algorithm]).payload
        except (JoseError, ValueError, TypeError):
            raise InvalidTokenError("its signature is not good") from None
        return self.judge_claims(_object(payload), now_ms)

    def judge_claims(self, claims: Mapping[str, Any], now_ms: int) -> Authenticated:
        """Who claims are about that nobody has made up, and until when; raises InvalidTokenError."""
        skew_ms = self.clock_skew_seconds * 1000
        expires_ms, issued_ms = _time_ms(claims, "exp"), _time_ms(claims, "iat")
        if expires_ms is None or issued_ms is None:
            raise InvalidTokenError("it does not say when it was issued and when it ends")
        if now_ms - skew_ms >= expires_ms:
            raise InvalidTokenError("its time is over")
        not_before_ms = _time_ms(claims, "nbf")
        if not_before_ms is not None and now_ms + skew_ms < not_before_ms:
            raise InvalidTokenError("its time has not come")
        self._check_audience(claims.get("aud"))
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise InvalidTokenError("it is of another issuer")
        _check_scopes(claims.get(self.scope_claim))
        return Authenticated(_text(claims, self.subject_claim), expires_ms)

    def _check_audience(self, audience: Any) -> None:
        named = [audience] if isinstance(audience, str) else audience
        if named is None and not self.audiences:
            return
        if not isinstance(named, list) or self.audiences.isdisjoint(
            audience for audience in named if isinstance(audience, str)
        ):
            raise InvalidTokenError("it is for another audience")


def judge_unsecured(token: str, rules: JwtRules, now_ms: int) -> Authenticated:
    """Who a token without a signature says that it is for: whoever sent it chose that."""
    if read_header(token).get("alg") != "none" or not token.endswith("."):
        raise InvalidTokenError("it is signed, and nobody here knows keys")
    return rules.judge_claims(_part(token.split(".")[1]), now_ms)


def read_header(token: str) -> dict[str, Any]:
    """What a token says of itself, which nothing proves; raises InvalidTokenError."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_TOKEN_BYTES:
        raise InvalidTokenError("it is no token of three parts and a sensible length")
    return _part(parts[0])


def _part(text: str) -> dict[str, Any]:
    try:
        return _object(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        raise InvalidTokenError("a part of it is no base64") from None


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidTokenError("a part of it is no JSON") from None
    if not isinstance(found, dict):
        raise InvalidTokenError("a part of it is no JSON object")
    return found


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 53:
        raise InvalidTokenError(f"its claim {name} is no time")
    return int(value * 1000)


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidTokenError(f"its claim {name} names nobody")
    return value.strip()


def _check_scopes(scopes: Any) -> None:
    named = [scopes] if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    texts = [name.strip() for name in named if isinstance(name, str)]
    if len(texts) != len(named) or not all(texts) or len(set(texts)) != len(texts):
        raise InvalidTokenError("its scopes are empty or come twice")
