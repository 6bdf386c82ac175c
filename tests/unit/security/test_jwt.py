"""JSON Web Tokens: signatures by known keys only, and claims as Kafka's validator has them."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from kavka.security.jwt import Jwks, JwtRules, UnknownKeyError, judge_unsecured
from kavka.security.sasl.oauthbearer import InvalidTokenError

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000
RSA = RSAKey.generate_key(2048, {"kid": "r", "alg": "RS256", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "e"})
WEAK = RSA.as_dict(private=False) | {"kid": "w", "n": base64.urlsafe_b64encode(b"\x7f" * 128).decode()}
CLAIMS = {"sub": "alice", "iat": NOW_S - 60, "exp": NOW_S + 60, "scope": "kafka"}


def document(*keys: Any, private: bool = False) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=private) for key in keys]}).encode()


KEYS = Jwks.parse(document(RSA, EC))


def signed(claims: dict[str, Any], key: Any = RSA, algorithm: str = "RS256", **header: Any) -> str:
    return jwt.encode({"alg": algorithm, "kid": key.kid, **header}, claims, key, algorithms=[algorithm])


def part(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def unsigned(claims: Any, header: Any = None) -> str:
    return f"{part(header or {'alg': 'none'})}.{part(claims)}."


def without(*names: str, **others: Any) -> dict[str, Any]:
    return {name: value for name, value in {**CLAIMS, **others}.items() if name not in names}


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (EC, "ES256")])
def test_a_token_of_a_known_key_is_good_until_it_ends(key: Any, algorithm: str) -> None:
    who = JwtRules().judge(signed(CLAIMS, key, algorithm), KEYS, NOW_MS)
    assert (who.name, who.expires_at_ms, who.token_authenticated) == ("alice", NOW_MS + 60_000, False)


@pytest.mark.parametrize(
    "claims",
    [
        without("exp"),
        without("iat"),
        without("sub"),
        without(sub=""),
        without(sub="  "),
        without(sub=7),
        without(exp=NOW_S - 31),
        without(exp="soon"),
        without(exp=True),
        without(exp=-1),
        without(exp=1e400),
        without(nbf=NOW_S + 31),
        without(aud="kafka"),  # nobody here is meant by it
        without(aud=["a", "b"]),
        without(aud=7),
        without(scope=["a", "a"]),
        without(scope=[""]),
        without(scope=[7]),
        without(scope=" "),
    ],
    ids=repr,
)
def test_claims_that_break_a_rule_are_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(InvalidTokenError):
        JwtRules().judge(signed(claims), KEYS, NOW_MS)


@pytest.mark.parametrize(
    "claims", [without("scope"), without(scope=["a", "b"]), without(exp=NOW_S - 29), without(nbf=NOW_S + 29)], ids=repr
)
def test_what_is_left_to_the_issuer_and_to_its_clock_is_taken(claims: dict[str, Any]) -> None:
    assert JwtRules().judge(signed(claims), KEYS, NOW_MS).name == "alice"


def test_audience_issuer_and_names_of_claims_are_configured() -> None:
    rules = JwtRules(frozenset({"kafka", "k2"}), "https://issuer", "scp", "client_id")
    good = without("sub", aud=["x", "k2"], iss="https://issuer", client_id="bob", scp=["a"])
    assert rules.judge(signed(good), KEYS, NOW_MS).name == "bob"
    assert rules.judge(signed({**good, "aud": "kafka"}), KEYS, NOW_MS).name == "bob"
    for bad in (
        {**good, "aud": "x"},
        {**good, "iss": "https://another"},
        {name: value for name, value in good.items() if name != "aud"},
        {name: value for name, value in good.items() if name != "iss"},
        {**good, "scp": ["a", "a"]},
        {**good, "client_id": None},
    ):
        with pytest.raises(InvalidTokenError):
            rules.judge(signed(bad), KEYS, NOW_MS)


def test_no_algorithm_and_no_signature_is_no_way_in() -> None:
    for token in (unsigned(CLAIMS), unsigned(CLAIMS, {"alg": "none", "kid": "r"}), unsigned(CLAIMS, {"alg": "NONE"})):
        with pytest.raises(InvalidTokenError, match="algorithm"):
            JwtRules().judge(token, KEYS, NOW_MS)
    header, claims, signature = signed(CLAIMS).split(".")
    for token in (
        f"{header}.{claims}.",
        f"{header}.{part(without(sub='admin'))}.{signature}",
        f"{part({'alg': 'RS512', 'kid': 'r'})}.{claims}.{signature}",
        f"{part({'alg': 'RS256', 'kid': 'r', 'crit': ['exp']})}.{claims}.{signature}",
        f"{part({'alg': 'RS256', 'kid': 'r', 'b64': False, 'crit': ['b64']})}.{claims}.{signature}",
    ):
        with pytest.raises(InvalidTokenError):
            JwtRules().judge(token, KEYS, NOW_MS)


def test_a_public_key_is_no_shared_secret() -> None:
    content = f"{part({'alg': 'HS256', 'kid': 'r'})}.{part(CLAIMS)}"
    made = hmac.digest(RSA.as_pem(private=False), content.encode(), "sha256")
    token = f"{content}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"
    with pytest.raises(InvalidTokenError, match="algorithm"):
        JwtRules().judge(token, KEYS, NOW_MS)
    shared = json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "o"}]}).encode()
    assert len(Jwks.parse(shared)) == 0


def test_a_key_in_the_token_itself_is_not_looked_at() -> None:
    mine = RSAKey.generate_key(2048, {"kid": "r"})
    token = signed(CLAIMS, mine, jwk=mine.as_dict(private=False))
    with pytest.raises(InvalidTokenError, match="signature"):
        JwtRules().judge(token, KEYS, NOW_MS)


def test_a_key_that_is_not_known_is_named() -> None:
    another = RSAKey.generate_key(2048, {"kid": "new"})
    with pytest.raises(UnknownKeyError) as unknown:
        JwtRules().judge(signed(CLAIMS, another), KEYS, NOW_MS)
    assert unknown.value.kid == "new"
    with pytest.raises(UnknownKeyError):  # of another type than the algorithm needs
        JwtRules().judge(signed(CLAIMS, RSA, kid="e"), KEYS, NOW_MS)
    for kid in ("x" * 1001, 7, ["r"]):
        header = part({"alg": "RS256", "kid": kid})
        with pytest.raises(InvalidTokenError, match="key id"):
            JwtRules().judge(f"{header}.{part(CLAIMS)}.c2ln", KEYS, NOW_MS)


def test_a_token_that_names_no_key_is_good_where_there_is_no_choice() -> None:
    token = jwt.encode({"alg": "RS256"}, CLAIMS, RSA, algorithms=["RS256"])
    assert JwtRules().judge(token, KEYS, NOW_MS).name == "alice"
    two = Jwks.parse(document(RSA, RSAKey.generate_key(2048, {"kid": "s"})))
    with pytest.raises(UnknownKeyError):
        JwtRules().judge(token, two, NOW_MS)


def test_keys_that_are_weak_or_for_something_else_are_passed_over() -> None:
    (good,) = json.loads(document(RSA, private=True))["keys"]
    rows = [good, WEAK, {**good, "kid": "enc", "use": "enc"}, {"kty": "RSA", "kid": "x"}, {**good, "kid": 7}, "", None]
    assert len(Jwks.parse(json.dumps({"keys": rows}).encode())) == 1
    for text in (b"", b"[]", b"{}", b'{"keys": 7}', b"\xff"):
        with pytest.raises(ValueError, match="no JSON Web Key Set"):
            Jwks.parse(text)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "....",
        part("[]") + ".e30.e30",
        "W1tbWw" * 900 + ".x.y",
        "é.é.é",
        "x" * 70_000,
    ],
    ids=lambda token: token[:10],
)
def test_garbage_is_no_token(token: str) -> None:
    with pytest.raises(InvalidTokenError):
        JwtRules().judge(token, KEYS, NOW_MS)


def test_a_token_without_a_signature_counts_only_where_that_was_asked_for() -> None:
    assert judge_unsecured(unsigned(CLAIMS), JwtRules(), NOW_MS).name == "alice"
    for token in (signed(CLAIMS), unsigned(without("exp")), unsigned(CLAIMS) + "c2ln"):
        with pytest.raises(InvalidTokenError):
            judge_unsecured(token, JwtRules(), NOW_MS)
