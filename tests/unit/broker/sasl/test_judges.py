"""`sasl.server.callback.handler.class`: a function of the operator's own judges log-ins, or the node does not start."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kavka.broker.sasl import MechanismSetup, mechanism_of
from kavka.metadata.image.security import EMPTY_SECURITY
from kavka.model.clock import ManualClock
from kavka.model.errors import SaslAuthenticationFailed
from kavka.model.settings import SettingError, broker_values
from kavka.model.settings.listeners import ListenerValues
from kavka.net.session import Session
from kavka.security.sasl.plain import PlainClient, PlainServer

KEY = "sasl.server.callback.handler.class"
KAFKAS = "org.apache.kafka.common.security"
JAAS = {
    "listener.name.l.plain.sasl.jaas.config": (
        f'{KAFKAS}.plain.PlainLoginModule required user_alice="of jaas";'  # the users that must not be let in
    )
}


def made(mechanism: str, texts: dict[str, str]) -> object:
    values = broker_values({"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256", **JAAS, **texts})
    settings = ListenerValues(values, "L", mechanism)
    return mechanism_of(MechanismSetup("L", mechanism, settings, lambda: EMPTY_SECURITY, ManualClock(0), b"s"))


def log_in(mechanism: object, name: str, password: str) -> PlainServer:
    server: PlainServer = mechanism.begin(Session(1, "L", "127.0.0.1", 5))  # type: ignore[attr-defined]
    server.respond(PlainClient(name, password).begin())
    return server


def alice_alone(name: str, password: str) -> object:
    if password == "broken":
        raise LookupError(password)
    return (name, password) == ("alice", "of the function")


def something(name: str, password: str) -> object:
    return "not True"


def test_a_function_judges_passwords_in_place_of_the_users_of_jaas(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    plain = made("PLAIN", {f"listener.name.l.plain.{KEY}": f"{Path(__file__).stem}:alice_alone"})
    assert log_in(plain, "alice", "of the function").authenticated is not None
    for password in ("of jaas", "broken"):
        with pytest.raises(SaslAuthenticationFailed), caplog.at_level(logging.DEBUG):
            log_in(plain, "alice", password)
    assert "LookupError" in caplog.text
    assert "broken" not in caplog.text
    vague = made("PLAIN", {f"listener.name.l.plain.{KEY}": f"{Path(__file__).stem}:something"})
    with pytest.raises(SaslAuthenticationFailed):
        log_in(vague, "alice", "of jaas")


@pytest.mark.parametrize(
    ("mechanism", "key", "handler"),
    [
        ("PLAIN", f"listener.name.l.plain.{KEY}", "com.example.Handler"),
        ("PLAIN", f"listener.name.l.plain.{KEY}", "no.such.module:function"),
        ("PLAIN", f"listener.name.l.plain.{KEY}", "kavka:__name__"),
        ("PLAIN", f"listener.name.l.plain.{KEY}", f"{KAFKAS}.scram.internals.ScramServerCallbackHandler"),
        ("PLAIN", f"listener.name.l.{KEY}", "com.example.Handler"),
        ("PLAIN", KEY, "com.example.Handler"),
        ("PLAIN", KEY, "kavka.broker.sasl:mechanism_of"),  # which mechanism's?
        ("SCRAM-SHA-256", f"listener.name.l.scram-sha-256.{KEY}", "com.example.Handler"),
        ("SCRAM-SHA-256", f"listener.name.l.scram-sha-256.{KEY}", "kavka.broker.sasl:mechanism_of"),
    ],
)
def test_a_handler_that_is_not_here_refuses_to_start(mechanism: str, key: str, handler: str) -> None:
    with pytest.raises(SettingError, match=key):
        made(mechanism, {key: handler})


def test_kafkas_own_handlers_and_those_of_another_mechanism_change_nothing() -> None:
    own = {f"listener.name.l.plain.{KEY}": f"{KAFKAS}.plain.internals.PlainServerCallbackHandler"}
    oauth = {"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER", KEY: "kavka.broker.sasl:mechanism_of"}
    for texts in (own, oauth):
        assert log_in(made("PLAIN", texts), "alice", "of jaas").authenticated is not None
