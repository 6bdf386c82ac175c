"""Two thousand connections that never mean to get in: some say nothing, some drip, some send garbage."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import threading
from collections.abc import Iterator

import psutil
import pytest

from kavka.client import blocking
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured

CONNECTIONS = 2_000
MEMORY_BYTES = 150 << 20


@pytest.fixture
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Secured, dict[str, int]]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CONNECTIONS
    if hard < 3 * wanted:
        pytest.skip(f"a process may open {hard} files here, {3 * wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    made = Secured(tmp_path_factory.mktemp("secured"))
    ports = dict(zip(("SASL_SSL", "SASL_PLAINTEXT", "SSL"), free_ports(3), strict=True))
    config = {
        **made.nodes,
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in ports) + ",CONTROLLER:SASL_SSL",
        "max.connections": str(2 * CONNECTIONS),
        "kavka.authentication.timeout.ms": "60000",
    }
    with Cluster(config=config, users=made.users) as cluster:
        yield cluster, made, ports
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Flood:
    """Opens connections and keeps them busy doing nothing of use; what the node closes is opened again."""

    SAID = (
        b"",
        b"\x16\x03\x01\x02\x00\x01",  # the beginning of a handshake
        os.urandom(64),
        struct.pack(">i", 500_000) + bytes(100),  # the beginning of a large token
        struct.pack(">ihhih", 10, 18, 0, 1, -1),  # a request that is answered before any log-in, and then nothing
    )

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._sockets: list[socket.socket] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.opened = 0
        self.full = threading.Event()

    def __enter__(self) -> Flood:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for sock in self._sockets:
            sock.close()

    def _open(self, number: int) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self._ports[number % len(self._ports)]))
        sock.setblocking(False)
        self.opened += 1
        self._say(sock, self.SAID[number % len(self.SAID)])
        return sock

    def _say(self, sock: socket.socket, said: bytes) -> None:
        with contextlib.suppress(OSError):
            sock.send(said)

    def _run(self) -> None:
        self._sockets = [self._open(number) for number in range(CONNECTIONS)]
        self.full.set()
        turn = 0
        while not self._stop.wait(0.05):
            for number in range(turn % 50, CONNECTIONS, 50):
                sock = self._sockets[number]
                try:
                    gone = sock.recv(4096) == b""
                except BlockingIOError:
                    gone = False
                except OSError:
                    gone = True
                if gone:
                    sock.close()
                    self._sockets[number] = self._open(number)
                else:
                    self._say(sock, b"\0")  # a drip
            turn += 1


@pytest.mark.apart
def test_those_who_are_in_are_served_and_memory_stays_bounded(
    secured: tuple[Cluster, Secured, dict[str, int]],
) -> None:
    cluster, made, ports = secured
    process = psutil.Process(cluster.pid)
    bootstrap = f"127.0.0.1:{ports['SASL_SSL']}"
    with blocking.Client(bootstrap, security=made.client()) as client:
        client.admin.create_topic("orders", partitions=1)
        with Flood(list(ports.values())) as flood, client.producer() as producer:
            largest = 0
            sent = 0
            while not flood.full.is_set() or sent < 500:
                producer.send("orders", bytes(1000)).result()
                sent += 1
                if sent % 50 == 0:
                    largest = max(largest, process.memory_info().rss)
                    with blocking.Client(bootstrap, security=made.client()) as newcomer:  # and so is who comes now
                        assert newcomer.admin.list_topics()
            assert flood.opened >= CONNECTIONS
            largest = max(largest, process.memory_info().rss)
    assert cluster.running
    assert largest < MEMORY_BYTES, f"{largest >> 20} MiB"
