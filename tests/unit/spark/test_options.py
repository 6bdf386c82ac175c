"""Options: Spark's names in any case, and every mistake named."""

from __future__ import annotations

import pickle

import pytest

from kavka.client.security import SecuredBootstrap, security_of
from kavka.model.settings import SettingError
from kavka.model.settings.client import SETTINGS
from kavka.model.types import TopicPartition
from kavka.spark.connecting import SECURITY, OptionError
from kavka.spark.offsets import EARLIEST, LATEST
from kavka.spark.options import BadLimit, reader_subject, sink_options, source_options

WHERE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
TOPIC = {**WHERE, "subscribe": "a, b"}


def test_names_may_have_any_case_and_defaults_are_sparks() -> None:
    options = source_options({"KAFKA.BOOTSTRAP.SERVERS": "h:1", "Subscribe": "a, b"}, streaming=False)
    assert (options.bootstrap, options.subscribe) == ("h:1", ("a", "b"))
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert options.fail_on_data_loss
    assert not options.read_committed
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert source_options(TOPIC, streaming=True).starting == LATEST


def test_offsets_and_assignments_are_json() -> None:
    given = {**WHERE, "assign": '{"a": [0, 2]}', "startingOffsets": '{"a": {"0": 5, "2": -1}}'}
    options = source_options(given, streaming=True)
    assert options.assign == (TopicPartition("a", 0), TopicPartition("a", 2))
    assert options.starting == {TopicPartition("a", 0): 5, TopicPartition("a", 2): LATEST}


def test_columns_are_taken_in_the_order_they_are_asked_for() -> None:
    assert source_options({**TOPIC, "columns": "Offset, value"}, streaming=False).columns == ("offset", "value")
    assert source_options({**TOPIC, "includeHeaders": "true"}, streaming=False).columns[-1] == "headers"


@pytest.mark.parametrize(("text", "ms"), [("15m", 900_000), ("30s", 30_000), ("7", 7), ("2 h", 7_200_000)])
def test_a_delay_has_a_unit(text: str, ms: int) -> None:
    assert source_options({**TOPIC, "maxTriggerDelay": text}, streaming=True).max_trigger_delay_ms == ms


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a"}, "say where the brokers are"),
        (WHERE, "no topic given"),
        ({**TOPIC, "assign": '{"a": [0]}'}, "both assign and subscribe"),
        ({**WHERE, "subscribePattern": "("}, "is not a pattern"),
        ({**WHERE, "assign": "a"}, "assign is a JSON object"),
        ({**WHERE, "assign": '{"a": ["x"]}'}, "assign is like"),
        ({**WHERE, "subscribe": ","}, "names no topic"),
        ({**TOPIC, "startingOffsets": '{"a": 5}'}, "startingOffsets is like"),
        ({**TOPIC, "startingOffsets": "first"}, "startingOffsets is a JSON object"),
        ({**TOPIC, "startingTimestamp": "now"}, "in milliseconds"),
        ({**TOPIC, "endingOffsets": "earliest"}, "cannot be earliest"),
        ({**TOPIC, "minPartitions": "0"}, "at least 1"),
        ({**TOPIC, "minPartitions": "many"}, "is a number"),
        ({**TOPIC, "failOnDataLoss": "no"}, "is true or false"),
        ({**TOPIC, "columns": "value,colour"}, "names 'colour'"),
        ({**TOPIC, "columns": "value,value"}, "twice"),
        ({**TOPIC, "columns": "value,error"}, "needs column value and value.format"),
        ({**TOPIC, "value.format": "xml"}, "value.format is one of"),
        ({**TOPIC, "maxTriggerDelay": "soon"}, "maxTriggerDelay is like"),
        ({**TOPIC, "kafka.isolation.level": "serializable"}, "kafka.isolation.level is one of"),
        ({**TOPIC, "filterPushdown": "true"}, "filterPushdown is gone: with it, Spark gives wrong rows"),
        ({**TOPIC, "subscribed": "a"}, "there is no option 'subscribed'"),
    ],
)
def test_a_mistake_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        source_options(options, streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="a stream has no end"):
        source_options({**TOPIC, "endingOffsets": "latest"}, streaming=True)


def test_the_sink_takes_the_producers_compression() -> None:
    assert sink_options({**WHERE, "topic": "t", "kafka.compression.type": "zstd"}).compression == "zstd"
    with pytest.raises(OptionError, match="none, gzip"):
        sink_options({**WHERE, "kafka.compression.type": "rar"})


def test_too_many_bad_records_are_a_number_or_a_share_of_the_whole() -> None:
    limit = source_options({**TOPIC, "maxBadRecords": "20", "maxBadShare": "0.1"}, streaming=False).bad_limit
    assert not limit.exceeded(20, 20, whole=False)
    assert limit.exceeded(21, 1000, whole=False)
    assert limit.exceeded(11, 100, whole=True)
    assert not limit.exceeded(11, 110, whole=True)
    assert not limit.exceeded(10, 10, whole=True), "so few are no share worth stopping for"
    assert not BadLimit().exceeded(1000, 1000, whole=True)
    for text in ("2", "-1", "nan", "many"):
        with pytest.raises(OptionError, match="maxBadShare is a number from 0 to 1"):
            source_options({**TOPIC, "maxBadShare": text}, streaming=False)


