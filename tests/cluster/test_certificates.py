"""Certificates that change under load, on three nodes with TLS and SASL everywhere: no request fails for it."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kavka.cli.commands import run as run_command
from kavka.client import blocking
from kavka.testing import Cluster
from kavka.testing.authority import Authority, Issued
from kavka.testing.local import lay_out, read_layout
from kavka.testing.secured import Secured

Both = tuple[Cluster, Secured]
SECONDS = 30.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Nodes that each have a key of their own, in a file of their own."""
    made = Secured(tmp_path_factory.mktemp("secured"))
    data = tmp_path_factory.mktemp("data")
    for node in lay_out(data, 3, made.nodes, users=made.users):
        issue(made, node.id)
        with node.config.open("a") as properties:
            properties.write(f"ssl.keystore.location={made.folder / file_of(node.id)}\n")
    with Cluster(nodes=3, data_dir=data) as cluster:
        yield cluster, made


def file_of(node: int) -> str:
    return f"node-{node}.pem"


def issue(made: Secured, node: int) -> Issued:
    """A new key and certificate for a node, in its file."""
    return made.issue(file_of(node), f"node-{node}")


def shown(address: str) -> bytes:
    """The certificate that a node shows to a stranger."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = address.rpartition(":")

    async def look() -> bytes:
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        await asyncio.sleep(0)
        return found

    return asyncio.run(look())


def until(look: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < ends
        time.sleep(0.05)


def shows(cluster: Cluster, node: int, issued: Issued) -> bool:
    """Whether both of a node's listeners show a certificate, that of controllers as well."""
    (found,) = (one for one in read_layout(cluster.data_dir) if one.id == node)
    assert found.controller is not None
    mine = ssl.PEM_cert_to_DER_cert(issued.certificate_pem)
    return all(shown(address) == mine for address in (found.listen, found.controller))


def rotate(cluster: Cluster, made: Secured) -> dict[int, Issued]:
    """Give every node another certificate, one after the other, and wait until it shows it."""
    issued = {}
    for node in cluster.nodes:
        issued[node] = issue(made, node)
        until(lambda node=node: shows(cluster, node, issued[node]))  # type: ignore[misc]
    return issued


class Load:
    """Clients that come and go, and one that stays; what fails is kept."""

    def __init__(self, cluster: Cluster, made: Secured) -> None:
        self._cluster, self._made = cluster, made
        self._stop = threading.Event()
        self.failures: list[BaseException] = []
        self.done = self.stayed = 0
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._visit, self._stay)]

    def __enter__(self) -> Load:
        with blocking.Client(self._cluster.bootstrap, security=self._made.client()) as client:
            if "load" not in [topic.name for topic in client.admin.list_topics()]:
                client.admin.create_topic("load", partitions=6, replication_factor=3)
            client.run(client.pool.topic("load", wait_ms=20_000))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def await_new_clients(self) -> None:
        """Wait until all those that are there were not there before."""
        done, stayed = self.done, self.stayed
        until(lambda: bool(self.failures) or (self.done >= done + 2 and self.stayed >= stayed + 2))

    def _run(self, work: Callable[[], None]) -> None:
        try:
            while not self._stop.is_set():
                work()
        except BaseException as error:
            self.failures.append(error)

    def _visit(self) -> None:
        with blocking.Client(self._cluster.bootstrap, security=self._made.client()) as client:
            with client.producer() as producer:
                sent = [producer.send("load", b"x", partition=number) for number in range(6)]
            for one in sent:
                one.result()
        self.done += 1

    def _stay(self) -> None:
        with blocking.Client(self._cluster.bootstrap, security=self._made.client()) as client, client.producer() as one:
            for _ in range(100):
                one.send("load", b"y").result()
        self.stayed += 1


def test_certificates_are_replaced_under_load_and_bad_ones_never_get_live(secured: Both) -> None:
    cluster, made = secured
    with Load(cluster, made) as load:
        first = rotate(cluster, made)
        broken = cluster.nodes[1]
        name = f"node-{broken}"
        bad = {
            "garbage": "this is no certificate",
            "expired": made.authority.issue(name, days=-1).pem,
            "of a stranger": Authority().issue(name).pem,
            "for another node": made.authority.issue("node-9").pem,
            "not its own key": first[broken].key_pem() + made.authority.issue(name).certificate_pem,
        }
        for count, text in enumerate(bad.values(), 1):
            (made.folder / file_of(broken)).write_text(text)
            until(lambda count=count: min(kept(cluster, broken)) >= count)  # type: ignore[misc]
        assert all(shows(cluster, node, first[node]) for node in cluster.nodes)
        assert [kept(cluster, node) for node in cluster.nodes if node != broken] == [[0, 0], [0, 0]]
        rotate(cluster, made)
        load.await_new_clients()
    assert load.failures == []
    assert cluster.running


def kept(cluster: Cluster, node: int) -> list[int]:
    """How often a node has kept what each of its listeners has."""
    log = cluster.node(node).log
    return [log.count(f"listener {name}: keeping the current keystore") for name in ("SASL_SSL", "CONTROLLER")]


def reloads(cluster: Cluster, node: int) -> int:
    return cluster.node(node).log.count("keystore and truststore reloaded")


def test_an_authority_is_replaced_in_two_steps(secured: Both) -> None:
    cluster, made = secured
    new = Authority()
    with Load(cluster, made) as load:
        read = [reloads(cluster, node) for node in cluster.nodes]
        made._write("ca.pem", made.authority.pem + new.pem)
        for node, count in zip(cluster.nodes, read, strict=True):  # both of its listeners
            until(lambda node=node, count=count: reloads(cluster, node) >= count + 2)  # type: ignore[misc]
        load.await_new_clients()
        made.authority = new
        rotate(cluster, made)
        load.await_new_clients()
    assert load.failures == []


def test_a_signal_and_a_command_have_them_read_again(
    secured: Both, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, made = secured
    for node in cluster.nodes:
        os.kill(cluster.node(node).pid, signal.SIGHUP)
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in made.client().items()))
    command = ["tls", "reload", "--bootstrap", cluster.bootstrap, "--client-config", str(config), "--output", "json"]
    assert run_command(command) == 0
    assert capsys.readouterr().out.count("SASL_SSL") == 3
    file = made.folder / file_of(cluster.nodes[0])
    good = file.read_text()
    file.write_text("garbage")
    assert run_command(command) == 1
    assert "neither PKCS12 nor PEM" in capsys.readouterr().out
    file.write_text(good)
    until(lambda: run_command(command) == 0)
    assert cluster.running
