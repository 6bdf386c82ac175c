"""What a node shows of its partitions, and how partitions change their leaders."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest
from held import Held

from kavka.broker.partition_metrics import CpuShares, LeaderChanges, show_partitions
from kavka.metadata.delta import MetadataDelta, apply
from kavka.metadata.image import MetadataImage
from kavka.metadata.image.metadata import EMPTY
from kavka.metadata.records.topics import PartitionRecord, TopicRecord
from kavka.model.types import Uuid
from kavka.replica.traffic import Traffic
from kavka.telemetry.metrics import Metrics
from kavka.telemetry.prometheus import render


def values(metrics: Metrics) -> dict[str, float]:
    lines = render(metrics).decode().splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def test_traffic_is_shown_by_partition_topic_and_node(held: Held) -> None:
    metrics = Metrics()
    show_partitions(metrics, held.replicas, "partition")
    held.topic("orders", 2)
    for _ in range(3):
        held.produce(held.replicas.find("orders", 0))
    held.replicas.given("orders", 0, 70, failed=False)
    held.replicas.given("orders", 1, 0, failed=True)
    found, size = values(metrics), held.replicas.find("orders", 0).size_bytes
    assert found['kavka_partition_in_messages_total{topic="orders",partition="0"}'] == 3
    assert found['kavka_partition_log_end_offset{topic="orders",partition="0"}'] == 3
    assert found['kavka_topic_produce_requests_total{topic="orders"}'] == 3
    assert found['kavka_topic_in_bytes_total{topic="orders"}'] == found['kavka_topic_log_bytes{topic="orders"}'] == size
    assert found["kavka_node_out_bytes_total"] == 70
    assert found["kavka_node_fetch_requests_total"] == 2
    assert found["kavka_node_failed_fetch_requests_total"] == 1


def test_records_that_are_compressed_anew_are_counted(held: Held) -> None:
    metrics = Metrics()
    show_partitions(metrics, held.replicas, "topic")
    held.topic("packed", 1, compression_type="gzip")
    held.produce(held.replicas.find("packed", 0), b"one", b"two")
    held.topic("plain", 1)
    held.produce(held.replicas.find("plain", 0), b"one", b"two")
    found = values(metrics)
    assert found['kavka_topic_produce_conversions_total{topic="packed"}'] == 2
    assert found['kavka_topic_produce_conversions_total{topic="plain"}'] == 0


def test_what_the_node_spends_is_divided_by_what_there_was_to_do() -> None:
    spent = [10.0]
    shares, busy, idle, quiet = CpuShares(lambda: spent[0]), Traffic(), Traffic(), Traffic()
    busy.in_bytes, quiet.out_bytes = 300, 100
    spent[0] = 14.0
    list(shares.charge([busy, idle, quiet]))
    assert (busy.cpu_seconds, idle.cpu_seconds, quiet.cpu_seconds) == (3.0, 0.0, 1.0)
    idle.fetch_requests = 1
    spent[0] = 15.0
    list(shares.charge([busy, idle, quiet]))
    assert (busy.cpu_seconds, idle.cpu_seconds, quiet.cpu_seconds) == (3.0, 1.0, 1.0)
    list(shares.charge([busy, idle, quiet]))
    assert idle.cpu_seconds == 1.0


@pytest.mark.parametrize(("detail", "shown"), [("node", set()), ("topic", {"kavka_topic_"})])
def test_what_is_fine_is_shown_only_where_it_is_wanted(held: Held, detail: str, shown: set[str]) -> None:
    metrics = Metrics()
    show_partitions(metrics, held.replicas, detail)
    held.topic("orders", 2)
    found = values(metrics)
    assert {
        prefix for prefix in ("kavka_topic_", "kavka_partition_") for name in found if name.startswith(prefix)
    } == shown
    assert found["kavka_partitions"] == 2


def test_what_was_counted_stays_counted_when_a_topic_goes(held: Held) -> None:
    metrics = Metrics()
    show_partitions(metrics, held.replicas, "topic")
    held.topic("orders", 1)
    held.produce(held.replicas.find("orders", 0))
    before = values(metrics)["kavka_node_in_bytes_total"]
    held.delete("orders")
    after = values(metrics)
    assert after["kavka_node_in_bytes_total"] == before > 0
    assert after["kavka_node_in_messages_total"] == 1
    assert 'kavka_topic_in_bytes_total{topic="orders"}' not in after


class Controller:
    """An active controller without a quorum."""

    is_active = True
    image: MetadataImage = EMPTY

    def subscribe(self, subscriber: Any) -> None:
        """Nothing is told but by the test."""


def led(*, leader: int, isr: tuple[int, ...]) -> MetadataImage:
    """A cluster with one partition on the brokers 1, 2 and 3."""
    topic_id = Uuid(b"0123456789abcdef")
    records = [
        TopicRecord(name="orders", topic_id=topic_id),
        PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=[1, 2, 3],
            isr=list(isr),
            removing_replicas=[],
            adding_replicas=[],
            leader=leader,
            leader_epoch=0,
            partition_epoch=0,
            directories=[Uuid.ZERO] * 3,
        ),
    ]
    return apply(EMPTY, records, 1, 1)[0]


def test_elections_are_counted_and_unclean_ones_told_apart() -> None:
    controller: Any = Controller()
    changes = LeaderChanges(controller)
    changed = MetadataDelta(changed_partitions={Uuid(b"0123456789abcdef"): frozenset({0})})
    steps = [
        (led(leader=1, isr=(1, 2)), 0, 0),  # it is new
        (led(leader=2, isr=(2,)), 1, 0),
        (led(leader=-1, isr=(2,)), 1, 0),
        (led(leader=3, isr=(3,)), 2, 1),
        (led(leader=3, isr=(1, 3)), 2, 1),
    ]
    for image, elections, unclean in steps:
        list(changes.apply(image, changed))
        assert (changes.elections, changes.unclean) == (elections, unclean)
    controller.is_active = False
    list(changes.apply(led(leader=1, isr=(1,)), changed))
    assert changes.elections == 2


def test_a_number_of_a_topic_costs_few_calls(held: Held) -> None:
    metrics = Metrics()
    show_partitions(metrics, held.replicas, "topic")
    for number in range(100):
        held.topic(f"topic-{number}", 2)
    calls: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, _: calls.update([event]))
    try:
        page = render(metrics)
    finally:
        sys.setprofile(None)
    samples = page.decode().count('{topic="')
    assert samples == 1100
    assert calls["call"] < 8 * samples, "at 10,000 partitions a scrape is to cost less than 100 ms"
