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
from kavka.testing.authority import Authority

SECONDS = 30.0
RECORDS = [b"%d" % number for number in range(50)] + [bytes(500_000)]
SECURED = WAYS[1:]
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
WORDS = {"PLAIN": "Authentication failed: Invalid username or password"}
"""What who has a wrong password is told, if not the generic words."""


def words(mechanism: str) -> str:
    return WORDS.get(mechanism, GENERIC.format(mechanism))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("secured")) as node:
        yield node


@pytest.fixture(scope="module")
def strangers(served: Served) -> Served:
    """The node, with mallory, who has a certificate and no rights, and an authority that vouches for nobody."""
    served.secured.issue("mallory.pem", "mallory")
    (served.secured.folder / "other.pem").write_text(Authority().pem)
    return served


def certificate(served: Served, name: str) -> str:
    """The file of a certificate, and of its key."""
    return str(served.secured.folder / f"{name}.pem")


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


def test_confluent_kafka_is_who_its_certificate_says(strangers: Served) -> None:
    def sent(name: str) -> int:
        file = certificate(strangers, name)
        config = {"ssl.certificate.location": file, "ssl.key.location": file}
        producer = confluent_kafka.Producer({**for_confluent(strangers, "SSL", ""), **config})
        codes: list[int] = []
        producer.produce("certified", b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
        assert producer.flush(SECONDS) == 0
        return codes[0]

    assert sent("alice") == 0
    assert sent("mallory") == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_confluent_kafka_does_not_believe_whom_nobody_vouches_for(strangers: Served) -> None:
    told: list[confluent_kafka.KafkaError] = []
    config = {**for_confluent(strangers, "SSL", ""), "ssl.ca.location": certificate(strangers, "other")}
    producer = confluent_kafka.Producer({**config, "error_cb": told.append, "log_level": 0})
    ends = time.monotonic() + SECONDS
    while not any(error.code() == confluent_kafka.KafkaError._SSL for error in told):
        producer.poll(0.1)
        assert time.monotonic() < ends, told
    assert any("certificate verify failed" in error.str() for error in told), told


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_is_told_that_its_credentials_are_wrong(served: Served, mechanism: str) -> None:
    told: list[confluent_kafka.KafkaError] = []
    config = for_confluent(served, "SASL_SSL", mechanism, "wrong")
    producer = confluent_kafka.Producer({**config, "error_cb": told.append, "log_level": 0})
    ends = time.monotonic() + SECONDS
    while not any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in told):
        producer.poll(0.1)
        assert time.monotonic() < ends, told
    assert any(words(mechanism) in error.str() for error in told), told


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


def test_aiokafka_is_who_its_certificate_says(strangers: Served) -> None:
    async def send(name: str) -> None:
        config = for_aiokafka(strangers, "SSL", "")
        config["ssl_context"].load_cert_chain(certificate(strangers, name))
        async with AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait("certified", b"x")

    asyncio.run(asyncio.wait_for(send("alice"), SECONDS))
    with pytest.raises(aio_errors.TopicAuthorizationFailedError):
        asyncio.run(asyncio.wait_for(send("mallory"), SECONDS))


def test_aiokafka_does_not_believe_whom_nobody_vouches_for(strangers: Served, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        other = ssl.create_default_context(cafile=certificate(strangers, "other"))
        producer = AIOKafkaProducer(**{**for_aiokafka(strangers, "SSL", ""), "ssl_context": other})
        try:
            with pytest.raises(aio_errors.KafkaConnectionError, match="Unable to bootstrap"):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(test(), SECONDS))
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_is_told_that_its_credentials_are_wrong(
    served: Served, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        producer = AIOKafkaProducer(**for_aiokafka(served, "SASL_SSL", mechanism, "wrong"))
        try:
            # aiokafka makes one error of whatever kept it from each of the addresses, and logs which it was
            with pytest.raises(aio_errors.KafkaConnectionError, match="Unable to bootstrap"):
                await producer.start()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(test(), SECONDS))
    assert f"SaslAuthenticationFailed: {words(mechanism)}" in caplog.text


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


def test_kafka_python_is_who_its_certificate_says(strangers: Served) -> None:
    def send(name: str) -> None:
        file = certificate(strangers, name)
        producer = KafkaProducer(**for_kafka_python(strangers, "SSL", ""), ssl_certfile=file, ssl_keyfile=file)
        try:
            producer.send("certified", b"x").get(SECONDS)
        finally:
            producer.close()

    send("alice")
    with pytest.raises(python_errors.TopicAuthorizationFailedError):
        send("mallory")


def test_kafka_python_does_not_believe_whom_nobody_vouches_for(
    strangers: Served, caplog: pytest.LogCaptureFixture
) -> None:
    config = {**for_kafka_python(strangers, "SSL", ""), "ssl_cafile": certificate(strangers, "other")}
    with pytest.raises(python_errors.KafkaTimeoutError, match="Unable to bootstrap"):
        KafkaAdminClient(**config, bootstrap_timeout_ms=2000)
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_is_told_that_its_credentials_are_wrong(
    served: Served, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = for_kafka_python(served, "SASL_SSL", mechanism, "wrong")
    ends = time.monotonic() + SECONDS
    # it tries again until its time is over, logs why, and drops an answer that comes in one piece with the hang-up
    while f"SaslAuthenticationFailedError: {words(mechanism)}" not in caplog.text:
        with pytest.raises(python_errors.KafkaTimeoutError, match="Unable to bootstrap"):
            KafkaAdminClient(**config, bootstrap_timeout_ms=1000)
        assert time.monotonic() < ends, caplog.text
