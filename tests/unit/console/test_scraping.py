"""Asking a node for its page of metrics."""

from __future__ import annotations

import socket
import threading

import pytest

from kavka.console.scraping import get, samples


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


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "."),
        (b"\0\0\0\7", "does not speak HTTP"),
        (b"HTTP/1.0 200 OK\r\n\r\n<html></html>", "no page of metrics"),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "no page of metrics"),
    ],
)
def test_who_shows_no_metrics_is_an_error_in_words(said: bytes, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as page:

        def answer() -> None:
            asked, _ = page.accept()
            with asked:
                asked.recv(4096)
                asked.sendall(said)

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        with pytest.raises(OSError, match=why) as caught:
            samples(f"127.0.0.1:{page.getsockname()[1]}", 10.0)
        assert "<" not in str(caught.value)
        answering.join(10)


def test_where_nobody_listens_the_error_says_that() -> None:
    with pytest.raises(OSError, match=r"^Connection refused$"):
        samples("127.0.0.1:1", 10.0)
