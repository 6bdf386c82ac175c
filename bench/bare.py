"""The least a server can do for a fetch of 1 MiB: epoll and sendfile, no Kafka. What the kernel alone costs.

`python -m bench.bare FILE ANSWER_BYTES` prints its port; each request is answered with that much of the file.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from bench.node import Node
from kavka.net.server import NOT_SENT_BYTES

WRITE_BYTES = 14_500  # as a log is written: how a file is written decides how its pages lie in memory
HEAD_BYTES = 60
REQUEST_BYTES = 65_536


@contextlib.contextmanager
def running(file_bytes: int, answer_bytes: int) -> Iterator[Node]:
    """A bare server in a process of its own, over a file that it can send from memory."""
    with tempfile.NamedTemporaryFile(prefix="kavka-bench-") as file:
        for _ in range(file_bytes // WRITE_BYTES + 1):
            os.write(file.fileno(), os.urandom(WRITE_BYTES))
        command = [sys.executable, "-m", "bench.bare", file.name, str(answer_bytes)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield Node(f"127.0.0.1:{int(process.stdout.readline())}", process.pid)
            finally:
                process.kill()


def serve(path: str, answer_bytes: int) -> None:
    """Answer until killed."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    file = os.open(path, os.O_RDONLY)
    steps = os.fstat(file).st_size // answer_bytes
    head = struct.pack(">i", HEAD_BYTES + answer_bytes) + bytes(HEAD_BYTES)
    poller = select.epoll()
    poller.register(listener.fileno(), select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    left: dict[int, tuple[int, int]] = {}
    turn = 0
    while True:
        for fd, _ in poller.poll():
            if fd == listener.fileno():
                client, _ = listener.accept()
                client.setblocking(False)
                # As every Kafka broker does. Without it more of the sending happens on the receiver's CPU time.
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, NOT_SENT_BYTES)
                clients[client.fileno()] = client
                poller.register(client.fileno(), select.EPOLLIN)
                continue
            if fd not in left:
                if not clients[fd].recv(REQUEST_BYTES):
                    poller.unregister(fd)
                    clients.pop(fd).close()
                    continue
                clients[fd].send(head, socket.MSG_MORE)
                left[fd] = turn % steps * answer_bytes, answer_bytes
                turn += 1
            position, length = left.pop(fd)
            try:
                while length:
                    sent = os.sendfile(fd, file, position, length)
                    position, length = position + sent, length - sent
                poller.modify(fd, select.EPOLLIN)
            except BlockingIOError:
                left[fd] = position, length
                poller.modify(fd, select.EPOLLOUT)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
