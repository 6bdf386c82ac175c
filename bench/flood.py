"""What do 2,000 connections that never mean to get in cost those who are in: throughput, and the node's memory?

`python -m bench.flood COUNT PORT...` is the flood: some of its connections say nothing, some drip, some send garbage,
and what the node closes is opened again. It prints a line when all are open.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.bulk import PARTITIONS, produce, random_payloads
from bench.node import Bench, Node
from bench.report import Row, at_least, at_most
from bench.wire import BenchError, Topic
from kavka.client import blocking
from kavka.model.types import Uuid
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured

CONNECTIONS = 2_000
MEMORY_MB = 150
KEPT_PERCENT = 80
PROTOCOLS = ("SASL_SSL", "SASL_PLAINTEXT", "SSL")
PAYLOAD_BYTES = 1024
TURNS_OF_ALL = 50
TURN_S = 0.05
SAID = (
    b"",
    b"\x16\x03\x01\x02\x00\x01",  # the beginning of a handshake
    os.urandom(64),
    struct.pack(">i", 500_000) + bytes(100),  # the beginning of a large token
    struct.pack(">ihhih", 10, 18, 0, 1, -1),  # a request that is answered before any log-in, and then nothing
)


def rows(bench: Bench) -> list[Row]:
    """librdkafka by SASL_SSL, with the flood and without in turns; the median of the pairs counts."""
    count = bench.size(300_000, 30_000)
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as folder:
        secured = Secured(Path(folder))
        ports = dict(zip(PROTOCOLS, free_ports(len(PROTOCOLS)), strict=True))
        with Cluster(config=config_of(secured, ports), users=secured.users, timeout=120) as cluster:
            node = Node(f"127.0.0.1:{ports['SASL_SSL']}", cluster.pid)
            with blocking.Client(node.bootstrap, security=secured.client()) as client:
                client.admin.create_topic("orders", partitions=PARTITIONS)
            pairs, largest = [], 0
            rate(node, secured, count // 3)
            for _ in range(max(3, bench.repeats)):
                without = rate(node, secured, count)
                with flooding(list(ports.values())):
                    pairs.append((without, rate(node, secured, count)))
                    largest = max(largest, node.rss_bytes())
    kept = statistics.median(100 * with_ / without for without, with_ in pairs)
    note = "beside " + ", ".join(f"{without:,.0f}" for without, _ in pairs)
    return [
        Row(f"with {CONNECTIONS:,} that do not log in", pairs[-1][1], "messages / s", note=note),
        Row("of what it is without", kept, "%", at_least(KEPT_PERCENT)),
        Row("memory", largest / 1e6, "MB RSS", at_most(MEMORY_MB)),
    ]


def config_of(secured: Secured, ports: Mapping[str, int]) -> dict[str, str]:
    """A node with every kind of listener that strangers can be kept out of."""
    return {
        **secured.nodes,
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in ports) + ",CONTROLLER:SASL_SSL",
        "max.connections": str(2 * CONNECTIONS),
        "kavka.authentication.timeout.ms": "60000",
    }


def rate(node: Node, secured: Secured, count: int) -> float:
    """Messages a second of somebody who is let in."""
    user = "admin"
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": secured.mechanism,
        "sasl.username": user,
        "sasl.password": secured.passwords[user],
        "ssl.ca.location": str(secured.folder / "ca.pem"),
    }
    pool, began = random_payloads(PAYLOAD_BYTES), time.perf_counter()
    produce(node.bootstrap, Topic("orders", Uuid.ZERO, PARTITIONS), pool, count, "none", security)
    return count / (time.perf_counter() - began)


@contextlib.contextmanager
def flooding(ports: list[int], count: int = CONNECTIONS) -> Iterator[None]:
    """The flood in a process of its own, from when all its connections are open."""
    command = [sys.executable, "-m", "bench.flood", str(count), *map(str, ports)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise BenchError("the flood does not get going")
            yield
        finally:
            process.kill()


class Flood:
    """Opens connections and keeps them busy doing nothing of use."""

    def __init__(self, count: int, ports: list[int]) -> None:
        self._ports = ports
        self._count = count
        self._sockets: list[socket.socket] = []
        self._turn = 0
        self.opened = 0

    def open(self) -> None:
        """Open all of them."""
        self._sockets = [self._open(number) for number in range(self._count)]

    def go_on(self) -> None:
        """Drip on some of them, and open again what was closed."""
        for number in range(self._turn % TURNS_OF_ALL, self._count, TURNS_OF_ALL):
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
                _say(sock, b"\0")
        self._turn += 1

    def close(self) -> None:
        """Have done with it."""
        for sock in self._sockets:
            sock.close()

    def _open(self, number: int) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self._ports[number % len(self._ports)]))
        sock.setblocking(False)
        self.opened += 1
        _say(sock, SAID[number % len(SAID)])
        return sock


def _say(sock: socket.socket, said: bytes) -> None:
    with contextlib.suppress(OSError):  # it may be closed
        sock.send(said)


def main(count: int, ports: list[int]) -> None:
    """Flood until killed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    flood = Flood(count, ports)
    flood.open()
    print(flood.opened, flush=True)
    while True:
        flood.go_on()
        time.sleep(TURN_S)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(port) for port in sys.argv[2:]])
