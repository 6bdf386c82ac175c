"""Values by the schemas that a registry has, where what it has is of no use."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from kavka.client.registry import SchemaRegistryError
from kavka.spark.registry.access import opened
from kavka.spark.registry.reading import registry_decoder

AVRO = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}
GONE = {"error_code": 40402, "message": "Version 1 not found."}
REFERENCE = {"name": "E", "subject": "e", "version": 1}


@pytest.fixture
def served() -> Iterator[Callable[[dict[str, Any]], str]]:
    """A registry that gives these answers by what paths begin with, and has nothing else."""
    answers: dict[str, Any] = {}

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found: dict[str, Any] = next((each for path, each in answers.items() if self.path.startswith(path)), GONE)
            body = json.dumps(found).encode()
            self.send_response(found.get("error_code", 20000) // 100)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *said: Any) -> None:
            assert said

    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def start(given: dict[str, Any]) -> str:
        answers.update(given)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    opened((("schema.registry.url", start({})),)).close()
    server.shutdown()
    thread.join()
    server.server_close()


def protobuf() -> str:
    file = descriptor_pb2.FileDescriptorProto(name="r.proto", syntax="proto3")
    file.message_type.add(name="R").field.add(name="x", number=1, type=5, label=1)
    return base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()


@pytest.mark.parametrize(
    ("form", "answer", "reason"),
    [
        ("avro", {"schema": json.dumps(AVRO), "references": [REFERENCE]}, "refers to one that the registry does not"),
        ("avro", {"schema": '{"type": "record", "name": "R", "fields": 1}'}, "cannot be read"),
        ("avro", {"schema": '{"type": "fixed", "name": "R"}'}, "cannot be read"),
        ("avro", {"schema": '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "E"}]}'}, "cannot be"),
        ("avro", {"schema": "{"}, "cannot be read"),
        ("avro", {"schema": "[[1]]"}, "cannot be read"),
        ("protobuf", {"schema": "////", "schemaType": "PROTOBUF"}, "cannot be read: it is no file descriptor"),
        ("protobuf", {"schema": "A", "schemaType": "PROTOBUF"}, "cannot be read"),
        (
            "protobuf",
            {"schema": "", "schemaType": "PROTOBUF", "references": [REFERENCE]},
            "refers to one that the registry does not have",
        ),
    ],
)
def test_a_schema_of_no_use_makes_a_bad_record(
    served: Callable[[dict[str, Any]], str], form: str, answer: dict[str, Any], reason: str
) -> None:
    access = (("schema.registry.url", served({"/schemas/ids/7": answer})),)
    schema = json.dumps(AVRO) if form == "avro" else protobuf()
    rows, bad = registry_decoder(access, form, schema, None, None).decode([b"\0\0\0\0\7\0\2", None])
    assert rows.to_pylist() == [None, None]
    assert [row for row, _ in bad] == [0]
    assert reason in bad[0][1]


def test_a_reference_that_is_not_to_be_had_now_fails_the_task(served: Callable[[dict[str, Any]], str]) -> None:
    answers = {
        "/schemas/ids/7": {"schema": json.dumps(AVRO), "references": [REFERENCE]},
        "/subjects/e": {"error_code": 50001, "message": "the store is away"},
    }
    decoder = registry_decoder((("schema.registry.url", served(answers)),), "avro", json.dumps(AVRO), None, None)
    with pytest.raises(SchemaRegistryError, match="the store is away"):
        decoder.decode([b"\0\0\0\0\7\2"])
