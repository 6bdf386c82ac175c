"""Asking a node for its page of metrics."""

from __future__ import annotations

import socket
import threading

import pytest

from kavka.console.scraping import get


def test_a_node_is_asked_itself_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as page:

        def answer() -> None:
            asked, _ = page.accept()
            with asked:
                asked.recv(4096)
                asked.sendall(b"HTTP/1.0 200 OK\r\n\r\nok 1\n")

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        assert get(f"127.0.0.1:{page.getsockname()[1]}", "/metrics", 10.0) == (200, "ok 1\n")
        answering.join(10)
