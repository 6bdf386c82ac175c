"""An HTTP server for tests that does what it is told, also what no server should."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Serve = Callable[[socket.socket, bytes], None]
"""Answers one request, whose bytes are given, on its connection."""


def answering(body: bytes, status: str = "200 OK", headers: str = "") -> Serve:
    """Answer all requests alike."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode()
    return lambda connection, _: connection.sendall(head + body)


def _whole_request(connection: socket.socket) -> bytes:
    """The head of a request and the body it announces, which may come apart; what is not HTTP as it comes."""
    request = b""
    while part := connection.recv(65536):
        request += part
        head, end, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)^content-length: *(\d+)", head, re.MULTILINE)
        if (end and len(body) >= (int(length[1]) if length else 0)) or not request[:1].isalpha():
            break
    return request


@contextmanager
def http_server(serve: Serve) -> Iterator[tuple[str, list[bytes]]]:
    """A server on loopback: its URL, and the requests that have come."""
    requests: list[bytes] = []
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)

        def accept() -> None:
            while not ended.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection: socket.socket) -> None:
            with connection:
                connection.settimeout(10)
                try:
                    request = _whole_request(connection)
                    requests.append(request)
                    serve(connection, request)
                except OSError:
                    pass  # the client has hung up, as it should on some of this

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/keys", requests
        finally:
            ended.set()
            thread.join()
