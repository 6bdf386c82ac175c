"""What does TLS cost: megabytes per broker CPU-second beside a bare loop over OpenSSL, and an ack's latency?

`python -m bench.tls FILE` is the bare loop: it prints its port and does as 4 bytes tell it: `give` 1 MiB, `take` as
much and forget it, or `keep` it: check its CRC and append it to a file, without which nobody is a broker.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.loader import Template
from bench.node import Bench, Node, PreciseNode
from bench.readback import fetch_request
from bench.report import Row, at_least, percentile
from bench.wire import CLIENT_ID, Caller, Topic, receive
from kavka.model.settings import SOCKET_RECEIVE_BUFFER_BYTES, SOCKET_SEND_BUFFER_BYTES
from kavka.protocol.header import encode_request
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured
from kavka.wire.crc32c import crc32c

MIB = 1 << 20
CHUNK_BYTES = 256 * 1024
WANTED_OF_BARE = 80
PRODUCE_VERSION, FETCH_VERSION = 13, 16
ACKS = 300
GIVE, TAKE, KEEP = b"give", b"take", b"keep"


def rows(bench: Bench) -> list[Row]:
    """Fetches and produces of 1 MiB over one connection, in turns with the bare loop; the best of each counts."""
    count = bench.size(1_000, 150)
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as folder:
        secured = Secured(Path(folder))
        context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
        plain, encrypted = free_ports(2)
        config = {
            **secured.tls,
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{encrypted}",
            "log.flush.interval.messages": "9223372036854775807",
        }
        with Cluster(config=config, timeout=120) as cluster, bare(f"{folder}/node.pem") as loop:
            node = PreciseNode(f"127.0.0.1:{encrypted}", cluster.pid)
            with Caller(f"127.0.0.1:{plain}") as caller, connected(node.bootstrap, context) as ours:
                topic = caller.create_topic(1)
                template = Template(topic, 0, [os.urandom(MIB - 1000)], PRODUCE_VERSION, 1)
                with connected(loop.bootstrap, context) as theirs:
                    inward = in_turns(
                        bench,
                        count,
                        (node, producing(ours, template)),
                        (loop, bare_exchange(theirs, TAKE)),
                        (loop, bare_exchange(theirs, KEEP)),
                    )
                    outward = in_turns(bench, count, (node, fetching(ours, topic)), (loop, bare_exchange(theirs, GIVE)))
                small = Template(caller.create_topic(1), 0, [os.urandom(100)], PRODUCE_VERSION, -1)
                took = latencies(producing(ours, small))
    found = []
    for case, (kavka, least, *kept) in (("fetch 1 MiB", outward), ("produce 1 MiB", inward)):
        found.append(Row(case, kavka, "MB / CPU-s", note=f"a bare loop: {least:,.0f}"))
        found.append(Row(f"{case}, of a bare loop", 100 * kavka / least, "%", at_least(WANTED_OF_BARE)))
        found += [
            Row(f"{case}, of one that checks and writes", 100 * kavka / other, "%", at_least(WANTED_OF_BARE))
            for other in kept
        ]
    note = f"p99 {percentile(took, 0.99) * 1e6:,.0f} µs"
    return [*found, Row("100 B, acks=all", percentile(took, 0.5) * 1e6, "µs p50", note=note)]


Work = Callable[[], None]


def in_turns(bench: Bench, count: int, *sides: tuple[Node, Work]) -> list[float]:
    """Megabytes per CPU-second of each side, the best of some turns."""
    best = [0.0] * len(sides)
    for _ in range(max(3, bench.repeats)):
        for index, (node, work) in enumerate(sides):
            work()
            cpu = node.cpu_seconds()
            for _ in range(count):
                work()
            best[index] = max(best[index], count * MIB / 1e6 / max(node.cpu_seconds() - cpu, 0.01))
    return best


def latencies(work: Work) -> list[float]:
    """How long it took, each time."""
    took = []
    for _ in range(ACKS):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return took


@contextlib.contextmanager
def connected(bootstrap: str, context: ssl.SSLContext) -> Iterator[socket.socket]:
    """A connection over TLS."""
    host, _, port = bootstrap.rpartition(":")
    raw = socket.create_connection((host, int(port)), timeout=120)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with context.wrap_socket(raw, server_hostname="localhost") as sock:
        yield sock


def answer(sock: socket.socket) -> None:
    receive(sock, int.from_bytes(receive(sock, 4), "big"))


def producing(sock: socket.socket, template: Template) -> Work:
    """Send a request and wait for its answer."""

    def work() -> None:
        sock.sendall(template.next(1))
        answer(sock)

    return work


def fetching(sock: socket.socket, topic: Topic) -> Work:
    """Fetch the first MiB of a topic."""
    request = encode_request(FETCH_VERSION, 1, CLIENT_ID, fetch_request(topic, 0, 0, MIB))

    def work() -> None:
        sock.sendall(request)
        answer(sock)

    return work


# -- the least that TLS costs -----------------------------------------------------------------


def bare_exchange(sock: socket.socket, what: bytes) -> Work:
    data = os.urandom(MIB)

    def work() -> None:
        sock.sendall(what)
        if what == GIVE:
            receive(sock, MIB)
        else:
            sock.sendall(data)
            receive(sock, 4)

    return work


@contextlib.contextmanager
def bare(certificate: str) -> Iterator[Node]:
    """The bare loop in a process of its own."""
    command = [sys.executable, "-m", "bench.tls", certificate]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield PreciseNode(f"127.0.0.1:{int(process.stdout.readline())}", process.pid)
        finally:
            process.kill()


class Bare:
    """OpenSSL in memory and a blocking socket: what any server in Python pays at least."""

    def __init__(self, context: ssl.SSLContext, sock: socket.socket) -> None:
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._raw = memoryview(bytearray(CHUNK_BYTES))

    def step(self, work: Callable[[], object]) -> object:
        """Do something with OpenSSL, and what it takes of the network."""
        while True:
            try:
                result = work()
            except ssl.SSLWantReadError:
                self.flush()
                count = self._sock.recv_into(self._raw)
                if not count:
                    raise EOFError from None
                self._incoming.write(self._raw[:count])
            else:
                self.flush()
                return result

    def flush(self) -> None:
        if self._outgoing.pending:
            self._sock.sendall(self._outgoing.read())

    def serve(self, file: int) -> None:
        """Give and take megabytes until the other side has gone."""
        self.step(self._tls.do_handshake)
        into = memoryview(bytearray(MIB))
        kept = MIB
        while True:
            what = self._read(into[:4])
            if what == GIVE:
                for position in range(0, MIB, CHUNK_BYTES):
                    os.preadv(file, [self._raw], position)
                    self.step(lambda: self._tls.write(self._raw))
                continue
            self._read(into)
            if what == KEEP:
                crc32c(into)
                os.pwrite(file, into, kept)
                kept += MIB
            self.step(lambda: self._tls.write(b"done"))

    def _read(self, view: memoryview) -> bytes:
        filled = 0
        while filled < len(view):
            count = self.step(lambda: self._tls.read(len(view) - filled, view[filled:]))  # noqa: B023
            assert isinstance(count, int)
            filled += count
        return bytes(view[:4])


def serve(certificate: str) -> None:
    """Serve one connection after the other until killed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with tempfile.TemporaryFile() as file, socket.create_server(("127.0.0.1", 0)) as listener:
        # as a node's sockets are by default, and Kafka's
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_RECEIVE_BUFFER_BYTES.default)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_SEND_BUFFER_BYTES.default)
        file.write(os.urandom(MIB))
        file.flush()
        print(listener.getsockname()[1], flush=True)
        while True:
            sock, _ = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(EOFError, OSError), sock:
                Bare(context, sock).serve(file.fileno())


if __name__ == "__main__":
    serve(sys.argv[1])
