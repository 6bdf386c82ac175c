from __future__ import annotations

import pytest

from kavka.model.errors import InvalidConfig, InvalidRequest
from kavka.model.settings import MESSAGE_MAX_BYTES, TOPIC_RETENTION_MS, SettingError, broker_values
from kavka.model.settings.rules import (
    check_broker,
    connection_overrides,
    validate_broker,
    validate_client_metrics,
    validate_group,
    validate_topic,
)

BROKER = broker_values({})
TIERED = broker_values({"remote.log.storage.system.enable": "true"})
REMOTE = {"remote.storage.enable": "true"}


def test_good_topic_settings_are_answered_as_values() -> None:
    assert validate_topic({"retention.ms": "-1", "cleanup.policy": "compact,delete"}, BROKER)[TOPIC_RETENTION_MS] == -1


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"retention": "1"}, "Unknown topic config name: retention"),
        ({"log.segment.bytes": "2097152"}, "Unknown topic config name"),
        ({"retention.ms": None}, "needs a value: retention.ms"),
        ({"retention.ms": "-2"}, "at least -1"),
        ({"segment.bytes": "1048575"}, "at least 1048576"),
        ({"compression.type": "brotli"}, "one of uncompressed, zstd"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}, "more than max.compaction.lag.ms"),
        ({"remote.storage.enable": "true"}, "the broker has no tiered storage"),
        ({"message.timestamp.type": "createtime"}, "one of CreateTime"),
    ],
)
def test_bad_topic_settings_are_refused_in_one_line(overrides: dict[str, str | None], words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        validate_topic(overrides, BROKER)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"cleanup.policy": "compact"}, "cleanup.policy must be delete or empty"),
        ({"retention.ms": "10", "local.retention.ms": "11"}, "more than retention.ms"),
        ({"retention.ms": "10", "local.retention.ms": "-1"}, "-1 is not allowed while retention.ms is 10"),
        ({"retention.bytes": "10", "local.retention.bytes": "11"}, "more than retention.bytes"),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "1"}, "must equal retention.ms"),
    ],
)
def test_tiered_topics_have_rules_of_their_own(overrides: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        validate_topic(REMOTE | overrides, TIERED)


def test_a_tiered_topic_that_keeps_the_rules_is_accepted() -> None:
    validate_topic(REMOTE | {"local.retention.ms": "-2", "retention.bytes": "-1", "cleanup.policy": ""}, TIERED)
    validate_topic(REMOTE | {"retention.ms": "10", "local.retention.ms": "10"}, TIERED)


def test_remote_storage_is_switched_off_only_with_its_data() -> None:
    with pytest.raises(InvalidConfig, match=r"remote.log.delete.on.disable"):
        validate_topic({"remote.storage.enable": "false"}, TIERED, before=REMOTE)
    validate_topic({"remote.log.delete.on.disable": "true"}, TIERED, before=REMOTE)


def change(*, one_broker: bool = True, **texts: str) -> int:
    changes = {name.replace("_", "."): text for name, text in texts.items()}
    per_broker, cluster = (changes, {}) if one_broker else ({}, changes)
    return validate_broker(BROKER, per_broker=per_broker, cluster=cluster, one_broker=one_broker)[MESSAGE_MAX_BYTES]


def test_a_dynamic_broker_setting_may_change() -> None:
    assert change(message_max_bytes="77") == 77
    assert change(message_max_bytes="78", one_broker=False) == 78


@pytest.mark.parametrize(
    ("changes", "one_broker", "words"),
    [
        ({"num_partitions": "2"}, True, "only a restart"),
        ({"message_max_bytes": "-1"}, True, "at least 0"),
        ({"listeners": "PLAINTEXT://:1"}, False, "for one broker, not for the cluster"),
        ({"ssl_keystore_location": "/x"}, True, "listener.name"),
        ({"log_roll_ms": "0"}, True, "log.roll.ms"),
        ({"log_retention_ms": "0"}, True, "log.retention.ms"),
        ({"log_cleaner_threads": "1000"}, False, "log.cleaner.dedupe.buffer.size"),
    ],
)
def test_other_broker_changes_are_invalid_requests(changes: dict[str, str], one_broker: bool, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        change(one_broker=one_broker, **changes)


def test_a_key_of_a_listener_is_checked_as_the_key_behind_its_prefix() -> None:
    with pytest.raises(InvalidRequest, match="whole number"):
        validate_broker(BROKER, per_broker={"listener.name.ext.max.connections": "x"}, cluster={}, one_broker=True)
    validate_broker(BROKER, per_broker={"listener.name.ext.ssl.keystore.location": "/x"}, cluster={}, one_broker=True)


def test_keys_of_plug_ins_are_none_of_our_business() -> None:
    validate_broker(BROKER, per_broker={"my.plugin": "x"}, cluster={}, one_broker=True)


@pytest.mark.parametrize(
    "static",
    [
        {"replica.fetch.wait.max.ms": "40000"},
        {"queued.max.request.bytes": "1"},
        {"max.connections.per.ip": "0"},
        {"max.connections.per.ip.overrides": "127.0.0.1"},
        {"group.coordinator.rebalance.protocols": "consumer"},
        {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"},
        {"remote.log.storage.system.enable": "true", "log.retention.ms": "5", "log.local.retention.ms": "6"},
        {"group.share.assignors": "simple,other"},
        {"group.share.max.size": "300", "group.share.max.share.sessions": "299"},
    ],
)
def test_a_node_that_breaks_a_rule_between_settings_does_not_start(static: dict[str, str]) -> None:
    with pytest.raises(SettingError):
        check_broker(broker_values(static))


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
@pytest.mark.parametrize(
    ("static", "words"),
    [
        ({"min.session.timeout.ms": "50000"}, "session.timeout.ms: 45000 is less than"),
        ({"max.session.timeout.ms": "44999"}, "session.timeout.ms: 45000 is more than"),
        ({"heartbeat.interval.ms": "4999"}, "heartbeat.interval.ms: 4999 is less than"),
        ({"heartbeat.interval.ms": "15001"}, "heartbeat.interval.ms: 15001 is more than"),
        ({"min.assignment.interval.ms": "1001"}, "assignment.interval.ms: 1000 is less than"),
        ({"assignment.interval.ms": "15001"}, "assignment.interval.ms: 15001 is more than"),
        (
            {"heartbeat.interval.ms": "45000", "max.heartbeat.interval.ms": "45000"},
            "session.timeout.ms: it must be more than",
        ),
    ],
)
def test_a_nodes_settings_of_groups_do_not_contradict_each_other(kind: str, static: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=f"group.{kind}.{words}"):
        check_broker(broker_values({f"group.{kind}.{name}": text for name, text in static.items()}))


@pytest.mark.parametrize(
    "static",
    [
        {"share.delivery.count.limit": "3", "share.min.delivery.count.limit": "4"},
        {"share.delivery.count.limit": "10", "share.max.delivery.count.limit": "9"},
        {"share.partition.max.record.locks": "150", "share.min.partition.max.record.locks": "151"},
        {"share.partition.max.record.locks": "4001"},
        {"share.record.lock.duration.ms": "14999"},
        {"share.record.lock.duration.ms": "60001"},
        {"streams.num.standby.replicas": "3"},
    ],
)
def test_a_nodes_settings_of_share_and_streams_groups_keep_their_limits(static: dict[str, str]) -> None:
    with pytest.raises(SettingError, match=r"(less|more) than group"):
        check_broker(broker_values({f"group.{name}": text for name, text in static.items()}))


def test_a_dynamic_assignment_interval_keeps_its_limits() -> None:
    with pytest.raises(InvalidRequest, match=r"more than group.streams.max.assignment.interval.ms"):
        change(group_streams_assignment_interval_ms="15001", one_broker=False)


def test_connection_limits_by_address_take_both_kinds_of_address() -> None:
    values = broker_values({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:7"})
    check_broker(values)
    assert connection_overrides(values) == {"10.0.0.1": 5, "::1": 7}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"consumer.session.timeout.ms": "1"}, "less than group.consumer.min.session.timeout.ms, which is 45000"),
        ({"share.heartbeat.interval.ms": "15001"}, "more than group.share.max.heartbeat.interval.ms"),
        ({"share.partition.max.record.locks": "5000"}, "more than group.share.max.partition.max.record.locks"),
        ({"streams.num.standby.replicas": "3"}, "more than group.streams.max.standby.replicas"),
        ({"consumer.assignment.interval.ms": "15001"}, "more than group.consumer.max.assignment.interval.ms"),
        ({"share.auto.offset.reset": "none"}, "share.auto.offset.reset"),
        ({"session.timeout.ms": "1"}, "Unknown group config name"),
    ],
)
def test_group_settings_stay_within_the_brokers_limits(overrides: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        validate_group(overrides, BROKER)


def test_good_group_settings_are_accepted() -> None:
    validate_group({"consumer.session.timeout.ms": "50000", "share.isolation.level": "read_committed"}, BROKER)


def test_a_session_must_outlast_a_heartbeat() -> None:
    broker = broker_values({"group.consumer.max.heartbeat.interval.ms": "60000"})
    with pytest.raises(InvalidConfig, match=r"must be more than consumer.heartbeat.interval.ms"):
        validate_group({"consumer.heartbeat.interval.ms": "45000"}, broker)


def test_client_metrics_subscriptions_are_checked() -> None:
    validate_client_metrics({"metrics": "org.apache.kafka.", "interval.ms": "100", "match": "client_id=a.*"})
    for bad in ({"interval.ms": "99"}, {"intervals": "5"}):
        with pytest.raises(InvalidRequest):
            validate_client_metrics(bad)
    for match in ("client_id", "color=red", "client_id=[", "client_id=a(?!b)", "client_id=a=b"):
        with pytest.raises(InvalidConfig, match="match"):
            validate_client_metrics({"match": match})
