"""The registry's client, against servers that answer, err, hang and go away."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from http_server import answering, http_server
from kavka.client.registry import (
    IncompatibleSchema,
    Reference,
    RegistryUnreachable,
    Schema,
    SchemaNotFound,
    SchemaRegistry,
    SchemaRegistryError,
)
from kavka.client.registry.blocking import SchemaRegistry as Blocking
from kavka.client.registry.http import MAX_BYTES, Session, addresses_of
from kavka.client.registry.ways import now
from kavka.model.settings import SettingError
from kavka.testing.authority import Authority

STRING = Schema('"string"')
KEYS = "/keys"  # where the test server's URL points


def base(url: str) -> str:
    return url.removesuffix(KEYS)


class Kept(ThreadingHTTPServer):
    """A server that keeps connections, and counts them."""

    daemon_threads = True

    def __init__(self) -> None:
        self.connections = 0
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), Answers)

    def process_request(self, request, client_address) -> None:
        self.connections += 1
        super().process_request(request, client_address)


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Kept

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.paths.append(f"{self.command} {self.path}")
        self.server.headers.append(dict(self.headers))
        status, said = self.said()
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def said(self) -> tuple[int, object]:
        path = self.path.partition("?")[0]
        if path.startswith("/schemas/ids/"):
            number = int(path.rsplit("/", 1)[1])
            if number > 100:
                return 404, {"error_code": 40403, "message": f"Schema {number}\nnot found"}
            return 200, {"schema": f'"{number}"'}
        if self.command == "POST" and path == "/subjects/bad/versions":
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
        if self.command == "POST":
            return 200, {"id": 7, "version": 1, "guid": "g"}
        if path.endswith("/latest"):
            return 200, {"subject": "s", "version": 2, "id": 8, "schema": '"long"'}
        return 200, []

    do_GET = do_POST = do_DELETE = do_PUT = answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def server() -> Iterator[Kept]:
    with Kept() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def url_of(server: Kept) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_what_was_asked_once_is_not_asked_again_and_one_connection_does(server: Kept) -> None:
    async def case() -> None:
        async with SchemaRegistry(url_of(server)) as registry:
            found = await asyncio.gather(*(registry.schema(5) for _ in range(20)), registry.schema(6))
            assert found[0] == Schema('"5"')
            assert found[-1] == Schema('"6"')
            first = await registry.register("a/b-value", STRING, normalize=True)
            assert await registry.register("a/b-value", STRING, normalize=True) is first
            assert (first.id, first.version, first.guid) == (7, 1, "g")
            assert (await registry.latest("s")).id == 8
            assert (await registry.latest("s")).id == 8

    asyncio.run(case())
    assert server.paths == [
        "GET /schemas/ids/5",
        "GET /schemas/ids/6",
        "POST /subjects/a%2Fb-value/versions?normalize=true",
        "GET /subjects/s/versions/latest",
    ]
    assert server.connections == 1


def test_the_latest_version_is_asked_for_again_after_its_time(server: Kept) -> None:
    with Blocking(url_of(server), latest_ttl_ms=0) as registry:
        assert registry.latest("s").version == registry.latest("s").version == 2
    assert len(server.paths) == 2


def test_no_more_is_remembered_than_was_allowed(server: Kept) -> None:
    with Blocking(url_of(server), cached=10) as registry:
        for number in range(50):
            registry.schema(number)
        registry.schema(49)
        registry.schema(0)
    assert len(server.paths) == 51


def test_an_unknown_id_is_one_line_and_not_asked_for_per_record(server: Kept) -> None:
    with Blocking(url_of(server)) as registry:
        for _ in range(3):
            with pytest.raises(SchemaNotFound) as error:
                registry.schema(404)
            assert error.value.code == 40403
            assert "\n" not in str(error.value)
    assert len(server.paths) == 1


def test_the_registrys_refusal_is_an_error_of_its_kind(server: Kept) -> None:
    with Blocking(url_of(server)) as registry, pytest.raises(IncompatibleSchema, match="incompatible") as error:
        registry.register("bad", STRING)
    assert error.value.status == 409


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"auth": ("ada", "p:w")}, "Basic YWRhOnA6dw=="),
        ({"token": "t0ken"}, "Bearer t0ken"),
        ({}, None),
    ],
)
def test_who_asks_is_said_in_a_header(server: Kept, options: dict, expected: str | None) -> None:
    with Blocking(url_of(server), **options) as registry:
        registry.subjects()
    assert server.headers[0].get("Authorization") == expected


def test_a_password_in_the_url_is_used_and_never_shown(server: Kept) -> None:
    with Blocking(url_of(server).replace("//", "//ada:s3cret@")) as registry:
        registry.subjects()
    assert server.headers[0]["Authorization"].startswith("Basic ")
    with Blocking("http://ada:s3cret@127.0.0.1:1") as registry, pytest.raises(RegistryUnreachable) as error:
        registry.subjects()
    assert "s3cret" not in str(error.value)
    assert "http://127.0.0.1:1: Connection refused" in str(error.value)


def test_an_address_that_is_down_is_passed_over(server: Kept) -> None:
    async def case() -> None:
        async with SchemaRegistry(["http://127.0.0.1:1", url_of(server)]) as registry:
            assert (await registry.schema(1)).text == '"1"'
            assert (await registry.schema(2)).text == '"2"'

    asyncio.run(case())
    assert server.connections == 1


def test_a_node_that_fails_is_passed_over_and_a_refusal_is_not(server: Kept) -> None:
    oops = answering(b'{"error_code": 50001, "message": "no"}', "500 Oops")
    with http_server(oops) as (failing, asked), Blocking([base(failing), url_of(server)]) as registry:
        assert registry.schema(1).text == '"1"'
        with pytest.raises(SchemaNotFound):
            registry.schema(500)
    assert len(asked) == 1
    assert len(server.paths) == 2


def test_a_connection_that_was_closed_meanwhile_is_opened_again() -> None:
    # the test server closes each connection after its answer, without having said so
    with http_server(answering(b'{"schema": "s"}')) as (url, requests), Blocking(base(url)) as registry:
        for number in range(3):
            assert registry.schema(number).text == "s"
    assert len(requests) == 3


def hang(connection: socket.socket, _: bytes) -> None:
    connection.recv(1)


def drip(connection: socket.socket, _: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X: y\r\n")
        time.sleep(0.01)


@pytest.mark.parametrize("serve", [hang, drip])
def test_a_server_that_does_not_answer_is_given_up_and_holds_nobody(serve) -> None:
    async def case(url: str) -> None:
        registry = SchemaRegistry(url, timeout_ms=200)
        began = time.monotonic()
        outcomes = await asyncio.gather(*(registry.schema(n) for n in range(5)), return_exceptions=True)
        assert time.monotonic() - began < 5
        assert all(isinstance(each, RegistryUnreachable) for each in outcomes)
        assert "within 0.2 s" in str(outcomes[0])

    with http_server(serve) as (url, _):
        asyncio.run(case(base(url)))
        with Blocking(base(url), timeout_ms=200) as registry:
            for _ in range(2):
                with pytest.raises(RegistryUnreachable, match=r"within 0\.2 s"):
                    registry.schema(1)


def test_who_is_cancelled_leaves_the_registry_usable(server: Kept) -> None:
    async def case(url: str) -> None:
        registry = SchemaRegistry([url], timeout_ms=60_000)
        task = asyncio.ensure_future(registry.schema(1))
        while not asked:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await registry.schema(1)

    with http_server(hang) as (url, asked):
        asyncio.run(case(base(url)))
        assert len(asked) == 2


@pytest.mark.parametrize(
    ("serve", "message"),
    [
        (answering(b"<html>hello</html>"), "is no schema registry"),
        (answering(b"", "302 Found", "Location: http://elsewhere\r\n"), "status 302 is no schema registry"),
        (answering(b"", "401 Unauthorized"), "name and password"),
        (answering(b"[1]"), "cannot be read"),
        (answering(b'{"schema": "x", "schemaType": "XML"}'), "'XML' are not known"),
        (answering(b'"' + b"x" * MAX_BYTES + b'"'), "more than"),
        (answering(b"busy", "503 Later"), "try again later"),
    ],
)
def test_answers_that_mean_nothing_are_errors(serve, message: str) -> None:
    with (
        http_server(serve) as (url, _),
        Blocking(base(url)) as registry,
        pytest.raises(SchemaRegistryError, match=message),
    ):
        registry.schema(1)


def test_https_with_kafkas_settings(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "server.pem").write_text(authority.issue("localhost").pem)
    (tmp_path / "ca.pem").write_text(authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    with Kept() as running:
        running.socket = context.wrap_socket(running.socket, server_side=True)
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        url = f"https://localhost:{running.server_address[1]}"
        properties = {
            "schema.registry.url": url,
            "schema.registry.ssl.truststore.type": "PEM",
            "schema.registry.ssl.truststore.location": str(tmp_path / "ca.pem"),
            "basic.auth.user.info": "ada:pw",
        }
        with Blocking.of(properties) as registry:
            assert registry.schema(3).text == '"3"'
        assert "Authorization" in running.headers[0]
        with Blocking(url) as registry, pytest.raises(RegistryUnreachable, match="certificate verify failed"):
            registry.schema(3)
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("url", ["", "localhost:8081", "ftp://x", "http://", "http://a:99999", "http://a/?q"])
def test_what_is_no_url_is_said_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        SchemaRegistry(url)


def test_properties_that_cannot_be_honoured_are_said_at_once() -> None:
    with pytest.raises(SettingError, match=r"schema\.registry\.url"):
        SchemaRegistry.of({})
    with pytest.raises(SettingError, match="SASL_INHERIT"):
        SchemaRegistry.of({"schema.registry.url": "http://a", "basic.auth.credentials.source": "SASL_INHERIT"})
    with pytest.raises(SettingError, match="NAME:PASSWORD") as error:
        SchemaRegistry.of({"schema.registry.url": "http://a", "basic.auth.user.info": "s3cret"})
    assert "s3cret" not in str(error.value)


def test_a_schema_says_what_it_is_and_what_it_builds_on() -> None:
    schema = Schema("{}", "JSON", (Reference("a.json", "a", 3),))
    assert Schema.read(schema.written()) == schema
    assert schema.written()["schemaType"] == "JSON"
    assert STRING.written() == {"schema": '"string"'}


def test_every_coroutine_has_a_blocking_face() -> None:
    members = inspect.getmembers(SchemaRegistry, inspect.iscoroutinefunction)
    names = {name for name, _ in members if not name.startswith("_")}
    assert len(names) > 10
    assert names <= set(dir(Blocking))


def test_a_coroutine_that_needs_a_loop_is_refused_without_one() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        now(asyncio.sleep(0))


def test_a_token_is_never_quoted() -> None:
    assert addresses_of("http://h:1", None, " s3cret\n")[0].headers["Authorization"] == "Bearer s3cret"
    for token in ("s3\ncret", "s3\x00cret", "s3\u2026cret", " "):
        with pytest.raises(ValueError, match="the bearer token") as told:
            Blocking("http://127.0.0.1:1", token=token)
        assert "s3" not in str(told.value)


def test_what_others_say_of_headers_is_not_passed_on() -> None:
    with Kept() as server:
        (address,) = addresses_of(f"http://127.0.0.1:{server.server_port}", None, None)
        address.headers["Authorization"] = "Bearer s3\ncret"
        with pytest.raises(RegistryUnreachable, match="ValueError") as told:
            Session((address,), None, 5).ask("GET", "subjects")
    assert "s3" not in str(told.value)
