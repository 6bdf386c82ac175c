"""kafka-configs: what it prints against the node under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from jvm.tools import Tools, eventually

TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def of_topic(name: str) -> list[str]:
    return ["--entity-type", "topics", "--entity-name", name]


BROKER = ["--entity-type", "brokers", "--entity-name", "1"]
ALL_BROKERS = ["--entity-type", "brokers", "--entity-default"]


def shown(lines: list[str]) -> dict[str, str]:
    """The settings below the heading of a description, without their synonyms."""
    return dict(line.strip().split(" sensitive=")[0].split("=", 1) for line in lines[1:])


def test_a_new_topic_has_no_dynamic_configs(tools: Tools, made_topic: str) -> None:
    done = tools.configs("--describe", *of_topic(made_topic)).must_succeed()
    assert done.lines == [f"Dynamic configs for topic {made_topic} are:"]


def test_all_configs_of_a_topic_are_kafkas_defaults(tools: Tools, made_topic: str) -> None:
    lines = tools.configs("--describe", "--all", *of_topic(made_topic)).must_succeed().lines
    assert lines[0] == f"All configs for topic {made_topic} are:"
    assert shown(lines) == TOPIC_DEFAULTS
    assert (
        "  segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}" in lines[1:]
    )


def test_add_config_then_describe_shows_it_with_its_synonyms(tools: Tools, made_topic: str) -> None:
    added = tools.configs("--alter", *of_topic(made_topic), "--add-config", "retention.ms=1000,segment.bytes=1048576")
    assert added.must_succeed().lines == [f"Completed updating config for topic {made_topic}."]
    synonyms = "{DYNAMIC_TOPIC_CONFIG:segment.bytes=1048576, DEFAULT_CONFIG:log.segment.bytes=1073741824}"
    assert tools.configs("--describe", *of_topic(made_topic)).must_succeed().lines == [
        f"Dynamic configs for topic {made_topic} are:",
        "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}",
        f"  segment.bytes=1048576 sensitive=false synonyms={synonyms}",
    ]


def test_delete_config_brings_the_default_back(tools: Tools, made_topic: str) -> None:
    tools.configs("--alter", *of_topic(made_topic), "--add-config", "retention.ms=1000").must_succeed()
    tools.configs("--alter", *of_topic(made_topic), "--delete-config", "retention.ms").must_succeed()
    lines = tools.configs("--describe", "--all", *of_topic(made_topic)).must_succeed().lines
    assert shown(lines)["retention.ms"] == "604800000"


def test_delete_config_of_an_unset_name_succeeds(tools: Tools, made_topic: str) -> None:
    tools.configs("--alter", *of_topic(made_topic), "--delete-config", "retention.ms").must_succeed()


@pytest.mark.parametrize(
    "setting",
    [
        "retention.ms=soon",
        "cleanup.policy=shrink",
        "no.such.config=1",
        "min.cleanable.dirty.ratio=2",
        "segment.bytes=1",
    ],
)
def test_add_config_refuses_what_a_topic_cannot_have(tools: Tools, made_topic: str, setting: str) -> None:
    done = tools.configs("--alter", *of_topic(made_topic), "--add-config", setting).must_fail()
    assert "InvalidConfigurationException" in done.err
    assert len(tools.configs("--describe", *of_topic(made_topic)).must_succeed().lines) == 1


def test_add_config_to_an_unknown_topic_fails(tools: Tools) -> None:
    done = tools.configs("--alter", *of_topic("nowhere"), "--add-config", "retention.ms=1").must_fail()
    assert "UnknownTopicOrPartitionException" in done.err


def test_describe_an_unknown_topic_says_so(tools: Tools) -> None:
    done = tools.configs("--describe", *of_topic("nowhere")).must_succeed()
    assert done.lines == ["The topic 'nowhere' doesn't exist and doesn't have dynamic config."]


def test_all_configs_of_the_broker_name_where_they_come_from(tools: Tools) -> None:
    lines = tools.configs("--describe", "--all", *BROKER).must_succeed().lines
    assert lines[0] == "All configs for broker 1 are:"
    values = shown(lines)
    assert values["message.max.bytes"] == "1048588"
    assert values["num.partitions"] == "1"
    assert values["log.retention.hours"] == "168"
    assert (
        "  offsets.topic.replication.factor=1 sensitive=false synonyms={STATIC_BROKER_CONFIG:"
        "offsets.topic.replication.factor=1, DEFAULT_CONFIG:offsets.topic.replication.factor=3}" in lines
    )
    assert "  delegation.token.secret.key=null sensitive=true synonyms={}" in lines


@pytest.fixture
def undo(tools: Tools) -> Iterator[Callable[[list[str], str], None]]:
    """Note a setting of an entity; it is removed when the test is over."""
    noted: list[tuple[list[str], str]] = []
    yield lambda entity, name: noted.append((entity, name))
    for entity, name in noted:
        tools.configs("--alter", *entity, "--delete-config", name).must_succeed()


Undo = Callable[[list[str], str], None]


def test_a_broker_config_is_set_shown_and_removed(tools: Tools, undo: Undo) -> None:
    undo(BROKER, "log.cleaner.threads")
    tools.configs("--alter", *BROKER, "--add-config", "log.cleaner.threads=2").must_succeed()
    synonyms = "{DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2, DEFAULT_CONFIG:log.cleaner.threads=1}"
    eventually(
        lambda: tools.configs("--describe", *BROKER).must_succeed().lines,
        ["Dynamic configs for broker 1 are:", f"  log.cleaner.threads=2 sensitive=false synonyms={synonyms}"],
    )
    tools.configs("--alter", *BROKER, "--delete-config", "log.cleaner.threads").must_succeed()
    eventually(lambda: tools.configs("--describe", *BROKER).must_succeed().lines, ["Dynamic configs for broker 1 are:"])


def test_a_cluster_wide_broker_default_is_set_shown_and_removed(tools: Tools, undo: Undo) -> None:
    undo(ALL_BROKERS, "message.max.bytes")
    done = tools.configs("--alter", *ALL_BROKERS, "--add-config", "message.max.bytes=2000000").must_succeed()
    assert done.lines == ["Completed updating default config for brokers in the cluster."]

    def look() -> dict[str, str]:
        return shown(tools.configs("--describe", *ALL_BROKERS).must_succeed().lines)

    eventually(look, {"message.max.bytes": "2000000", "min.insync.replicas": "1"})
    tools.configs("--alter", *ALL_BROKERS, "--delete-config", "message.max.bytes").must_succeed()
    eventually(look, {"min.insync.replicas": "1"})


def test_a_cluster_wide_default_shows_in_topics(tools: Tools, made_topic: str, undo: Undo) -> None:
    undo(ALL_BROKERS, "log.retention.ms")
    tools.configs("--alter", *ALL_BROKERS, "--add-config", "log.retention.ms=7200000").must_succeed()
    wanted = (
        "  retention.ms=7200000 sensitive=false synonyms="
        "{DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7200000, DEFAULT_CONFIG:log.retention.hours=168}"
    )
    eventually(lambda: wanted in tools.configs("--describe", "--all", *of_topic(made_topic)).lines, True)


@pytest.mark.parametrize("setting", ["log.dirs=/elsewhere", "broker.id=7", "process.roles=broker"])
def test_a_static_broker_config_is_refused(tools: Tools, setting: str) -> None:
    assert "InvalidRequestException" in tools.configs("--alter", *BROKER, "--add-config", setting).must_fail().err


def test_a_wrong_value_of_a_dynamic_broker_config_is_refused(tools: Tools) -> None:
    done = tools.configs("--alter", *BROKER, "--add-config", "log.cleaner.threads=none").must_fail()
    assert "InvalidRequestException" in done.err or "InvalidConfigurationException" in done.err


def test_the_log_levels_of_the_broker_are_shown(tools: Tools) -> None:
    lines = tools.configs("--describe", "--entity-type", "broker-loggers", "--entity-name", "1").must_succeed().lines
    assert lines[0] == "Dynamic configs for broker-logger 1 are:"
    assert any(line.startswith("  root=") for line in lines)


def test_the_log_level_of_a_logger_is_changed(tools: Tools) -> None:
    loggers = ["--entity-type", "broker-loggers", "--entity-name", "1"]
    name = tools.configs("--describe", *loggers).must_succeed().lines[1].split("=")[0].strip()
    tools.configs("--alter", *loggers, "--add-config", f"{name}=DEBUG").must_succeed()
    assert shown(tools.configs("--describe", *loggers).must_succeed().lines)[name] == "DEBUG"
    tools.configs("--alter", *loggers, "--delete-config", name).must_succeed()


@pytest.mark.parametrize("entity", ["client-metrics", "users", "clients", "ips"])
def test_an_entity_type_without_entities_prints_nothing(tools: Tools, entity: str) -> None:
    assert tools.configs("--describe", "--entity-type", entity).must_succeed().lines == []


def test_a_client_quota_is_set_and_shown(tools: Tools) -> None:
    user = ["--entity-type", "users", "--entity-name", "alice"]
    tools.configs("--alter", *user, "--add-config", "producer_byte_rate=1000000").must_succeed()
    done = tools.configs("--describe", *user).must_succeed()
    assert done.lines == ["Quota configs for user-principal 'alice' are producer_byte_rate=1000000.0"]
    tools.configs("--alter", *user, "--delete-config", "producer_byte_rate").must_succeed()


@pytest.mark.parametrize(
    ("entity", "quota", "shown_as"),
    [
        (["--entity-type", "users", "--entity-default"], "request_percentage=12.5", "the default user-principal"),
        (["--entity-type", "clients", "--entity-name", "app"], "consumer_byte_rate=2048", "client-id 'app'"),
        (["--entity-type", "clients", "--entity-default"], "controller_mutation_rate=3", "the default client-id"),
        (
            ["--entity-type", "users", "--entity-name", "bea", "--entity-type", "clients", "--entity-name", "app"],
            "producer_byte_rate=1024",
            "user-principal 'bea', client-id 'app'",
        ),
        (
            ["--entity-type", "users", "--entity-name", "bea", "--entity-type", "clients", "--entity-default"],
            "producer_byte_rate=1024",
            "user-principal 'bea', the default client-id",
        ),
        (["--entity-type", "ips", "--entity-name", "10.0.0.7"], "connection_creation_rate=5", "ip '10.0.0.7'"),
        (["--entity-type", "ips", "--entity-name", "localhost"], "connection_creation_rate=100000", "ip 'localhost'"),
        (["--entity-type", "ips", "--entity-default"], "connection_creation_rate=500000", "the default ip"),
    ],
)
def test_quotas_of_every_kind_of_entity(tools: Tools, entity: list[str], quota: str, shown_as: str) -> None:
    key, _, value = quota.partition("=")
    tools.configs("--alter", *entity, "--add-config", quota).must_succeed()
    wanted = [f"Quota configs for {shown_as} are {key}={float(value)}"]
    eventually(lambda: tools.configs("--describe", *entity).must_succeed().lines, wanted)
    tools.configs("--alter", *entity, "--delete-config", key).must_succeed()
    eventually(lambda: tools.configs("--describe", *entity).must_succeed().lines, [])


@pytest.mark.parametrize(
    ("entity", "quota"),
    [
        (["--entity-type", "users", "--entity-name", "bea"], "producer_byte_rate=0"),
        (["--entity-type", "users", "--entity-name", "bea"], "request_percentage=-1"),
        (["--entity-type", "users", "--entity-name", "bea"], "connection_creation_rate=1"),
        (["--entity-type", "clients", "--entity-name", "app"], "no_such_quota=1"),
        (["--entity-type", "ips", "--entity-name", "10.0.0.7"], "producer_byte_rate=1"),
        (["--entity-type", "ips", "--entity-name", "not an address"], "connection_creation_rate=1"),
    ],
)
def test_a_quota_that_cannot_be_is_refused(tools: Tools, entity: list[str], quota: str) -> None:
    assert tools.configs("--alter", *entity, "--add-config", quota).must_fail()
    assert not any("no_such" in line or "bea" in line for line in tools.configs("--describe", *entity).lines)


@pytest.mark.parametrize("change", ["kafka.no.such.logger=DEBUG", "root=LOUD"])
def test_a_log_level_that_cannot_be_is_refused(tools: Tools, change: str) -> None:
    loggers = ["--entity-type", "broker-loggers", "--entity-name", "1"]
    done = tools.configs("--alter", *loggers, "--add-config", change).must_fail()
    assert "Invalid" in done.err


@pytest.mark.parametrize("change", ["num.io.threads=100", "max.connections.per.ip=0", "log.cleaner.threads=9"])
def test_a_change_that_contradicts_other_settings_is_refused(tools: Tools, change: str) -> None:
    done = tools.configs("--alter", *BROKER, "--add-config", change).must_fail()
    assert "InvalidRequestException" in done.err


def test_a_scram_credential_is_set_and_shown(tools: Tools) -> None:
    user = ["--entity-type", "users", "--entity-name", "bob"]
    tools.configs("--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]").must_succeed()
    done = tools.configs("--describe", *user).must_succeed()
    assert done.lines == ["SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-256=iterations=4096"]
    tools.configs("--alter", *user, "--delete-config", "SCRAM-SHA-256").must_succeed()


def test_a_group_config_is_set_and_shown(tools: Tools) -> None:
    group = ["--entity-type", "groups", "--entity-name", "some-group"]
    tools.configs("--alter", *group, "--add-config", "consumer.session.timeout.ms=50000").must_succeed()
    lines = tools.configs("--describe", *group).must_succeed().lines
    assert shown(lines) == {"consumer.session.timeout.ms": "50000"}
    tools.configs("--alter", *group, "--delete-config", "consumer.session.timeout.ms").must_succeed()


def test_a_client_metrics_subscription_is_set_and_shown(tools: Tools) -> None:
    metrics = ["--entity-type", "client-metrics", "--entity-name", "subscription"]
    tools.configs("--alter", *metrics, "--add-config", "interval.ms=60000").must_succeed()
    assert shown(tools.configs("--describe", *metrics).must_succeed().lines)["interval.ms"] == "60000"
    assert tools.client_metrics("--list").must_succeed().lines == ["subscription"]
    tools.configs("--alter", *metrics, "--delete-config", "interval.ms").must_succeed()
