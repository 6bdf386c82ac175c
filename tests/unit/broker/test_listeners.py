from __future__ import annotations

import pytest

from kavka.broker.listeners import advertised, inter_broker_listener, listening, security_protocols, split_address
from kavka.model.settings import SettingError, broker_values
from kavka.model.types import Endpoint


def endpoints(listeners: str, **other: str) -> tuple[Endpoint, ...]:
    values = broker_values({"listeners": listeners} | {key.replace("_", "."): text for key, text in other.items()})
    return listening(values, security_protocols(values))


def told(listeners: str, **other: str) -> tuple[Endpoint, ...]:
    values = broker_values({"listeners": listeners} | {key.replace("_", "."): text for key, text in other.items()})
    protocols = security_protocols(values)
    return advertised(values, protocols, listening(values, protocols), "this-host")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host:9092", ("host", 9092)),
        (":9092", ("", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("::1:9092", ("::1", 9092)),
        ("[fe80::1%eth0]:0", ("fe80::1%eth0", 0)),
    ],
)
def test_an_address_is_split_at_its_last_colon(text: str, address: tuple[str, int]) -> None:
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["host", "host:", "host:x", "host:65536", "host:-1", "ho st:1", "host/x:1", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(text)


def test_names_are_in_capitals_and_protocols_come_from_the_map() -> None:
    found = endpoints(
        "internal://:1,plaintext://[::1]:2", listener_security_protocol_map="Internal:ssl,PLAINTEXT:PLAINTEXT"
    )
    assert found == (Endpoint("INTERNAL", "", 1, "SSL"), Endpoint("PLAINTEXT", "::1", 2, "PLAINTEXT"))


@pytest.mark.parametrize(
    ("listeners", "words"),
    [
        ("PLAINTEXT:9092", "is not NAME://host:port"),
        ("://h:1", "is not NAME://host:port"),
        ("PLAINTEXT://h", "is not NAME://host:port"),
        ("EXTERNAL://h:1", "EXTERNAL has no protocol"),
        ("PLAINTEXT://a:1,plaintext://b:2", "PLAINTEXT is there twice"),
        ("PLAINTEXT://a:1,SSL://b:1", "port 1 is there 2 times"),
        ("PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1", "port 1 is there 2 times"),
        ("PLAINTEXT://127.0.0.1:1,SSL://[::1]:1,SASL_SSL://:1", "port 1 is there 3 times"),
    ],
)
def test_bad_listeners_are_refused(listeners: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        endpoints(listeners)


def test_port_0_may_repeat_and_the_two_kinds_of_address_may_share_a_port() -> None:
    assert len(endpoints("PLAINTEXT://:0,SSL://:0")) == 2
    assert len(endpoints("PLAINTEXT://127.0.0.1:1,SSL://[::1]:1")) == 2


def test_controllers_are_plain_text_unless_something_is_secured() -> None:
    plain = broker_values({"listeners": "PLAINTEXT://:1,ctl://:2", "controller.listener.names": "CTL"})
    assert security_protocols(plain)["CTL"] == "PLAINTEXT"
    secured = broker_values({"listeners": "SSL://:1,CTL://:2", "controller.listener.names": "CTL"})
    assert "CTL" not in security_protocols(secured)


@pytest.mark.parametrize("text", ["A", "A:B", ":SSL", "A:SSL,B"])
def test_a_bad_protocol_map_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="is not NAME:PROTOCOL"):
        security_protocols(broker_values({"listener.security.protocol.map": text}))


def test_clients_are_told_the_listeners_unless_advertised_listeners_say_otherwise() -> None:
    assert told("PLAINTEXT://:9092") == (Endpoint("PLAINTEXT", "this-host", 9092, "PLAINTEXT"),)
    assert told("PLAINTEXT://0.0.0.0:9092", advertised_listeners="PLAINTEXT://kavka.example:19092") == (
        Endpoint("PLAINTEXT", "kavka.example", 19092, "PLAINTEXT"),
    )


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_clients_of_a_node_that_listens_everywhere_are_told_its_name(host: str) -> None:
    assert told(f"PLAINTEXT://{host}:9092") == (Endpoint("PLAINTEXT", "this-host", 9092, "PLAINTEXT"),)


def test_clients_are_not_told_the_controllers_listener() -> None:
    found = told("PLAINTEXT://h:1,CTL://h:2", controller_listener_names="CTL")
    assert [endpoint.listener for endpoint in found] == ["PLAINTEXT"]


def test_two_advertised_listeners_may_share_a_port() -> None:
    assert len(told("PLAINTEXT://:1,SSL://:2", advertised_listeners="PLAINTEXT://h:9,SSL://h:9")) == 2


@pytest.mark.parametrize(
    ("listeners", "advertised_listeners", "words"),
    [
        ("PLAINTEXT://:1", "PLAINTEXT://[::]:1", "advertised.listeners: nobody can connect to ::"),
        ("PLAINTEXT://:1", "PLAINTEXT://0.0.0.0:1", "advertised.listeners: nobody can connect"),
        ("PLAINTEXT://:1", "SSL://h:1", "SSL is not among listeners"),
    ],
)
def test_addresses_nobody_can_use_are_refused(listeners: str, advertised_listeners: str | None, words: str) -> None:
    other = {} if advertised_listeners is None else {"advertised_listeners": advertised_listeners}
    with pytest.raises(SettingError, match=words):
        told(listeners, **other)


def test_brokers_use_the_named_listener_or_that_of_the_named_protocol() -> None:
    names = ["PLAINTEXT", "INTERNAL"]
    texts = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT"}
    plain, named = broker_values(texts), broker_values(texts | {"inter.broker.listener.name": "internal"})
    assert inter_broker_listener(plain, security_protocols(plain), names) == "PLAINTEXT"
    assert inter_broker_listener(named, security_protocols(named), names) == "INTERNAL"
    for bad in ({"inter.broker.listener.name": "X"}, {"security.inter.broker.protocol": "SSL"}):
        values = broker_values(texts | bad)
        with pytest.raises(SettingError):
            inter_broker_listener(values, security_protocols(values), names)
    both = broker_values({"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "SSL"})
    with pytest.raises(SettingError, match="not together"):
        inter_broker_listener(both, security_protocols(both), names)
