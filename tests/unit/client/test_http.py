"""Requests to servers that hang, drip, redirect or never stop."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from http_server import answering, http_server
from kavka.client.http import MAX_BYTES, HttpError, checked_url, fetch


def test_an_answer_is_read_whole() -> None:
    with http_server(answering(b"x" * 100_000)) as (url, requests):
        assert asyncio.run(fetch(f"{url}?a=b", headers={"X-Test": "1"})) == b"x" * 100_000
        assert requests[0].startswith(b"GET /keys?a=b HTTP/1.1\r\n")
        assert b"X-Test: 1" in requests[0]
        assert asyncio.run(fetch(url, body=b"posted")) == b"x" * 100_000
        assert requests[1].startswith(b"POST /keys HTTP/1.1\r\n")


@pytest.mark.parametrize("status", ["302 Found", "404 Not Found", "500 Oops", "204 No Content"])
def test_anything_but_ok_is_an_error_and_redirects_are_not_followed(status: str) -> None:
    with (
        http_server(answering(b"secret")) as (elsewhere, there),
        http_server(answering(b"", status, f"Location: {elsewhere}\r\n")) as (url, _),
    ):
        with pytest.raises(HttpError, match=f"status {status[:3]}"):
            asyncio.run(fetch(url))
        assert there == []


def hang(connection: socket.socket, _: bytes) -> None:
    connection.recv(1)  # until the client hangs up


def drip(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X: y\r\n")
        time.sleep(0.01)


@pytest.mark.parametrize("serve", [hang, drip])
def test_a_server_that_hangs_or_drips_holds_neither_the_loop_nor_a_thread(serve) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.005)

    async def case(url: str) -> None:
        counting = asyncio.create_task(count())
        with pytest.raises(HttpError):
            await fetch(url, seconds=0.3)
        counting.cancel()

    with http_server(serve) as (url, _):
        asyncio.run(case(url))
        while any(thread.name == "kavka-http" for thread in threading.enumerate()):
            time.sleep(0.01)
    assert turns > 5


def test_an_answer_without_end_is_cut_off() -> None:
    with http_server(answering(b"x" * (MAX_BYTES + 2))) as (url, _), pytest.raises(HttpError, match="more than"):
        asyncio.run(fetch(url))


def test_nobody_there_and_garbage_are_errors() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(HttpError, match="ConnectionRefused"):
        asyncio.run(fetch(f"http://127.0.0.1:{port}/"))
    with (
        http_server(lambda connection, _: connection.sendall(b"garbage\r\n\r\n")) as (url, _),
        pytest.raises(HttpError),
    ):
        asyncio.run(fetch(url))


@pytest.mark.parametrize(
    "url",
    ["", "keys", "file:///etc/passwd", "ftp://host/", "http://example.org/", "https://u:p@example.org/", "https://"],
)
def test_only_some_urls_are_asked(url: str) -> None:
    with pytest.raises(ValueError):
        checked_url(url)


def test_a_certificate_of_nobody_is_not_trusted() -> None:
    with http_server(answering(b"x")) as (url, _), pytest.raises(HttpError, match="SSL"):
        asyncio.run(fetch(url.replace("http:", "https:")))
