"""The console and what is secured about it: values by schemas, registries that have people log in, HTTPS."""

from __future__ import annotations

import json
import re
import ssl
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.serialization import MessageField, SerializationContext

from kavka.client.blocking import Client
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

CONSOLE = {"kavka.console.listener": "127.0.0.1:0", "kavka.registry.listener": "127.0.0.1:0"}
FIELDS = [{"name": "customer", "type": "string"}, {"name": "cents", "type": "long"}]
ORDER = json.dumps({"type": "record", "name": "Order", "fields": FIELDS})
SAID = {"customer": "an<n>a", "cents": 7}


def order_class() -> Any:
    """A message class as protoc would have made it."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="customer", number=1, type=9, label=1, json_name="customer")
    message.field.add(name="cents", number=2, type=5, label=1, json_name="cents")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def written(registry: SchemaRegistryClient, form: str) -> bytes:
    """An order as Confluent's serializers write it."""
    context = SerializationContext(f"typed-{form}", MessageField.VALUE)
    if form == "avro":
        made = AvroSerializer(registry, ORDER)(SAID, context)
    elif form == "protobuf":
        order = order_class()
        made = ProtobufSerializer(order, registry, {"use.deprecated.format": False})(order(**SAID), context)
    else:
        schema = {"title": "Order", "type": "object", "properties": {"customer": {"type": "string"}}}
        made = JSONSerializer(json.dumps(schema), registry)(SAID, context)
    assert isinstance(made, bytes)
    return made


def send(bootstrap: str, topic: str, value: bytes, **config: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(config=CONSOLE) as made:
        yield made


@pytest.mark.parametrize("form", ["avro", "protobuf", "json"])
def test_values_are_shown_and_found_by_their_schemas(node: Cluster, form: str) -> None:
    topic = f"typed-{form}"
    with Client(node.bootstrap) as client, SchemaRegistryClient({"url": node.registry}) as registry:
        client.admin.create_topic(topic, partitions=1)
        value = written(registry, form)
        send(node.bootstrap, topic, value)
        send(node.bootstrap, topic, b"\x00\x00\x00\x27\x0fnothing knows this")
    with httpx.Client(base_url=node.console, timeout=30) as browser:
        page = browser.get(f"/topics/{topic}").text
        assert "an&lt;n&gt;a" in page
        assert f'<span class="tag">{form}</span>' in page
        assert "schema 9999, not read" in page
        assert browser.get(f"/topics/{topic}", params={"filter": ".customer=an<n>a"}).text.count("<tr data-href") == 1
        assert browser.get(f"/topics/{topic}", params={"filter": ".customer=eve"}).text.count("<tr data-href") == 0
        record = browser.get(f"/topics/{topic}/record?partition=0&offset=0").text
        assert "&#34;customer&#34;: &#34;an&lt;n&gt;a&#34;" in record
        unknown = browser.get(f"/topics/{topic}/record?partition=0&offset=1").text
        assert "It is shown as it is: its schema 9999 is not in the schema registry" in unknown
        assert browser.get(f"/topics/{topic}/raw?partition=0&offset=0").content == value
        subjects = browser.get("/schemas").text
        assert f"typed-{form}-value" in subjects


def test_a_registry_that_is_gone_hides_no_record(node: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"schema.registry.url=http://127.0.0.1:{free_ports(1)[0]}\n")
    alone = {"kavka.console.listener": "127.0.0.1:0", "kavka.console.client.config": str(config)}
    with Cluster(config=alone) as other, httpx.Client(base_url=other.console, timeout=30) as browser:
        with Client(other.bootstrap) as client, client.producer() as producer:
            client.admin.create_topic("framed", partitions=1)
            producer.send("framed", b"\x00\x00\x00\x00\x01\x06abc").result()
        page = browser.get("/topics/framed/record?partition=0&offset=0").text
        assert "the schema registry cannot be reached" in page
        assert "abc" in page


@contextmanager
def signed_in(url: str, user: str, password: str, verify: ssl.SSLContext) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=30, verify=verify) as client:
        page = client.get("/sign-in")
        token = re.search(r'name="csrf" value="(\w+)"', page.text)
        assert token is not None, page.text
        form = {"csrf": token[1], "user": user, "password": password, "mechanism": "SCRAM-SHA-512", "next": "/"}
        answer = client.post("/sign-in", data=form)
        assert answer.status_code == 303, answer.text
        assert "; Secure" in answer.headers["set-cookie"]
        yield client


def test_https_and_a_registry_that_people_log_in_to(tmp_path: Path) -> None:
    secured = Secured(tmp_path / "secured")
    issued = secured.issue("console.pem", "console")
    config = {
        "listeners": f"SASL_SSL://127.0.0.1:{free_ports(1)[0]}",
        **secured.nodes,
        **CONSOLE,
        "kavka.registry.security.protocol": "SASL_SSL",
        "listener.name.registry.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "kavka.console.security.protocol": "SSL",
        "listener.name.console.ssl.keystore.location": str(tmp_path / "secured" / "console.pem"),
    }
    ca = str(tmp_path / "secured" / "ca.pem")
    password = secured.passwords["admin"]
    with Cluster(config=config, users=secured.users) as node:
        login = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": password,
            "ssl.ca.location": ca,
        }
        asked = {"url": node.registry, "basic.auth.user.info": f"admin:{password}", "ssl.ca.location": ca}
        with Client(node.bootstrap, security=secured.client()) as client, SchemaRegistryClient(asked) as registry:
            client.admin.create_topic("typed-avro", partitions=1)
            send(node.bootstrap, "typed-avro", written(registry, "avro"), **login)
        assert node.console.startswith("https://")
        verify = ssl.create_default_context(cafile=ca)
        with signed_in(node.console, "admin", password, verify) as admin:
            assert "an&lt;n&gt;a" in admin.get("/topics/typed-avro").text
            assert "typed-avro-value" in admin.get("/schemas").text
        host, _, port = node.console.removeprefix("https://").rpartition(":")
        assert issued.pem.split("-----END CERTIFICATE-----")[0].splitlines()[-1] in ssl.get_server_certificate(
            (host, int(port))
        )
        with pytest.raises(httpx.HTTPError):
            httpx.get(node.console.replace("https:", "http:"), timeout=10)
        before = ssl.get_server_certificate((host, int(port)))
        secured.issue("console.pem", "console")
        deadline = time.monotonic() + 60
        while ssl.get_server_certificate((host, int(port))) == before:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert password not in node.log


def test_a_console_without_a_key_for_https_is_refused(tmp_path: Path) -> None:
    config = {"kavka.console.listener": "127.0.0.1:0", "kavka.console.security.protocol": "SSL"}
    cluster = Cluster(config=config)
    with pytest.raises(Exception, match=r"ssl\.keystore\.location"):
        cluster.start()
    cluster.stop()


def test_a_node_that_stops_tells_its_console_first() -> None:
    with Cluster(config=CONSOLE) as running:
        with Client(running.bootstrap) as client:
            client.admin.create_topic("watched", partitions=1)
        with (
            httpx.Client(base_url=running.console, timeout=30) as browser,
            browser.stream("GET", "/topics/watched/events", headers={"accept": "text/event-stream"}) as tail,
        ):
            heard = tail.iter_lines()
            assert next(heard) == ": alive"
            began = time.monotonic()
            running.stop()
            assert time.monotonic() - began < 30
            assert [line for line in heard if line.startswith("event: failed")] == []
        assert "could not be established" not in running.log
        _, stops, rest = running.log.partition("shutting down")
        assert stops
        assert "WARN" not in rest
