"""What is made of two looks at a cluster."""

from __future__ import annotations

from kavka.cli.bench import percentile, verdict
from kavka.console.rates import Look, clients_of, rates, size
from kavka.console.scraping import numbers
from kavka.model.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_rates_are_what_grew_and_the_busiest_come_first() -> None:
    before = Look(10.0, {A: 100, B: 0}, {A: 1000, B: 0}, {A: 1, B: 2}, {"g": {A: 50}}, {("c", "h"): (10, 500)})
    after = Look(
        12.0, {A: 120, B: 400}, {A: 900, B: 4000}, {A: 1, B: 2}, {"g": {A: 90}, "new": {B: 1}}, {("c", "h"): (30, 700)}
    )
    found = rates(before, after, 10)
    assert [(row.partition, row.messages_per_second, row.bytes_per_second) for row in found.partitions] == [
        ("b-0", 200, 2000),
        ("a-0", 10, 0),  # its log has become smaller
    ]
    assert [(row.group, row.lag, row.messages_per_second) for row in found.groups] == [("new", 399, 0), ("g", 30, 20)]
    assert [(row.client_id, row.in_bytes_per_second, row.out_bytes_per_second) for row in found.clients] == [
        ("c", 10, 100)
    ]
    assert (found.messages_per_second, found.bytes_per_second) == (210, 2000)


def test_what_was_not_there_before_has_no_rate_yet_and_who_reconnected_neither() -> None:
    before = Look(0.0, {}, {}, {}, {}, {("c", "h"): (100, 100)})
    after = Look(1.0, {A: 7}, {A: 70}, {A: 1}, {}, {("c", "h"): (50, 200), ("d", "h"): (1, 1)})
    found = rates(before, after, 1)
    assert (found.messages_per_second, len(found.clients), found.clients[0].in_bytes_per_second) == (0, 1, 0)


def test_clients_are_found_on_the_pages_of_all_nodes() -> None:
    page = 'kavka_connected_received_bytes{client_id="c",host="h"} 5.0\nkavka_partitions 3.0\n'
    other = 'kavka_connected_sent_bytes{client_id="c",host="h"} 9.0\n'
    assert clients_of([numbers(page), numbers(page), numbers(other)]) == {("c", "h"): (10, 9)}


def test_sizes_are_readable() -> None:
    assert [size(number) for number in (0, 1023, 1536, 5 * 2**20, 3 * 2**40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 TiB",
    ]


def test_a_verdict_names_what_is_wrong() -> None:
    good = {"produced": 5, "consumed": 5, "produce_mib_per_second": 10.0, "ack_p99_ms": 3.0}
    assert verdict(good, 9.0, 4.0) == []
    assert len(verdict({**good, "consumed": 4}, 11.0, 2.0)) == 3
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert percentile([1.0], 0.99) == 1.0
