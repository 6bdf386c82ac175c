"""The settings in force: layers, who hears of changes, and what they do not concern."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.metadata.delta import apply
from kavka.metadata.image import EMPTY, ResourceType
from kavka.metadata.live import LiveSettings, SettingsAt
from kavka.metadata.records.settings import ConfigRecord
from kavka.model.settings import MAX_CONNECTIONS, NUM_IO_THREADS, TOPIC_RETENTION_MS, broker_values
from kavka.model.settings.group import CONSUMER_SESSION_TIMEOUT_MS

NODE = 1


class Cluster:
    """Settings that follow the metadata."""

    def __init__(self, **static):
        texts = {name.replace("_", "."): str(value) for name, value in static.items()}
        self.image = EMPTY
        self.live = LiveSettings(NODE, broker_values(texts))
        self.heard: list[Any] = []
        self.live.subscribe(self.heard.append)

    def set(self, kind, name, **configs):
        """Set keys of a resource; None removes one."""
        records = [
            ConfigRecord(
                resource_type=kind,
                resource_name=name,
                name=key.replace("_", "."),
                value=None if value is None else str(value),
            )
            for key, value in configs.items()
        ]
        self.image, delta = apply(self.image, records, self.image.offset + 1, 1)
        self.live.apply(self.image, delta)


def test_the_nearest_setting_wins():
    cluster = Cluster(max_connections=10)
    found = [cluster.live[MAX_CONNECTIONS]]
    for name, number in (("", 20), ("1", 30), ("1", None), ("", None)):
        cluster.set(ResourceType.BROKER, name, max_connections=number)
        found.append(cluster.live[MAX_CONNECTIONS])
    assert found == [10, 20, 30, 20, 10]
    assert cluster.live.static[MAX_CONNECTIONS] == 10


def test_who_subscribes_hears_of_changes_of_this_node_only():
    cluster = Cluster()
    cluster.set(ResourceType.BROKER, "2", max_connections=5)
    cluster.set(ResourceType.TOPIC, "t", retention_ms=5)
    cluster.set(ResourceType.GROUP, "g", consumer_session_timeout_ms=50_000)
    assert cluster.heard == []
    cluster.set(ResourceType.BROKER, "", max_connections=5)
    assert [values[MAX_CONNECTIONS] for values in cluster.heard] == [5]
    assert cluster.heard[-1] is cluster.live.values


def test_what_was_set_before_counts_from_the_start():
    cluster = Cluster()
    cluster.set(ResourceType.BROKER, "", max_connections=5)
    assert LiveSettings(NODE, broker_values({}), cluster.image)[MAX_CONNECTIONS] == 5


def test_what_can_only_be_set_at_the_start_does_not_change():
    cluster = Cluster(num_io_threads=3, node_id=1)
    cluster.set(ResourceType.BROKER, "1", **{"broker.id": 9})
    assert cluster.live[NUM_IO_THREADS] == 3
    assert cluster.live.values.layers[0].texts == {}


def test_topics_and_groups_follow_the_node_unless_they_have_their_own():
    cluster = Cluster(log_retention_ms=1000, group_consumer_session_timeout_ms=46_000)
    assert cluster.live.topic("t")[TOPIC_RETENTION_MS] == 1000
    assert cluster.live.group("g")[CONSUMER_SESSION_TIMEOUT_MS] == 46_000
    cluster.set(ResourceType.BROKER, "", log_retention_ms=2000)
    assert cluster.live.topic("t")[TOPIC_RETENTION_MS] == 2000
    cluster.set(ResourceType.TOPIC, "t", retention_ms=3000)
    cluster.set(ResourceType.GROUP, "g", consumer_session_timeout_ms=50_000)
    assert [cluster.live.topic(name)[TOPIC_RETENTION_MS] for name in ("t", "u")] == [3000, 2000]
    assert [cluster.live.group(name)[CONSUMER_SESSION_TIMEOUT_MS] for name in ("g", "h")] == [50_000, 46_000]


@pytest.mark.parametrize("name", ["", "1"])
def test_an_earlier_image_can_be_asked_about(name):
    cluster = Cluster()
    at, before = SettingsAt(NODE, broker_values({})), cluster.image
    cluster.set(ResourceType.BROKER, name, max_connections=5)
    assert at.broker(cluster.image.configs)[MAX_CONNECTIONS] == 5
    assert at.broker(before.configs)[MAX_CONNECTIONS] == MAX_CONNECTIONS.default
    assert at.broker(before.configs) is at.broker(before.configs)
