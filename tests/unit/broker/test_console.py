"""What a node tells its console."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.broker.config import NodeConfig, node_config
from kavka.broker.console import console_facts, listener_of
from kavka.model.settings import SettingError


def node(listeners: str, advertised: str, **more: str) -> NodeConfig:
    names = [entry.partition("://")[0] for entry in listeners.split(",")]
    protocols = ",".join(f"{name}:{'SASL_PLAINTEXT' if name.startswith('LOGIN') else 'PLAINTEXT'}" for name in names)
    texts = {"listeners": listeners, "advertised.listeners": advertised, "listener.security.protocol.map": protocols}
    texts |= {"inter.broker.listener.name": names[0], "node.id": "1", **more}
    return node_config(texts, this_host=lambda: "this-host")


@pytest.mark.parametrize(
    ("listeners", "advertised", "chosen"),
    [
        ("A://h:1,B://h:2", "B://out:2,A://out:1", "A"),
        ("A://h:1,LOGIN://h:2,LOGIN2://h:3", "A://out:1,LOGIN2://out:3,LOGIN://out:2", "LOGIN"),
        ("A://h:1,LOGIN://h:2", "A://out:1", "A"),
    ],
)
def test_the_console_spares_nobody_a_log_in(listeners: str, advertised: str, chosen: str) -> None:
    config = node(listeners, advertised)
    found = listener_of(config, config.advertised)
    assert (found.listener, found.host) == (chosen, "out")


def test_a_client_properties_chooses_the_listener_by_its_protocol(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=console\n")
    config = node("LOGIN://h:2,A://h:1", "LOGIN://h:2,A://h:1", **{"kavka.console.client.config": str(file)})
    assert listener_of(config, config.advertised).listener == "A"
    with pytest.raises(SettingError, match="kavka console --bootstrap"):
        listener_of(config, ())


@pytest.mark.parametrize(
    ("bound", "protocol", "url", "logs_in"),
    [
        ("127.0.0.1:8081", "PLAINTEXT", "http://127.0.0.1:8081", False),
        ("0.0.0.0:8081", "PLAINTEXT", "http://localhost:8081", False),
        ("[::]:8081", "SSL", "https://h:8081", False),
        ("registry.example:8081", "SASL_SSL", "https://registry.example:8081", True),
    ],
)
def test_the_registry_is_asked_where_and_how_it_listens(bound: str, protocol: str, url: str, logs_in: bool) -> None:
    config = node("A://h:1", "A://h:1", **{"kavka.registry.security.protocol": protocol})
    facts = console_facts(config, config.advertised[0], "h:1", None, bound)
    assert (facts["registry"], facts["registry_knows_users"]) == (url, logs_in)
    assert console_facts(config, config.advertised[0], "h:1", None, None)["registry"] is None
