"""Settings that change while a node runs (KIP-226): each is in force at once, or the change is refused."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crash.raw import HangupError, Raw
from kavka.client import ConfigResource, ResourceType
from kavka.client.blocking import Client
from kavka.model.errors import InvalidRequest, SaslAuthenticationFailed
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.schemas.metadata import MetadataRequest
from kavka.testing import Cluster
from kavka.testing.local import free_ports, read_layout
from kavka.testing.secured import Secured

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.bootstrap) as client:
        yield client


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def accepts(port: int) -> bool:
    """Whether somebody listens on a port."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def shakes_hands(port: int) -> None:
    """Connect by TLS, whoever that is."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain):
        pass


def answers(port: int) -> bool:
    """Whether somebody serves a port."""
    try:
        raw = Raw(f"127.0.0.1:{port}")
    except OSError:
        return False
    try:
        raw.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), 12)
        return True
    except HangupError:
        return False
    finally:
        raw.close()


def dropped(raw: Raw) -> bool:
    """Whether a connection has ended."""
    try:
        raw.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), 12)
    except HangupError:
        raw.close()
        return True
    return False


def test_a_listener_is_opened_and_closed(client: Client, cluster: Cluster) -> None:
    mine = ConfigResource.broker(client.admin.describe_cluster().controller_id)
    now = f"PLAINTEXT://{cluster.bootstrap}"
    (port,) = free_ports(1)
    both = {"listeners": f"{now},EXTRA://127.0.0.1:{port}", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}
    with pytest.raises(InvalidRequest, match="EXTRA has no protocol"):
        client.admin.alter_configs(mine, set=both)
    both["listener.security.protocol.map"] += ",EXTRA:PLAINTEXT"
    client.admin.alter_configs(mine, set=both, validate_only=True)
    assert not answers(port)
    client.admin.alter_configs(mine, set=both)
    eventually(lambda: answers(port))
    raw = Raw(f"127.0.0.1:{port}")
    client.admin.alter_configs(mine, delete=list(both))
    eventually(lambda: dropped(raw))  # who came by it goes with it
    assert not answers(port)


def test_a_secured_listener_is_opened_and_closed(client: Client, cluster: Cluster, tmp_path: Path) -> None:
    made = Secured(tmp_path, {"alice": "wonder"}, mechanism="PLAIN")
    mine = ConfigResource.broker(client.admin.describe_cluster().controller_id)
    (port,) = free_ports(1)
    keys = {
        "listeners": f"PLAINTEXT://{cluster.bootstrap},EXTRA://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:SASL_SSL",
        **{f"listener.name.extra.{key}": text for key, text in made.tls.items()},
        "listener.name.extra.sasl.enabled.mechanisms": "PLAIN",
    }
    with pytest.raises(InvalidRequest, match="must name the users"):
        client.admin.alter_configs(mine, set=keys)
    keys["listener.name.extra.plain.sasl.jaas.config"] = made.jaas("alice", "alice")
    with pytest.raises(InvalidRequest, match="No such file"):
        client.admin.alter_configs(mine, set={**keys, "listener.name.extra.ssl.keystore.location": "/nowhere"})
    client.admin.alter_configs(mine, set=keys)
    eventually(lambda: accepts(port))
    assert not answers(port)  # nobody is served in plain text
    with Client(f"127.0.0.1:{port}", security=made.client("alice")):
        pass
    with pytest.raises(SaslAuthenticationFailed):
        Client(f"127.0.0.1:{port}", security=made.client("admin"))
    client.admin.alter_configs(mine, delete=list(keys))
    eventually(lambda: not accepts(port))


def test_a_cap_is_in_force_also_where_the_keys_of_its_listener_come_later(tmp_path: Path) -> None:
    made = Secured(tmp_path, {}, mechanism="PLAIN")
    (port,) = free_ports(1)
    with Cluster(quorum=True) as cluster:
        (node,) = read_layout(cluster.data_dir)
        assert node.controller is not None
        keys = {
            "listeners": f"PLAINTEXT://{cluster.bootstrap},EXTRA://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:SSL",
            **{f"listener.name.extra.{key}": text for key, text in made.tls.items()},
            "listener.name.extra.max.connection.creation.rate": "1",
        }
        changes = [AlterableConfig(name=key, config_operation=0, value=text) for key, text in keys.items()]
        resource = AlterConfigsResource(resource_type=4, resource_name=str(node.id), configs=changes)
        raw = Raw(node.controller)  # which leaves it to the broker to read the keys, after it has heard of them
        answer = raw.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert [(row.error_code, row.error_message) for row in answer.responses] == [(0, None)]
        raw.close()
        eventually(lambda: accepts(port))
        began = time.monotonic()
        for _ in range(12):
            shakes_hands(port)
        assert time.monotonic() - began >= 1


def test_listeners_that_cannot_be_are_refused_before(client: Client, cluster: Cluster) -> None:
    mine = ConfigResource.broker(client.admin.describe_cluster().controller_id)
    now, (port,) = f"PLAINTEXT://{cluster.bootstrap}", free_ports(1)
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"}

    def refused(listeners: str, why: str, **more: str) -> None:
        with pytest.raises(InvalidRequest, match=why):
            client.admin.alter_configs(mine, set={**protocols, "listeners": listeners, **more})

    refused(f"EXTRA://127.0.0.1:{port}", "PLAINTEXT cannot go")
    refused(f"PLAINTEXT://127.0.0.1:{port}", "keeps its address")
    refused(f"{now},EXTRA://{cluster.bootstrap}", "is there 2 times")
    with Cluster() as other:
        refused(f"{now},EXTRA://{other.bootstrap}", "cannot listen on")
    with pytest.raises(InvalidRequest, match="one broker, not for the cluster"):
        client.admin.alter_configs(ConfigResource.broker(), set={"listeners": now})
    assert answers(int(cluster.bootstrap.rpartition(":")[2]))


def test_a_cap_on_a_listener_is_in_force_at_once(client: Client, cluster: Cluster) -> None:
    mine = ConfigResource.broker(client.admin.describe_cluster().controller_id)
    key = "listener.name.plaintext.max.connection.creation.rate"
    with pytest.raises(InvalidRequest):
        client.admin.alter_configs(mine, set={key: "0"})
    client.admin.alter_configs(mine, set={key: "1"})
    port = int(cluster.bootstrap.rpartition(":")[2])
    began = time.monotonic()
    assert [answers(port) for _ in range(12)] == [True] * 12  # the last two after a second each, as Kafka has it
    client.admin.alter_configs(mine, delete=[key])
    assert time.monotonic() - began >= 1


def test_a_cap_that_comes_with_its_listener_is_in_force_at_once(client: Client, cluster: Cluster) -> None:
    mine = ConfigResource.broker(client.admin.describe_cluster().controller_id)
    (port,) = free_ports(1)
    both = {
        "listeners": f"PLAINTEXT://{cluster.bootstrap},EXTRA://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT",
        "listener.name.extra.max.connections": "1",
    }
    client.admin.alter_configs(mine, set=both)
    eventually(lambda: answers(port))
    first = Raw(f"127.0.0.1:{port}")
    first.produce("nowhere", b"x")
    second = socket.create_connection(("127.0.0.1", port))
    second.settimeout(1)
    second.sendall(bytes.fromhex("0000000a00120000000000010000"))
    with pytest.raises(TimeoutError):  # who comes beyond the cap waits, as in Kafka
        second.recv(1)
    first.close()
    second.settimeout(20)
    assert second.recv(1)
    second.close()
    client.admin.alter_configs(mine, delete=list(both))


def test_log_levels_change_until_the_node_stops(client: Client) -> None:
    node = str(client.admin.describe_cluster().controller_id)
    loggers = ConfigResource(ResourceType.BROKER_LOGGER, node)

    def level(name: str) -> str | None:
        return client.admin.describe_configs(loggers)[loggers][name].value

    client.admin.alter_configs(loggers, set={"kavka.net.server": "DEBUG"})
    assert level("kavka.net.server") == "DEBUG"
    client.admin.alter_configs(loggers, delete=["kavka.net.server"])
    assert level("kavka.net.server") == level("kavka")