@pytest.mark.parametrize(
    "name",
    [
        "kafka.group.id",
        "kafka.max.poll.records",
        "kafka.ssl.engine.factory.class",
        "kafka.ssl.keymanager.algorithm",
        "kafka.sasl.login.class",
        "kafka.sasl.enabled.mechanisms",
        "kafka.sasl.jaas.confg",
        "kafka.linger.ms",
    ],
)
def test_a_kafka_option_that_would_have_no_effect_is_an_error(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} would have no effect here"):
        source_options({**TOPIC, name: "1"}, streaming=False)


def test_the_options_that_secure_connections_are_those_of_our_client() -> None:
    assert SETTINGS.keys() >= SECURITY


def test_what_the_consumer_and_the_producer_are_told_is_honoured() -> None:
    source = source_options(
        {**TOPIC, "kafka.client.id": "etl", "kafka.max.partition.fetch.bytes": "1000"}, streaming=False
    )
    assert (source.client_id, source.fetch_bytes) == ("etl", 1000)
    given = {"kafka.batch.size": "9", "kafka.linger.ms": "0", "kafka.delivery.timeout.ms": "7", "kafka.acks": "all"}
    sink = sink_options({**WHERE, **given})
    assert (sink.batch_bytes, sink.linger_ms, sink.timeout_ms) == (9, 0, 7)
    for weaker in ({"kafka.acks": "1"}, {"kafka.enable.idempotence": "false"}):
        with pytest.raises(OptionError, match="is one of"):
            sink_options({**WHERE, **weaker})


def test_a_secret_stays_a_reference_until_a_connection_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        **TOPIC,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "a",
        "kafka.sasl.password": "${env:KAFKA_PASSWORD}",
    }
    with pytest.raises(OptionError, match=r"kafka.sasl.password: \$\{env:KAFKA_PASSWORD\} has no value"):
        source_options(given, streaming=False)
    monkeypatch.setenv("KAFKA_PASSWORD", "nobody-knows")
    options = source_options(given, streaming=False)
    assert b"nobody-knows" not in pickle.dumps(options)
    assert b"${env:KAFKA_PASSWORD}" in pickle.dumps(options)
    monkeypatch.delenv("KAFKA_PASSWORD")
    assert isinstance(options.bootstrap, SecuredBootstrap)
    with pytest.raises(SettingError, match="KAFKA_PASSWORD"):
        security_of(pickle.loads(pickle.dumps(options.bootstrap)).security)


REGISTRY = {"schema.registry.url": "http://r:8081"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"value.format": "json-schema"}, "needs option schema.registry.url"),
        ({**REGISTRY, "value.format": "json"}, "is for value.format avro, protobuf, json-schema, not json"),
        (REGISTRY, "not bytes"),
        ({"value.subject": "s", "value.format": "avro"}, "set schema.registry.url"),
        ({**REGISTRY, "value.format": "avro", "value.schema.version": "new"}, "latest or a number"),
        ({**REGISTRY, "value.format": "avro", "value.schema.id": "1"}, "value.schema.version pins a version"),
        ({**REGISTRY, "value.format": "avro", "schema.registry.token": "x"}, "there is no option"),
        ({"schema.registry.basic.auth.user.info": "u:p", "value.format": "avro"}, "schema.registry.url"),
    ],
)
def test_options_about_a_registry_are_understood_or_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        source_options({**TOPIC, **given}, streaming=False)


def test_a_secret_of_a_registry_travels_as_a_reference() -> None:
    secret = "${env:REGISTRY_LOGIN}"
    given = {**TOPIC, **REGISTRY, "value.format": "avro", "schema.registry.basic.auth.user.info": f"me:{secret}"}
    options = pickle.loads(pickle.dumps(source_options(given, streaming=False)))
    assert dict(options.registry or ())["schema.registry.basic.auth.user.info"] == f"me:{secret}"


def test_the_subject_of_a_topic_is_found_unless_there_are_several() -> None:
    one = {**WHERE, **REGISTRY, "subscribe": "a", "value.format": "avro"}
    assert reader_subject(one) == ("a-value", "latest")
    assert reader_subject({**one, "value.subject": "s", "value.schema.version": "3"}) == ("s", "3")
    assert reader_subject({**WHERE, **REGISTRY, "assign": '{"b": [0, 1]}'}) == ("b-value", "latest")
    with pytest.raises(OptionError, match=r"value\.subject"):
        reader_subject({**one, "subscribe": "a,b"})


def test_a_sink_says_with_whose_schema_it_writes() -> None:
    given = {**WHERE, **REGISTRY, "value.format": "avro"}
    written = sink_options({**given, "topic": "t"}).written
    assert written is not None
    assert (written.subject, written.version, written.register) == ("t-value", "latest", False)
    with pytest.raises(OptionError, match=r"value\.subject"):
        sink_options(given)
    with pytest.raises(OptionError, match=r"schema\.registry\.url"):
        sink_options({**WHERE, "topic": "t", "value.format": "avro"})
    with pytest.raises(OptionError, match=r"value\.format"):
        sink_options({**WHERE, **REGISTRY, "topic": "t"})
