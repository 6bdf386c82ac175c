"""The registry of a running node, with Confluent's client and serializers."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client.registry import Schema as ClientSchema
from kavka.client.registry.blocking import SchemaRegistry
from kavka.testing import Cluster

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import (
        Metadata,
        MetadataProperties,
        MetadataTags,
        Schema,
        SchemaReference,
        SchemaRegistryClient,
    )
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.error import SchemaRegistryError
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(config={"kavka.registry.listener": "127.0.0.1:0"}) as running:
        yield running


@pytest.fixture
def registry(node: Cluster) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.registry}) as client:
        yield client


def avro(schema: Any, **more: Any) -> Schema:
    return Schema(json.dumps(schema), "AVRO", **more)


def test_a_schema_is_registered_found_and_deleted(registry: SchemaRegistryClient) -> None:
    id_ = registry.register_schema("found-value", avro(ORDER))
    assert registry.get_schema(id_).schema_str == json.dumps(ORDER, separators=(",", ":"))
    assert registry.lookup_schema("found-value", avro(ORDER)).version == 1
    assert registry.get_latest_version("found-value").schema_id == id_
    assert "found-value" in registry.get_subjects()
    assert registry.delete_subject("found-value") == [1]
    assert registry.delete_subject("found-value", permanent=True) == [1]
    with pytest.raises(SchemaRegistryError) as error:
        registry.get_version("found-value", 1)
    assert error.value.error_code == 40401


def test_what_is_not_compatible_is_refused(registry: SchemaRegistryClient) -> None:
    registry.register_schema("strict-value", avro(ORDER))
    other = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
    assert not registry.test_compatibility("strict-value", avro(other))
    with pytest.raises(SchemaRegistryError) as error:
        registry.register_schema("strict-value", avro(other))
    assert error.value.http_status_code == 409
    registry.set_compatibility("strict-value", "NONE")
    assert registry.get_compatibility("strict-value") == "NONE"
    assert registry.register_schema("strict-value", avro(other)) > 0


def test_schemas_refer_to_others(registry: SchemaRegistryClient) -> None:
    registry.register_schema("address", avro({"type": "record", "name": "Address", "fields": []}))
    reference = SchemaReference("Address", "address", 1)
    person = {"type": "record", "name": "Person", "fields": [{"name": "home", "type": "Address"}]}
    id_ = registry.register_schema("person-value", avro(person, references=[reference]))
    assert registry.get_schema(id_).references == [reference]
    with pytest.raises(SchemaRegistryError) as error:
        registry.delete_subject("address")
    assert error.value.error_code == 42206


def test_a_version_is_found_by_all_of_its_metadata(node: Cluster, registry: SchemaRegistryClient) -> None:
    for name in ("gold", "tin"):
        properties = MetadataProperties({"owner": "shop", "tier": name})
        schema = avro({**ORDER, "doc": name}, metadata=Metadata(MetadataTags({}), properties, []))
        registry.register_schema("of-tiers", schema)
    wanted = {"owner": "shop", "tier": "gold"}
    assert registry.get_latest_with_metadata("of-tiers", wanted).version == 1
    assert registry.get_latest_with_metadata("of-tiers", {"owner": "shop"}).version == 2
    with pytest.raises(SchemaRegistryError) as error:
        registry.get_latest_with_metadata("none", wanted)
    assert error.value.error_code == 40401


def test_a_registry_says_which_cluster_it_is_of(node: Cluster) -> None:
    with urllib.request.urlopen(f"{node.registry}/v1/metadata/id", timeout=30) as response:
        clusters = json.load(response)["scope"]["clusters"]
    assert clusters == {"kafka-cluster": node.cluster_id, "schema-registry-cluster": "schema-registry"}


def test_a_schema_comes_in_the_form_that_is_asked_for(node: Cluster) -> None:
    text = 'syntax = "proto3"; message M { string a = 1; }'
    with SchemaRegistry(node.registry) as ours:
        ours.register("in-forms", ClientSchema(text, "PROTOBUF"))

    def asked(path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(f"{node.registry}{path}", body)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    sent = json.dumps({"schema": text, "schemaType": "PROTOBUF"}).encode()
    form, version = "format=serialized", "/subjects/in-forms/versions/1"
    said = asked(f"{version}?{form}")["schema"]
    assert "syntax" not in said
    assert asked(f"{version}/schema?{form}") == asked(f"/subjects/in-forms?{form}", sent)["schema"] == said
    assert asked(f"/subjects/in-forms?{form}", sent)["id"] == asked(version)["id"]


def test_any_subject_can_be_tried_and_any_head_asked_for(node: Cluster, registry: SchemaRegistryClient) -> None:
    assert registry.test_compatibility("never-there", avro(ORDER))
    for path in ("/subjects", "/", "/v1/metadata/id"):
        request = urllib.request.Request(f"{node.registry}{path}", method="HEAD")
        with urllib.request.urlopen(request, timeout=30) as response:
            assert (response.status, response.read()) == (200, b"")


def test_records_in_avro_and_back(registry: SchemaRegistryClient) -> None:
    context = SerializationContext("typed", MessageField.VALUE)
    written = AvroSerializer(registry, json.dumps(ORDER))({"id": 7}, context)
    assert AvroDeserializer(registry)(written, context) == {"id": 7}


def test_records_in_json_and_back(registry: SchemaRegistryClient) -> None:
    schema = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})
    context = SerializationContext("typed-json", MessageField.VALUE)
    written = JSONSerializer(schema, registry)({"id": 7}, context)
    assert JSONDeserializer(schema, schema_registry_client=registry)(written, context) == {"id": 7}


def order_class() -> Any:
    """A message class as protoc would have made it."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(name="id", number=1, type=3, label=1, json_name="id")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_records_in_protobuf_and_back(registry: SchemaRegistryClient) -> None:
    order = order_class()
    context = SerializationContext("typed-protobuf", MessageField.VALUE)
    options = {"use.deprecated.format": False}
    written = ProtobufSerializer(order, registry, options)(order(id=7), context)
    assert ProtobufDeserializer(order, options, registry)(written, context) == order(id=7)
    assert registry.get_latest_version("typed-protobuf-value").schema.schema_str == (
        'syntax = "proto3";\npackage shop;\n\nmessage Order {\n  int64 id = 1;\n}\n'
    )


