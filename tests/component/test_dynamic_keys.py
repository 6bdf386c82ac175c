"""Every key that Kafka changes in a running broker (KIP-226): changed here as well, or refused, or said to be idle.

What the node answers, what it then describes, what its log says and what docs/configuration.md promises must agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client import ConfigResource
from kavka.client.blocking import Client
from kavka.model.errors import KafkaError
from kavka.model.settings import BROKER, Setting, SettingError
from kavka.testing import Cluster

ROOT = Path(__file__).parents[2]
FACTS = ROOT / "tests" / "unit" / "model" / "settings" / "kafka_4_3.tsv"
KEYS = {
    fields[1]
    for line in FACTS.read_text().splitlines()
    if (fields := line.split("\t"))[0] in ("broker", "quota") and fields[4] in ("per-broker", "cluster-wide")
}
"""Kafka's dynamic keys."""
OTHERS = {
    "boolean": ("true", "false"),
    "int": ("2", "1048577"),
    "short": ("60", "61"),
    "long": ("1048577", "3600001", "100000000"),
    "double": ("0.25", "1000000.0"),
    "class": ("com.example.Mine",),
    "password": ("com.example.Module required;",),
}
"""Values to try by type, the first that is not the default and not out of bounds counts."""
SPECIAL = {
    "compression.type": "lz4",
    "log.cleanup.policy": "compact",
    "log.message.timestamp.type": "LogAppendTime",
    "max.connections.per.ip.overrides": "127.0.0.9:7",
    "ssl.client.auth": "required",
    "unclean.leader.election.enable": "true",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.protocol": "TLSv1.2",
    "ssl.enabled.protocols": "TLSv1.3",
    "sasl.enabled.mechanisms": "PLAIN",
    "log.local.retention.ms": "1000",
    "log.local.retention.bytes": "1000",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT",
}
REFUSED = {
    "cordoned.log.dirs": ("/nope", "not among the data dirs"),
    "principal.builder.class": ("com.example.Builder", "a part of Java"),
    "config.providers": ("file", "a part of Java"),
    "ssl.keymanager.algorithm": ("Hardware", "a part of Java"),
    "ssl.trustmanager.algorithm": ("RevocationChecking", "a part of Java"),
    "sasl.mechanism.inter.broker.protocol": ("PLAIN", "only a restart"),
    "listeners": ("PLAINTEXT://127.0.0.1:1", "keeps its address"),
    "min.insync.replicas": ("2", "ISR|min.insync.replicas"),  # with eligible leader replicas only the cluster's counts
    "sasl.jaas.config": ("com.example.Module required;", "only with listener.name"),
}
"""What is refused on a node without secured listeners, with why."""


class Served:
    """A node and a client of it."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.client = client
        self.me = ConfigResource.broker(cluster.nodes[0])
        self.cluster = cluster


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Cluster() as cluster, Client(cluster.bootstrap) as client:
        yield Served(cluster, client)


def in_force(key: str) -> str:
    """The column "in force" of a key's row; empty for one without effect."""
    page = (ROOT / "docs" / "configuration.md").read_text().partition("## Nodes")[2]
    rows, _, idle = page.partition("## Accepted without effect")
    found = re.search(rf"^\| `{re.escape(key)}` \|(.*)\|$", rows, re.MULTILINE)
    if found is None:
        assert f"| `{key}` |" in idle
        return ""
    return found.group(1).split(" | ")[3]


def another(key: str) -> str:
    """A value that a key may have, and does not have by default."""
    setting = BROKER[key]
    if key in SPECIAL:
        return SPECIAL[key]
    if key.endswith((".threads", ".fetchers", ".per.data.dir")):
        return str(setting.default * 2)  # more is refused
    return next(text for text in OTHERS.get(setting.kind.name, ("mine",)) if fits(setting, text))


def fits(setting: Setting[Any], text: str) -> bool:
    """Whether a value is allowed and another than the default."""
    try:
        return bool(setting.parse(text) != setting.default)
    except SettingError:
        return False


@pytest.mark.parametrize("key", sorted(KEYS))
def test_a_key_that_kafka_changes_live_is_changed_or_refused_or_said_to_be_idle(served: Served, key: str) -> None:
    admin, promise = served.client.admin, in_force(key)
    if key in REFUSED or "with `listener.name" in promise:
        text, why = REFUSED.get(key, (another(key), "only with listener.name"))
        with pytest.raises(KafkaError, match=why):
            admin.alter_configs(served.me, set={key: text})
        assert key not in REFUSED or "a part of Java" not in why or "refused" in BROKER[key].doc
        assert why != "only a restart" or promise == "at start"
        return
    text, before = another(key), served.cluster.log
    admin.alter_configs(served.me, set={key: text})
    try:
        shown = admin.describe_configs(served.me)[served.me][key]
        assert BROKER[key].sensitive or BROKER[key].parse(shown.value or "") == BROKER[key].parse(text)
        said = served.cluster.log[len(before) :]
        assert (f"accepted without effect: {key}" in said) == (not promise)
        assert not promise or promise.startswith("live")
    finally:
        admin.alter_configs(served.me, delete=[key])
