"""OAUTHBEARER on a listener: what it is made of, and what a node refuses to start with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from kavka.broker.sasl import MechanismSetup, mechanism_of
from kavka.metadata.image.security import EMPTY_SECURITY
from kavka.model.clock import ManualClock
from kavka.model.settings import SettingError, broker_values
from kavka.model.settings.listeners import ListenerValues
from kavka.net.session import Session
from kavka.security.sasl.exchange import Authenticated
from kavka.security.sasl.oauthbearer import OAuthBearerClient

ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
URL = "sasl.oauthbearer.jwks.endpoint.url"
KEY = RSAKey.generate_key(2048, {"kid": "k"})
SESSION = Session(1, "L", "127.0.0.1", 5)
NOW_S = 1_800_000_000


def setup(**texts):
    values = broker_values({key.replace("__", "."): text for key, text in texts.items()})
    settings = ListenerValues(values, "L", "OAUTHBEARER")
    return MechanismSetup("L", "OAUTHBEARER", settings, lambda: EMPTY_SECURITY, ManualClock(NOW_S * 1000), b"s")


def made(texts):
    return mechanism_of(setup(**{key.replace(".", "__"): text for key, text in texts.items()}))


def token(**claims):
    base = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}
    return jwt.encode({"alg": "RS256", "kid": "k"}, {**base, **claims}, KEY, algorithms=["RS256"])


def log_in(mechanism, bearer):
    server = mechanism.begin(SESSION)
    server.respond(OAuthBearerClient(bearer).begin())
    return server.authenticated


@pytest.fixture
def keys(tmp_path: Path) -> str:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    return path.as_uri()


def judge_by_name(bearer: str) -> Authenticated:
    return Authenticated(bearer)


def fail_on(bearer: str) -> Authenticated:
    raise LookupError(f"nobody has {bearer}")


async def say_nothing(bearer: str) -> Authenticated:
    return Authenticated(bearer)


def test_keys_of_a_file_let_in_who_has_a_token_by_them(keys):
    mechanism = made({URL: keys, ALLOWED: keys})
    assert log_in(mechanism, token()) == Authenticated("alice", (NOW_S + 60) * 1000)
    assert log_in(mechanism, token(exp=NOW_S - 60)) is None
    assert log_in(mechanism, "a.b.c") is None


def test_settings_of_the_listener_are_those_that_count(keys):
    prefix = "listener.name.l.oauthbearer."
    mechanism = made(
        {
            f"{prefix}{URL}": keys,
            ALLOWED: f"https://elsewhere,{keys}",
            f"{prefix}sasl.oauthbearer.expected.audience": "kafka",
            f"{prefix}sasl.oauthbearer.sub.claim.name": "client_id",
            "sasl.oauthbearer.expected.issuer": "me",
            "sasl.oauthbearer.jwt.validator.class": "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
            "sasl.server.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
        }
    )
    who = log_in(mechanism, token(aud="kafka", iss="me", client_id="bob"))
    assert who is not None
    assert who.name == "bob"
    assert log_in(mechanism, token(client_id="bob")) is None


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ({}, "it must say where the keys of tokens are"),
        ({URL: "https://issuer.example/keys"}, "is not among org.apache.kafka.sasl.oauthbearer.allowed.urls"),
        ({URL: "https://a/keys", ALLOWED: "https://b/keys"}, "is not among"),
        ({URL: "http://issuer.example/keys", ALLOWED: "http://issuer.example/keys"}, "use https"),
        ({URL: "file:///etc/shadow-of-nothing", ALLOWED: "file:///etc/shadow-of-nothing"}, "No such file"),
        ({URL: "file:///etc/hostname", ALLOWED: "file:///etc/hostname"}, "no JSON Web Key Set"),
        ({URL: "https://a", ALLOWED: "https://a", "kavka.sasl.oauthbearer.unsecured": "true"}, "not together with"),
        ({"sasl.oauthbearer.jwt.validator.class": "com.example.Lenient"}, "com.example.Lenient is none of"),
        ({"sasl.server.callback.handler.class": "com.example.Handler"}, "com.example.Handler is a part of Java"),
        ({"sasl.server.callback.handler.class": "no.such.module:f"}, "cannot be imported"),
    ],
)
def test_what_cannot_be_honoured_refuses_to_start(texts, complaint):
    with pytest.raises(SettingError) as refused:
        made(texts)
    assert complaint in str(refused.value)
    assert "on listener L" in str(refused.value)


def test_tokens_without_signatures_are_believed_only_where_that_is_asked_for():
    import base64

    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    bearer = f"{part({'alg': 'none'})}.{part({'sub': 'x', 'iat': NOW_S, 'exp': NOW_S + 9})}."
    who = log_in(made({"kavka.sasl.oauthbearer.unsecured": "true"}), bearer)
    assert who is not None
    assert who.name == "x"


def test_a_function_of_ones_own_judges_tokens(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    who = log_in(made({"sasl.server.callback.handler.class": f"{Path(__file__).stem}:judge_by_name"}), "anybody")
    assert who is not None
    assert who.name == "anybody"


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("function", ["fail_on", "say_nothing"])
def test_a_function_that_fails_lets_nobody_in_and_shows_no_token(monkeypatch, caplog, function):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    mechanism = made({"sasl.server.callback.handler.class": f"{Path(__file__).stem}:{function}"})
    assert log_in(mechanism, "a-secret-token") is None
    assert "the function that judges bearer tokens" in caplog.text
    assert "a-secret-token" not in caplog.text
