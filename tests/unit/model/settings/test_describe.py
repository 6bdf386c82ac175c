from __future__ import annotations

from kavka.model.settings import BROKER, TOPIC, Source, broker_values, with_dynamic
from kavka.model.settings.describe import (
    NO_EFFECT,
    Alternative,
    Entry,
    describe_broker,
    describe_client_metrics,
    describe_cluster,
    describe_group,
    describe_topic,
)

NODE = broker_values({"node.id": "1", "log.segment.bytes": "2097152", "ssl.keystore.password": "hunter2"})


def only(entries: list[Entry]) -> Entry:
    (entry,) = entries
    return entry


def test_a_topic_is_described_by_all_its_keys_but_the_internal_ones() -> None:
    entries = describe_topic({}, NODE)
    hidden = {"internal.segment.bytes", "unclean.recovery.strategy"}
    assert [entry.name for entry in entries] == sorted(
        name for name in TOPIC if name not in hidden and not name.startswith("confluent.")
    )
    assert all(entry.source in (Source.DEFAULT, Source.STATIC) and not entry.read_only for entry in entries)


def test_an_internal_key_is_described_when_it_is_set() -> None:
    entry = only(describe_topic({"internal.segment.bytes": "100"}, NODE, {"internal.segment.bytes"}))
    assert (entry.value, entry.source) == ("100", Source.TOPIC)


def test_a_topics_own_value_comes_before_those_it_would_follow() -> None:
    entry = only(describe_topic({"segment.bytes": "4194304"}, NODE, ["segment.bytes"]))
    assert (entry.value, entry.source, entry.type_code, entry.is_default) == ("4194304", Source.TOPIC, 3, False)
    assert entry.synonyms == (
        Alternative("segment.bytes", "4194304", Source.TOPIC),
        Alternative("log.segment.bytes", "2097152", Source.STATIC),
        Alternative("log.segment.bytes", "1073741824", Source.DEFAULT),
    )


def test_a_topic_without_a_value_shows_the_brokers_and_where_that_was_set() -> None:
    entry = only(describe_topic({}, NODE, ["segment.bytes"]))
    assert (entry.value, entry.source) == ("2097152", Source.STATIC)
    dynamic = with_dynamic(NODE, {"log.segment.bytes": "3145728"}, {"log.segment.bytes": "5242880"})
    entry = only(describe_topic({}, dynamic, ["segment.bytes"]))
    assert (entry.value, entry.source) == ("3145728", Source.DYNAMIC_BROKER)
    assert [synonym.source.value for synonym in entry.synonyms] == [2, 3, 4, 5]


def test_weaker_synonyms_show_only_behind_the_strongest_as_in_kafka() -> None:
    hours = broker_values({"log.retention.hours": "1"})
    entry = only(describe_topic({}, hours, ["retention.ms"]))
    assert (entry.value, entry.source, entry.synonyms) == ("3600000", Source.DEFAULT, ())
    both = broker_values({"log.retention.hours": "1", "log.retention.ms": "5"})
    entry = only(describe_topic({}, both, ["retention.ms"]))
    assert [synonym[:2] for synonym in entry.synonyms] == [
        ("log.retention.ms", "5"),
        ("log.retention.hours", "1"),
        ("log.retention.hours", "168"),
    ]


def test_lists_are_shown_as_they_are_understood() -> None:
    assert only(describe_topic({"cleanup.policy": " compact , delete"}, NODE, ["cleanup.policy"])).value == (
        "compact,delete"
    )


def test_a_broker_is_described_by_every_key_that_is_not_internal_or_is_set() -> None:
    names = {entry.name for entry in describe_broker(NODE)}
    assert names == {name for name, setting in BROKER.items() if not setting.internal}
    hidden = broker_values({"log.initial.task.delay.ms": "5"})
    assert only(describe_broker(hidden, ["log.initial.task.delay.ms"])).value == "5"


def test_secrets_have_no_value_anywhere() -> None:
    entry = only(describe_broker(NODE, ["ssl.keystore.password"]))
    assert entry.sensitive
    assert (entry.value, entry.source, entry.type_code) == (None, Source.STATIC, 9)
    assert [synonym.value for synonym in entry.synonyms] == [None]
    assert "hunter2" not in repr(describe_broker(NODE))


def test_an_unknown_key_is_shown_as_a_secret() -> None:
    entry = only(describe_broker(broker_values({"my.plugin.token": "t0p"}), ["my.plugin.token"]))
    assert (entry.value, entry.sensitive, entry.type_code, entry.source) == (None, True, 0, Source.STATIC)


def test_only_dynamic_keys_can_be_changed() -> None:
    assert only(describe_broker(NODE, ["node.id"])).read_only
    assert not only(describe_broker(NODE, ["message.max.bytes"])).read_only


def test_a_key_of_a_listener_follows_the_key_behind_its_prefix() -> None:
    key = "listener.name.ext.ssl.keystore.location"
    values = broker_values({key: "/ext", "ssl.keystore.location": "/all"})
    entry = only(describe_broker(values, [key]))
    assert (entry.value, entry.type_code) == ("/ext", 2)
    assert [synonym.value for synonym in entry.synonyms] == ["/ext", "/all"]
    assert [synonym.value for synonym in only(describe_broker(values, ["ssl.keystore.location"])).synonyms] == ["/all"]


def test_the_clusters_entries_are_those_set_for_every_broker() -> None:
    values = with_dynamic(NODE, {"message.max.bytes": "1"}, {"message.max.bytes": "2"})
    entry = only(describe_cluster(values))
    assert (entry.name, entry.value, entry.source) == ("message.max.bytes", "2", Source.DYNAMIC_DEFAULT)
    assert [synonym.source for synonym in entry.synonyms] == [Source.DYNAMIC_DEFAULT]
    assert describe_cluster(NODE) == []


def test_a_key_without_effect_says_so() -> None:
    assert only(describe_broker(NODE, ["num.io.threads"])).documentation == NO_EFFECT
    assert only(describe_broker(NODE, ["num.partitions"])).documentation != NO_EFFECT


def test_groups_follow_the_broker_or_their_own_defaults() -> None:
    broker = broker_values({"group.consumer.session.timeout.ms": "50000"})
    entry = only(describe_group({}, broker, ["consumer.session.timeout.ms"]))
    assert (entry.value, entry.source) == ("50000", Source.STATIC)
    entry = only(describe_group({}, broker, ["share.isolation.level"]))
    assert entry.synonyms == (Alternative("share.isolation.level", "read_uncommitted", Source.DEFAULT),)
    entry = only(describe_group({"share.isolation.level": "read_committed"}, broker, ["share.isolation.level"]))
    assert (entry.value, entry.source) == ("read_committed", Source.GROUP)


def test_client_metrics_show_what_is_set() -> None:
    values = {entry.name: (entry.value, entry.source) for entry in describe_client_metrics({"interval.ms": "100"})}
    assert values == {
        "interval.ms": ("100", Source.CLIENT_METRICS),
        "match": ("", Source.DEFAULT),
        "metrics": ("", Source.DEFAULT),
    }
