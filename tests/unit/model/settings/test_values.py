from __future__ import annotations

import pytest

from kavka.model.settings import (
    BROKER_ID,
    COMPRESSION_TYPE,
    LOG_RETENTION_MS,
    LOG_SEGMENT_BYTES,
    MESSAGE_MAX_BYTES,
    NODE_ID,
    NUM_PARTITIONS,
    SSL_KEYSTORE_PASSWORD,
    TOPIC_COMPRESSION_TYPE,
    TOPIC_FLUSH_MS,
    TOPIC_MAX_MESSAGE_BYTES,
    TOPIC_RETENTION_MS,
    TOPIC_SEGMENT_BYTES,
    TOPIC_SEGMENT_MS,
    SettingError,
    broker_values,
    topic_values,
    with_dynamic,
)

HOUR = 3_600_000


def test_what_is_not_set_has_its_default() -> None:
    values = broker_values({})
    assert values[LOG_SEGMENT_BYTES] == 1 << 30
    assert values[LOG_RETENTION_MS] is None
    assert LOG_SEGMENT_BYTES not in values


def test_what_is_set_is_parsed_once_and_known_to_be_set() -> None:
    values = broker_values({"log.segment.bytes": " 2097152 "})
    assert values[LOG_SEGMENT_BYTES] == 2097152
    assert LOG_SEGMENT_BYTES in values
    assert NUM_PARTITIONS not in values


def test_a_bad_value_is_refused_by_its_key() -> None:
    with pytest.raises(SettingError, match=r"num\.partitions"):
        broker_values({"num.partitions": "many"})


def test_unknown_keys_are_kept_but_are_no_settings() -> None:
    values = broker_values({"my.plugin.level": "7"})
    assert values.layers[0].texts["my.plugin.level"] == "7"


@pytest.mark.parametrize("key", ["node.id", "broker.id"])
def test_node_id_and_broker_id_are_one_thing(key: str) -> None:
    values = broker_values({key: "7"})
    assert (values[NODE_ID], values[BROKER_ID]) == (7, 7)


def test_values_do_not_show_secrets() -> None:
    values = broker_values({"ssl.keystore.password": "hunter2", "num.partitions": "3"})
    assert "hunter2" not in repr(values)
    assert values.text(SSL_KEYSTORE_PASSWORD) is None
    assert values.text(NUM_PARTITIONS) == "3"


def test_a_topic_follows_the_broker_until_it_is_given_a_value_of_its_own() -> None:
    broker = broker_values({"log.segment.bytes": "2097152", "message.max.bytes": "99", "compression.type": "zstd"})
    topic = topic_values({"segment.bytes": "4194304"}, broker)
    assert topic[TOPIC_SEGMENT_BYTES] == 4194304
    assert topic[TOPIC_MAX_MESSAGE_BYTES] == 99
    assert topic[TOPIC_COMPRESSION_TYPE] == "zstd"
    assert TOPIC_SEGMENT_BYTES in topic
    assert TOPIC_MAX_MESSAGE_BYTES not in topic


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 168 * HOUR),
        ({"log.retention.hours": "1"}, HOUR),
        ({"log.retention.hours": "1", "log.retention.minutes": "5"}, 300_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "5", "log.retention.ms": "7"}, 7),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_the_strongest_synonym_counts_and_units_are_converted(static: dict[str, str], retention_ms: int) -> None:
    assert topic_values({}, broker_values(static))[TOPIC_RETENTION_MS] == retention_ms


def test_roll_and_flush_times_follow_their_chains() -> None:
    topic = topic_values({}, broker_values({"log.roll.hours": "2", "log.flush.scheduler.interval.ms": "50"}))
    assert (topic[TOPIC_SEGMENT_MS], topic[TOPIC_FLUSH_MS]) == (2 * HOUR, 50)


def test_topics_without_overrides_share_what_the_broker_gives_them() -> None:
    broker = broker_values({"log.segment.bytes": "2097152"})
    assert topic_values({}, broker)._parsed is topic_values({}, broker)._parsed


def test_dynamic_values_win_over_static_ones_and_this_broker_over_the_cluster() -> None:
    static = broker_values({"message.max.bytes": "1", "compression.type": "gzip", "num.partitions": "5"})
    values = with_dynamic(static, {"message.max.bytes": "3"}, {"message.max.bytes": "2", "compression.type": "lz4"})
    assert values[MESSAGE_MAX_BYTES] == 3
    assert values[COMPRESSION_TYPE] == "lz4"
    assert values[NUM_PARTITIONS] == 5
    assert topic_values({}, values)[TOPIC_MAX_MESSAGE_BYTES] == 3


def test_dynamic_values_replace_earlier_dynamic_values() -> None:
    values = with_dynamic(broker_values({}), {"message.max.bytes": "3"}, {})
    assert with_dynamic(values, {}, {})[MESSAGE_MAX_BYTES] == MESSAGE_MAX_BYTES.default


def test_a_remembered_value_that_cannot_be_used_does_not_stop_the_node() -> None:
    remembered = {"message.max.bytes": "huge", "num.partitions": "9", "compression.type": "lz4"}
    values = with_dynamic(broker_values({}), {}, remembered | {"listeners": "PLAINTEXT://:1"})
    assert values[MESSAGE_MAX_BYTES] == MESSAGE_MAX_BYTES.default
    assert values[NUM_PARTITIONS] == 1
    assert values[COMPRESSION_TYPE] == "lz4"