def test_schemas_outlive_the_node(tmp_path: Any) -> None:
    config = {"kavka.registry.listener": "127.0.0.1:0"}
    with Cluster(config=config, data_dir=tmp_path) as running:
        with SchemaRegistryClient({"url": running.registry}) as client:
            first = client.register_schema("s", avro(ORDER))
        running.kill()
        running.start()
        with SchemaRegistryClient({"url": running.registry}) as client:
            assert client.lookup_schema("s", avro(ORDER)).schema_id == first
            assert client.register_schema("t", avro({**ORDER, "name": "Other"})) == first + 1


@pytest.mark.parametrize(
    ("path", "data", "status"),
    [
        ("/subjects/s/versions", b"{", 400),
        ("/subjects/s/versions", b"[" * 100_000, 400),
        ("/subjects/s/versions", b'{"schema": "' + b"x" * (5 << 20), 413),
        ("/subjects/s/versions", json.dumps({"schema": "[" * 100_000}).encode(), 422),
        ("/subjects/" + "%2F" * 100 + "/versions", b'{"schema": "{}"}', 422),
        ("/../../etc/passwd", None, 404),
    ],
)
def test_a_bad_request_is_answered(node: Cluster, path: str, data: bytes | None, status: int) -> None:
    request = urllib.request.Request(node.registry + path, data)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=30)
    assert error.value.code == status
    error.value.close()


@pytest.mark.parametrize(("super_user", "allowed"), [("User:ANONYMOUS", True), ("User:admin", False)])
def test_with_an_authorizer_a_subject_has_the_rights_of_its_topic(super_user: str, allowed: bool) -> None:
    config = {
        "kavka.registry.listener": "127.0.0.1:0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": super_user,
    }
    with Cluster(config=config) as running, SchemaRegistryClient({"url": running.registry}) as client:
        if allowed:
            assert client.register_schema("s", avro(ORDER)) == 1
            assert client.get_subjects() == ["s"]
        else:
            with pytest.raises(SchemaRegistryError) as error:
                client.register_schema("s", avro(ORDER))
            assert (error.value.http_status_code, error.value.error_code) == (403, 40301)
            assert client.get_subjects() == []


PLAIN_NODE = """
import os, signal, sys, threading, time
from kavka.cli.app import main

data_dir, ready_file = sys.argv[1:]

def stop_when_ready():
    while not os.path.exists(ready_file):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)  # what is loaded after that is loaded before the node stops

threading.Thread(target=stop_when_ready, daemon=True).start()
try:
    main(["serve", "--data-dir", data_dir, "--listen", "127.0.0.1:0", "--ready-file", ready_file])
except SystemExit as status:
    assert not status.code
print(*sorted(sys.modules))
"""


def test_a_node_without_a_registry_imports_none(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", PLAIN_NODE, str(tmp_path / "data"), str(tmp_path / "ready")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split()
    assert "kavka.broker.dispatch" in loaded
    heavy = (
        "kavka.coordinator.registry",
        "kavka.runtime.registry",
        "kavka.broker.registry_calls",
        "kavka.broker.handlers.registry_call",
        "kavka.console",
    )
    assert [name for name in loaded if name in heavy or name.startswith(heavy[0])] == []
