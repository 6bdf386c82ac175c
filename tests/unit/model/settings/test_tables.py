"""The tables against what Kafka 4.3.1 itself defines (kafka_4_3.tsv was dumped from its ConfigDefs)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kavka.model.settings import BROKER, TOPIC, Setting, SettingError, client_metrics, group


class Fact(NamedTuple):
    scope: str
    key: str
    kind: str
    default: str
    update: str
    allowed: str
    internal: str


def facts() -> Iterator[Fact]:
    for line in (Path(__file__).parent / "kafka_4_3.tsv").read_text().splitlines():
        if not line.startswith("#"):
            yield Fact(*line.split("\t"))


FACTS = list(facts())
OURS: dict[str, Any] = {
    "broker": BROKER,
    "quota": BROKER,
    "topic": TOPIC,
    "group": group.SETTINGS,
    "client": client_metrics.SETTINGS,
}
OURS_ALONE = {
    "allow.everyone.if.no.acl.found",  # Kafka leaves this one and super.users to its authorizer
    "super.users",
    "errors.deadletterqueue.copy.record.enable",  # Kafka has these from 4.4 on
    "errors.deadletterqueue.topic.name",
    "confluent.key.schema.validation",  # Confluent Server's
    "confluent.key.subject.name.strategy",
    "confluent.value.schema.validation",
    "confluent.value.subject.name.strategy",
    "kavka.audit.enable",
    "kavka.audit.dir",
    "kavka.audit.allowed",
    "kavka.audit.logins",
    "kavka.audit.denied",
    "kavka.audit.resources",
    "kavka.audit.fsync",
    "kavka.audit.segment.bytes",
    "kavka.audit.retention.bytes",
    "kavka.audit.interval.ms",
    "kavka.audit.topic.enable",
    "kavka.audit.topic.num.partitions",
    "kavka.audit.topic.replication.factor",
    "kavka.audit.topic.retention.ms",
    "kavka.otel.endpoint",
    "kavka.otel.metrics.interval.ms",
    "kavka.otel.traces.sample",
    "kavka.share.redelivery.delay.max.ms",
    "kavka.share.redelivery.delay.ms",
    "kavka.list.request.max.bytes",
    "kavka.delegation.token.accepted.secret.key",
    "kavka.authentication.timeout.ms",
    "kavka.log.format",
    "kavka.log.level",
    "kavka.max.decompressed.message.bytes",
    "kavka.max.unauthenticated.connections",
    "kavka.metrics.detail",
    "kavka.metrics.listener",
    "kavka.sasl.oauthbearer.unsecured",
    "kavka.sasl.plain.users.file",
    "org.apache.kafka.sasl.oauthbearer.allowed.urls",  # a system property of Java in Kafka
    "unclean.recovery.strategy",  # of KIP-966, whose second part Kafka does not have yet
    "kavka.remote.cache.bytes",
    "kavka.remote.cache.dir",
    "kavka.registry.listener",
    "kavka.registry.security.protocol",
    "kavka.console.listener",
    "kavka.console.security.protocol",
    "kavka.console.read.only",
    "kavka.console.client.config",
    "kavka.console.hosts",
    "kavka.schemas.topic.replication.factor",
    "kavka.remote.delete.delay.ms",
    "kavka.remote.read.beside.bytes.per.second",
    "kavka.remote.storage.compression",
    "kavka.remote.storage.keys.file",
    "kavka.remote.storage.options",
    "kavka.remote.storage.timeout.ms",
    "kavka.remote.storage.url",
    # Kafka leaves these to its RemoteLogMetadataManager
    "rlmm.config.remote.log.metadata.consume.wait.ms",
    "rlmm.config.remote.log.metadata.topic.min.isr",
    "rlmm.config.remote.log.metadata.topic.num.partitions",
    "rlmm.config.remote.log.metadata.topic.replication.factor",
    "rlmm.config.remote.log.metadata.topic.retention.ms",
}
REQUIRED_BY_KAFKA = {"node.id", "process.roles", "controller.listener.names"}  # a standalone node has defaults for them


def ours(fact: Fact) -> Setting[Any]:
    found: Setting[Any] = OURS[fact.scope][fact.key]
    return found


def test_the_keys_are_those_of_kafka() -> None:
    for scopes in ({"broker", "quota"}, {"topic"}, {"group"}, {"client"}):
        expected = {fact.key for fact in FACTS if fact.scope in scopes}
        assert set(OURS[next(iter(scopes))]) - OURS_ALONE == expected


def test_types_defaults_and_update_modes_are_those_of_kafka() -> None:
    for fact in FACTS:
        setting = ours(fact)
        assert setting.kind.name == fact.kind, fact.key
        if fact.key not in REQUIRED_BY_KAFKA:
            expected = None if fact.default == "-" else fact.default
            if fact.key == "listener.security.protocol.map":
                assert sorted(setting.default.split(",")) == sorted(fact.default.split(","))
            else:
                assert setting.text(setting.default) == expected, fact.key
        if fact.scope in ("broker", "quota"):
            assert setting.update.value == fact.update, fact.key
        if fact.scope != "quota":
            assert setting.internal == bool(fact.internal), fact.key


def test_every_default_is_allowed() -> None:
    for fact in FACTS:
        setting = ours(fact)
        if setting.default not in (None, "") and not setting.sensitive:
            assert setting.parse(setting.text(setting.default) or "") == setting.default, fact.key


def test_ranges_end_where_those_of_kafka_end() -> None:
    ranges = [fact for fact in FACTS if ".." in fact.allowed]
    assert len(ranges) > 150
    for fact in ranges:
        low, _, high = fact.allowed.partition("..")
        setting, step = ours(fact), 0.001 if fact.kind == "double" else 1
        for end, beyond in ((low, -step), (high, step)):
            if end:
                number = float(end) if fact.kind == "double" else int(end)
                assert setting.parse(str(number)) == number
                with pytest.raises(SettingError, match=fact.key):
                    setting.parse(str(number + beyond))


def test_the_names_a_key_allows_are_those_of_kafka() -> None:
    named = [fact for fact in FACTS if fact.allowed and ".." not in fact.allowed]
    assert len(named) > 10
    for fact in named:
        for name in fact.allowed.split(", "):
            assert ours(fact).parse(name) in (name, (name,))
        with pytest.raises(SettingError, match=fact.key):
            ours(fact).parse("no-such-name")


def test_keys_with_an_effect_say_so_in_one_line() -> None:
    for setting in (*BROKER.values(), *TOPIC.values()):
        assert "\n" not in setting.doc
        assert not setting.doc or (setting.doc.endswith(".") and setting.honoured), setting.name


def test_topic_settings_follow_broker_settings_in_kafkas_order() -> None:
    chains = {name: [synonym.setting.name for synonym in setting.synonyms] for name, setting in TOPIC.items()}
    assert chains["retention.ms"] == ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
    assert chains["segment.ms"] == ["log.roll.ms", "log.roll.hours"]
    assert chains["segment.jitter.ms"] == ["log.roll.jitter.ms", "log.roll.jitter.hours"]
    assert chains["flush.ms"] == ["log.flush.interval.ms", "log.flush.scheduler.interval.ms"]
    assert chains["max.message.bytes"] == ["message.max.bytes"]
    assert chains["file.delete.delay.ms"] == ["log.segment.delete.delay.ms"]
    alone = {name for name, chain in chains.items() if not chain}
    assert alone == {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "internal.segment.bytes",
        "confluent.key.schema.validation",
        "confluent.key.subject.name.strategy",
        "confluent.value.schema.validation",
        "confluent.value.subject.name.strategy",
    }
