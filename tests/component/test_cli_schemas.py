"""`kavka produce` and `kavka consume` with a registry, and what Confluent's serializers make of it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.cli.commands import run
from kavka.client import blocking
from kavka.testing import Cluster

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
JSON = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})
PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; Line line = 2; google.protobuf.Timestamp at = 3; message Line { string item = 1; } }
message Other { string name = 1; }
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(config={"kavka.registry.listener": "127.0.0.1:0"}) as running:
        yield running


def kavka(node: Cluster, *arguments: str, given: str = "", registry: str | None = None) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "kavka", "--bootstrap", node.bootstrap, *arguments]
    url = node.registry if registry is None else registry
    done = subprocess.run(
        [*command, "--registry", url], input=given, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def topic(node: Cluster, name: str) -> str:
    with blocking.Client(node.bootstrap) as client:
        client.admin.create_topic(name)
    return name


@pytest.mark.parametrize(
    ("file", "text", "given", "shown"),
    [
        ("order.avsc", AVRO, '{"id": 7}', '{"id": 7}'),
        ("order.json", JSON, '{"id": 7}', '{"id": 7}'),
        (
            "order.proto",
            PROTO,
            '{"id": 7, "line": {"item": "x"}, "at": "2026-01-02T03:04:05Z"}',
            '{"id": "7", "line": {"item": "x"}, "at": "2026-01-02T03:04:05Z"}',
        ),
    ],
)
def test_json_is_written_by_a_schema_and_shown_by_it(
    node: Cluster, tmp_path: Path, file: str, text: str, given: str, shown: str
) -> None:
    name = topic(node, f"cli-{file.replace('.', '-')}")
    (tmp_path / file).write_text(text)
    assert kavka(node, "produce", name, "--value-schema", str(tmp_path / file), given=f"{given}\n") == (0, "", "")
    line = json.dumps({"key": "k", "value": json.loads(given)})
    assert kavka(node, "produce", name, "--value-schema", "latest", "--json", given=line) == (0, "", "")
    assert kavka(node, "consume", name) == (0, f"{shown}\n{shown}\n", "")
    code, out, _ = kavka(node, "consume", name, "--from", "1", "--output", "json")
    assert (code, json.loads(out)["key"], json.loads(out)["value"]) == (0, "k", json.loads(shown))
    assert kavka(node, "consume", name, "--value", "nothing like it") == (0, "", "")


def test_confluents_serializers_and_the_commands_understand_each_other(node: Cluster, tmp_path: Path) -> None:
    context = SerializationContext(topic(node, "both"), MessageField.VALUE)
    (tmp_path / "order").write_text(AVRO)
    file = str(tmp_path / "order")
    assert kavka(node, "produce", "both", "--value-schema", file, "--format", "avro", given='{"id": 1}\n')[0] == 0
    other = SerializationContext(topic(node, "both-json"), MessageField.VALUE)
    with SchemaRegistryClient({"url": node.registry}) as theirs, blocking.Client(node.bootstrap) as client:
        with client.producer() as producer:
            producer.send("both", AvroSerializer(theirs, AVRO)({"id": 2}, context))
            producer.send("both", b"bare")
            producer.send("both-json", JSONSerializer(JSON, theirs)({"id": 3}, other))
        assert kavka(node, "produce", "both-json", "--value-schema", "latest", given='{"id": 4}\n')[0] == 0
        with client.consumer("both") as consumer:
            first = next(iter(consumer.until_end()))
        assert AvroDeserializer(theirs)(first.value, context) == {"id": 1}
        with client.consumer("both-json") as consumer:
            *_, last = consumer.until_end()
        assert JSONDeserializer(JSON, schema_registry_client=theirs)(last.value, other) == {"id": 4}
    assert kavka(node, "consume", "both")[1] == '{"id": 1}\n{"id": 2}\nbare\n'
    assert kavka(node, "consume", "both-json", "--group", "g")[1] == '{"id": 3}\n{"id": 4}\n'


def test_keys_are_written_by_a_schema_of_their_own(node: Cluster, tmp_path: Path) -> None:
    name = topic(node, "cli-keys")
    (tmp_path / "key.avsc").write_text('"long"')
    (tmp_path / "value.proto").write_text(PROTO)
    files = ["--key-schema", str(tmp_path / "key.avsc"), "--value-schema", str(tmp_path / "value.proto")]
    assert kavka(node, "produce", name, *files, "-k", "=", given='7={"id": 1}\n') == (0, "", "")
    line = json.dumps({"key": 8, "value": "as it is"})
    assert kavka(node, "produce", name, "--key-schema", "latest", "--json", given=line) == (0, "", "")
    assert kavka(node, "produce", name, "--key-schema", "latest", "--key", "9", "--tombstone") == (0, "", "")
    with SchemaRegistryClient({"url": node.registry}) as theirs, blocking.Client(node.bootstrap) as client:
        with client.consumer(name) as consumer:
            records = list(consumer.until_end())
        read, context = AvroDeserializer(theirs), SerializationContext(name, MessageField.KEY)
        assert [read(record.key, context) for record in records] == [7, 8, 9]
        assert [record.value for record in records][1:] == [b"as it is", None]
        assert theirs.get_latest_version(f"{name}-key").schema.schema_type == "AVRO"
    assert kavka(node, "consume", name, "--format", "%k\\n")[1] == "7\n8\n9\n"


def test_a_message_of_a_protobuf_file_is_chosen(node: Cluster, tmp_path: Path) -> None:
    name = topic(node, "chosen")
    (tmp_path / "o.proto").write_text(PROTO)
    arguments = ["produce", name, "--value-schema", str(tmp_path / "o.proto")]
    assert kavka(node, *arguments, "--message", "shop.Other", given='{"name": "a"}\n') == (0, "", "")
    assert kavka(node, *arguments, "--message", "Order.Line", given='{"item": "b"}\n') == (0, "", "")
    assert kavka(node, "consume", name)[1] == '{"name": "a"}\n{"item": "b"}\n'
    code, _, err = kavka(node, *arguments, "--message", "None", given="{}\n")
    assert code == 1
    assert "has no message 'None'; it has Order, Order.Line, Other" in err


@pytest.mark.parametrize(
    ("arguments", "given", "message", "code"),
    [
        (["produce", "t", "--value-schema", "latest"], "{}", "t-value has no schema yet", 1),
        (["produce", "t", "--value-schema", "nowhere.avsc"], "{}", "nowhere.avsc: No such file", 1),
        (["produce", "t", "--value-schema", "nowhere"], "{}", "say by --format", 2),
        (["produce", "t", "--format", "avro"], "{}", "it needs --value-schema", 2),
        (["produce", "t", "--value-schema", "latest", "--count", "3"], "", "exclude each other", 2),
        (["produce", "t", "--key-schema", "latest", "--count", "3"], "", "exclude each other", 2),
        (["produce", "t", "--key-schema", "latest", "--message", "M"], "{}", "it needs --value-schema", 2),
        (["produce", "t", "--key-schema", "latest"], "{}", "--key-schema: t-key has no schema yet", 1),
        (
            ["produce", "t", "--key-schema", "GOOD", "--key", "x"],
            "{}",
            "the key of record 1 does not fit the schema",
            1,
        ),
        (["produce", "t", "--value-schema", "BAD"], "{}", "Invalid schema", 1),
        (["produce", "t", "--value-schema", "GOOD"], "nothing", "record 1 does not fit the schema", 1),
        (["produce", "t", "--value-schema", "GOOD"], '{"id": "x"}', "$.id: long was expected, not 'x'", 1),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    node: Cluster, tmp_path: Path, arguments: list[str], given: str, message: str, code: int
) -> None:
    (tmp_path / "bad.avsc").write_text('{"type": "record"}')
    (tmp_path / "good.avsc").write_text(AVRO)
    files = {"BAD": str(tmp_path / "bad.avsc"), "GOOD": str(tmp_path / "good.avsc")}
    found, out, err = kavka(node, *(files.get(each, each) for each in arguments), given=given)
    assert (found, out) == (code, "")
    assert message in err
    assert len(io.StringIO(err).readlines()) == 1


def test_a_registry_that_is_none_is_said_in_a_line(node: Cluster) -> None:
    name = topic(node, "unreachable")
    with blocking.Client(node.bootstrap) as client, client.producer() as producer:
        producer.send(name, b"\0\0\0\0\1x")
    for url, message in (
        ("http://127.0.0.1:1", "cannot be reached (http://127.0.0.1:1: Connection refused)"),
        ("127.0.0.1:1", "the URL of a schema registry is http://HOST:PORT"),
        (f"{node.registry}/elsewhere", "the schema registry's URL leads nowhere"),
    ):
        code, out, err = kavka(node, "consume", name, registry=url)
        assert (code in (1, 2), out, len(err.splitlines())) == (True, "", 1)
        assert message in err
    assert kavka(node, "consume", name, registry="off") == (0, "\0\0\0\0\1x\n", "")
    assert "it needs --registry URL" in kavka(node, "produce", name, "--value-schema", "latest", registry="off")[2]


def test_a_profile_or_a_client_properties_names_the_registry(
    node: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    name = topic(node, "named")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KAVKA_BOOTSTRAP", raising=False)
    (tmp_path / "o.avsc").write_text(AVRO)
    assert kavka(node, "produce", name, "--value-schema", str(tmp_path / "o.avsc"), given='{"id": 1}\n')[0] == 0
    assert run(["profile", "set", "one", "--bootstrap", node.bootstrap, "--registry", node.registry]) == 0
    assert run(["profile", "set", "bare", "--bootstrap", node.bootstrap]) == 0
    properties = tmp_path / "client.properties"
    properties.write_text(f"schema.registry.url={node.registry}\nbasic.auth.user.info=ada:pw\n")
    for arguments, shown in (
        (["consume", name], b'{"id": 1}\n'),
        (["--profile", "bare", "consume", name], b"\0\0\0\0"),
        (["--profile", "bare", "--config", str(properties), "consume", name], b'{"id": 1}\n'),
        (["consume", name, "--registry", "off"], b"\0\0\0\0"),
    ):
        capfdbinary.readouterr()
        assert run(arguments) == 0
        assert capfdbinary.readouterr().out.startswith(shown)
    assert "KAVKA_REGISTRY_URL" not in os.environ
