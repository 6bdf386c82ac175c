"""Other people's clients on secured listeners: each way in, and what each of them says of wrong credentials."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka import errors as aio_errors
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka import errors as python_errors

from every_listener import MECHANISMS, PASSWORD, WAYS, Served, serving

# aiokafka and kafka-python leave the socket of a log-in that failed to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SECONDS = 30.0
RECORDS = [b"%d" % number for number in range(50)] + [bytes(500_000)]
SECURED = WAYS[1:]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("secured")) as node:
        yield node


def topic_of(client: str, protocol: str, mechanism: str) -> str:
    return f"{client}-{protocol}-{mechanism}"


def for_confluent(served: Served, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": served.bootstrap(protocol),
        "security.protocol": protocol,
        "ssl.ca.location": served.authority,
        "broker.address.family": "v4",
    }
    if mechanism:
        found |= {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password}
    return found


@pytest.mark.parametrize(("protocol", "mechanism"), SECURED)
def test_confluent_kafka(served: Served, protocol: str, mechanism: str) -> None:
    topic = topic_of("confluent", protocol, mechanism)
    config = for_confluent(served, protocol, mechanism)
    producer = confluent_kafka.Producer(config)
    for value in RECORDS:
        producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0
    consumer = confluent_kafka.Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: list[bytes] = []
    ends = time.monotonic() + SECONDS
    while len(got) < len(RECORDS) and time.monotonic() < ends:
        got += [message.value() or b"" for message in consumer.consume(100, 0.5) if message.error() is None]
    consumer.close()
    assert got == RECORDS


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_is_told_that_its_credentials_are_wrong(served: Served, mechanism: str) -> None:
    told: list[confluent_kafka.KafkaError] = []
    config = for_confluent(served, "SASL_SSL", mechanism, "wrong")
    producer = confluent_kafka.Producer({**config, "error_cb": told.append, "log_level": 0})
    ends = time.monotonic() + SECONDS
    while not any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in told):
        producer.poll(0.1)
        assert time.monotonic() < ends, told


def for_aiokafka(served: Served, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    found: dict[str, Any] = {"bootstrap_servers": served.bootstrap(protocol), "security_protocol": protocol}
    if "SSL" in protocol:
        found["ssl_context"] = ssl.create_default_context(cafile=served.authority)
    if mechanism:
        found |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": password,
        }
    return found


@pytest.mark.parametrize(("protocol", "mechanism"), SECURED)
def test_aiokafka(served: Served, protocol: str, mechanism: str) -> None:
    topic = topic_of("aiokafka", protocol, mechanism)

    async def test() -> None:
        config = for_aiokafka(served, protocol, mechanism)
        async with AIOKafkaProducer(**config) as producer:
            for value in RECORDS:
                await producer.send(topic, value)
            await producer.flush()
        consumer = AIOKafkaConsumer(auto_offset_reset="earliest", **config)
        await consumer.start()
        try:
            consumer.assign([AioPartition(topic, 0)])
            assert [(await consumer.getone()).value for _ in RECORDS] == RECORDS
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(test(), SECONDS))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_is_told_that_its_credentials_are_wrong(served: Served, mechanism: str) -> None:
    async def test() -> None:
        producer = AIOKafkaProducer(**for_aiokafka(served, "SASL_SSL", mechanism, "wrong"))
        try:
            # aiokafka makes one error of whatever kept it from each of the addresses
            with pytest.raises((aio_errors.SaslAuthenticationFailed, aio_errors.KafkaConnectionError)):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(test(), SECONDS))


def for_kafka_python(served: Served, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap_servers": served.bootstrap(protocol),
        "security_protocol": protocol,
        "ssl_cafile": served.authority,
    }
    if mechanism:
        found |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": password,
        }
    return found


@pytest.mark.parametrize(("protocol", "mechanism"), SECURED)
def test_kafka_python(served: Served, protocol: str, mechanism: str) -> None:
    topic = topic_of("python", protocol, mechanism)
    config = for_kafka_python(served, protocol, mechanism)
    producer = KafkaProducer(**config)
    for value in RECORDS:
        producer.send(topic, value)
    producer.flush(SECONDS)
    producer.close()
    consumer = KafkaConsumer(auto_offset_reset="earliest", **config)
    consumer.assign([PythonPartition(topic, 0)])
    got: list[bytes] = []
    ends = time.monotonic() + SECONDS
    while len(got) < len(RECORDS) and time.monotonic() < ends:
        got += [record.value for records in consumer.poll(500).values() for record in records]
    consumer.close()
    assert got == RECORDS


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_is_told_that_its_credentials_are_wrong(served: Served, mechanism: str) -> None:
    with pytest.raises((python_errors.SaslAuthenticationFailedError, python_errors.KafkaError)):
        KafkaAdminClient(**for_kafka_python(served, "SASL_SSL", mechanism, "wrong"))
