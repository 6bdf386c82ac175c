"""Whatever comes over HTTP is answered, and never with a failure of the node."""

from __future__ import annotations

import errno
import http.client
import json
import random
import socket
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest
from tests.scale import rounds

from kavka.testing import Cluster

ROUNDS = rounds(20_000, 1_000)
PATHS = (
    "", "subjects", "subjects/{}", "subjects/{}/versions", "subjects/{}/versions/{}", "subjects/{}/versions/{}/schema",
    "subjects/{}/versions/{}/referencedby", "subjects/{}/metadata", "schemas", "schemas/ids/{}",
    "schemas/ids/{}/versions",
    "schemas/guids/{}", "schemas/types", "config", "config/{}", "mode", "mode/{}", "contexts",
    "compatibility/subjects/{}/versions", "compatibility/subjects/{}/versions/{}", "v1/metadata/id", "{}", "{}/{}/{}",
)  # fmt: skip
STEPS = (
    "s",
    "t",
    "1",
    "2",
    "latest",
    "-1",
    "0",
    "9" * 30,
    ":.c:s",
    ":.c:",
    "é",
    "%",
    "..",
    "a/b",
    " ",
    "\0",
    "x" * 2000,
)
SCHEMAS = (
    '"int"', '{"type":"record","name":"R","fields":[]}', "{", "", "null", "[" * 2000,
    '{"type":"object"}', '{"$ref":"#"}',
    '{"$ref":"#/a/b"}', 'syntax = "proto3"; message M { int32 x = 1; }', "message M {", "CgF4", '"\\ud800"', "1e999",
    '{"type":"object","properties":{"a":{"type":"integer"}}}',
    '{"type":"record","name":"R","fields":[{"name":"x","type":"R"}]}',
)  # fmt: skip
WORDS = ("schema", "schemaType", "references", "metadata", "ruleSet", "version", "id", "compatibility", "mode", "alias")


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(config={"kavka.registry.listener": "127.0.0.1:0"}) as running:
        yield running


def value(rng: random.Random, depth: int = 0) -> Any:
    """A value of JSON, and some that are none."""
    if depth < 3 and rng.random() < 0.3:
        many = range(rng.randrange(4))
        if rng.random() < 0.5:
            return [value(rng, depth + 1) for _ in many]
        return {rng.choice((*WORDS, "properties", "name", "subject")): value(rng, depth + 1) for _ in many}
    return rng.choice(
        (None, True, 0, 1, -1, 2**31, 10**40, 1.5, float("nan"), float("inf"), "", "s", "AVRO", "NONE", "\ud800")
    )


def body(rng: random.Random) -> bytes | None:
    kind = rng.randrange(5)
    if kind == 0:
        return None
    if kind == 1:
        return rng.randbytes(rng.randrange(200))
    if kind == 2:
        return json.dumps(value(rng)).encode()
    said = {"schema": rng.choice(SCHEMAS), "schemaType": rng.choice(("AVRO", "JSON", "PROTOBUF", "XML"))}
    if kind == 3:
        said |= {rng.choice(WORDS): value(rng)}
    return json.dumps(said).encode()


def test_no_request_is_a_failure_of_the_node(node: Cluster) -> None:
    rng = random.Random(21)
    host, _, port = node.registry.rpartition("//")[2].rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    seen: dict[int, int] = {}
    for number in range(ROUNDS):
        path = rng.choice(PATHS)
        while "{}" in path:
            path = path.replace("{}", quote(rng.choice(STEPS), safe=""), 1)
        if rng.random() < 0.2:
            path = f"contexts/{quote(rng.choice(STEPS), safe='')}/{path}"
        query = rng.choice(
            ("", "?deleted=true", "?permanent=true", "?limit=x", "?offset=-1", "?format=resolved", "?=&&%ff")
        )
        method = rng.choice(("GET", "GET", "POST", "POST", "PUT", "DELETE", "HEAD", "PATCH"))
        connection.request(method, f"/{path}{query}", body(rng))
        response = connection.getresponse()
        said = response.read()
        seen[response.status] = seen.get(response.status, 0) + 1
        assert response.status < 500, (number, method, path, query, said)
        if method != "HEAD":
            json.loads(said)
    connection.close()
    assert {200, 404, 405, 422, 400} <= seen.keys()
    assert "Traceback" not in node.log


HUNG_UP: Final = (errno.ENOTCONN, errno.ECONNRESET, errno.EPIPE)


@pytest.mark.parametrize(
    "sent",
    [
        b"\0" * 100,
        b"GET / HTTX\r\n\r\n",
        b"GET /" + b"x" * 100_000,
        b"POST /subjects HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /subjects HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /subjects HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 100,
    ],
)
def test_what_is_no_http_is_told_so_or_hung_up_on(node: Cluster, sent: bytes) -> None:
    host, _, port = node.registry.rpartition("//")[2].rpartition(":")
    told = b""
    with socket.create_connection((host, int(port)), 60) as sock:
        try:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            told = sock.recv(1000)
        except OSError as error:
            if error.errno not in HUNG_UP:
                raise
    assert told == b"" or told.startswith(b"HTTP/1.1 4")
    assert "Traceback" not in node.log


def test_a_client_that_leaves_amid_a_request_leaves_nothing_behind(node: Cluster) -> None:
    host, _, port = node.registry.rpartition("//")[2].rpartition(":")
    for _ in range(50):
        with socket.create_connection((host, int(port)), 60) as sock:
            sock.sendall(b"POST /subjects/s/versions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", "/schemas/types")
    assert json.loads(connection.getresponse().read()) == ["JSON", "PROTOBUF", "AVRO"]
    connection.close()
    assert "Traceback" not in node.log
