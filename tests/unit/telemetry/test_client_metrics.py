"""Clients' metrics: who is asked for what, who is refused and why, and what the page shows of them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pushed_metrics as pushed
import pytest

from kavka.model.errors import (
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from kavka.model.types import Uuid
from kavka.telemetry import client_metrics
from kavka.telemetry.client_metrics import Answer, Client, ClientMetrics
from kavka.telemetry.metrics import Metrics
from kavka.telemetry.otlp import points
from kavka.telemetry.prometheus import render

NOW = 1_700_000_000_000
INTERVAL = 1_000
JAVA = Client("app-1", "apache-kafka-java", "4.3.1", "10.0.0.1", "4711", "User:alice")
ZSTD = 4


def ids() -> Iterator[Uuid]:
    return (Uuid((1 << 100 | number).to_bytes(16, "big")) for number in itertools.count(1))


@pytest.fixture
def clients() -> ClientMetrics:
    made = ids()
    clients = ClientMetrics(10_000, lambda: next(made))
    clients.follow({"all": {"metrics": "*", "interval.ms": str(INTERVAL)}})
    return clients


def push(clients: ClientMetrics, answer: Answer, now_ms: int = NOW, data: bytes = b"", **changed: Any) -> None:
    wanted: dict[str, Any] = {
        "subscription_id": answer.subscription_id,
        "terminating": False,
        "compression_type": 0,
        "size": len(data),
    }
    clients.admit(answer.instance_id, JAVA, now_ms, **(wanted | changed))
    for _ in clients.take(answer.instance_id, JAVA, points(memoryview(data)), now_ms):
        pass


def refused(error: type[KafkaError], clients: ClientMetrics, answer: Answer, now_ms: int, **changed: Any) -> None:
    with pytest.raises(error):
        push(clients, answer, now_ms, **changed)


def page(clients: ClientMetrics, now_ms: int = NOW) -> list[str]:
    metrics = Metrics()
    clients.show(metrics, lambda: now_ms)
    return [line for line in render(metrics).decode().splitlines() if line.startswith("kavka_client_")]


# -- what is asked for --------------------------------------------------------------------------------


def test_nobody_is_asked_for_anything_without_a_subscription() -> None:
    clients = ClientMetrics(10_000, lambda: Uuid(b"i" * 16))
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    assert (answer.instance_id, answer.metrics, answer.interval_ms) == (Uuid(b"i" * 16), (), 300_000)


def test_the_metrics_of_all_that_match_and_the_shortest_interval() -> None:
    clients = ClientMetrics(10_000, lambda: Uuid(b"i" * 16))
    clients.follow(
        {
            "one": {"metrics": "b.,a.", "interval.ms": "5000"},
            "two": {
                "metrics": "c.",
                "interval.ms": "2000",
                "match": "client_software_name=apache-.*,client_id=app-[0-9]",
            },
            "no": {"metrics": "d.", "interval.ms": "100", "match": "client_id=app"},
            "nor": {
                "metrics": "e.",
                "interval.ms": "100",
                "match": "client_source_port=4711,client_source_address=1.*4",
            },
        }
    )
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    assert (answer.metrics, answer.interval_ms) == (("a.", "b.", "c."), 2000)


def test_a_star_stands_for_all(clients: ClientMetrics) -> None:
    clients.follow({"a": {"metrics": "a."}, "b": {"metrics": "*", "interval.ms": "500"}})
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    assert (answer.metrics, answer.interval_ms) == (("*",), 500)


def test_who_asks_again_waits_for_the_interval_unless_the_subscription_changed(clients: ClientMetrics) -> None:
    first = clients.ask(Uuid.ZERO, JAVA, NOW)
    with pytest.raises(ThrottlingQuotaExceeded):
        clients.ask(first.instance_id, JAVA, NOW + INTERVAL - 1)
    assert clients.ask(first.instance_id, JAVA, NOW + INTERVAL) == first
    clients.follow({"all": {"metrics": "x."}})
    second = clients.ask(first.instance_id, JAVA, NOW + INTERVAL)
    assert second.metrics == ("x.",)
    assert second.subscription_id != first.subscription_id
    assert clients.throttled == 1


def test_two_clients_have_two_subscription_ids(clients: ClientMetrics) -> None:
    one, two = clients.ask(Uuid.ZERO, JAVA, NOW), clients.ask(Uuid.ZERO, JAVA, NOW)
    assert one.subscription_id != two.subscription_id


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reserved", [Uuid.ZERO, Uuid.METADATA_TOPIC])
def test_a_push_without_an_instance_id_is_refused(clients: ClientMetrics, reserved: Uuid) -> None:
    refused(InvalidRequest, clients, Answer(reserved, 0, (), 0), NOW)


def test_a_push_right_after_the_subscription_is_taken_and_the_next_after_the_interval(clients: ClientMetrics) -> None:
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    push(clients, answer, NOW + 1)
    refused(ThrottlingQuotaExceeded, clients, answer, NOW + INTERVAL)
    push(clients, answer, NOW + 1 + INTERVAL)


def test_the_last_push_may_come_at_any_time_but_is_the_last(clients: ClientMetrics) -> None:
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    push(clients, answer, NOW + 1)
    push(clients, answer, NOW + 2, terminating=True)
    refused(InvalidRequest, clients, answer, NOW + 5 * INTERVAL)


def test_an_outdated_subscription_is_refused_and_may_be_asked_for_at_once(clients: ClientMetrics) -> None:
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    refused(UnknownSubscriptionId, clients, answer, NOW + 1, subscription_id=answer.subscription_id + 1)
    assert clients.ask(answer.instance_id, JAVA, NOW + 2) == answer
    assert clients.unknown_subscriptions == 1


def test_an_unknown_compression_type_is_refused_and_the_subscription_may_be_asked_for(clients: ClientMetrics) -> None:
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    refused(UnsupportedCompressionType, clients, answer, NOW + 1, compression_type=9)
    assert clients.ask(answer.instance_id, JAVA, NOW + 2) == answer


def test_too_much_at_once_is_refused(clients: ClientMetrics) -> None:
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    refused(TelemetryTooLarge, clients, answer, NOW + 1, size=10_001)


# -- what is shown ------------------------------------------------------------------------------------


def test_the_page_shows_what_was_pushed_last_and_sums_what_came_on_top(clients: ClientMetrics) -> None:
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    for number in range(3):
        data = pushed.push(
            pushed.gauge("org.apache.kafka.consumer.lag", float(number), topic="t"),
            pushed.counter("org.apache.kafka.consumer.fetch.total", 2),
            pushed.counter("since.start", number, pushed.CUMULATIVE),
        )
        push(clients, answer, NOW + number * INTERVAL + 1, data)
    who = (
        f'client_id="app-1",client_instance_id="{answer.instance_id}",client_software_name="apache-kafka-java",'
        'client_software_version="4.3.1",client_source_address="10.0.0.1",principal="User:alice"'
    )
    assert page(clients, NOW + 3 * INTERVAL) == [
        f"kavka_client_consumer_fetch_total{{{who}}} 6.0",
        f'kavka_client_consumer_lag{{{who},topic="t"}} 2.0',
        f"kavka_client_since_start_total{{{who}}} 2.0",
    ]


def test_no_client_can_pass_for_another_by_its_labels(clients: ClientMetrics) -> None:
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    labels = {"client_id": "somebody", "principal": "User:admin", "a b": '"\n\\', "9": "x"}
    push(clients, answer, data=pushed.push(pushed.gauge("g", 1.0, **labels)))
    (line,) = page(clients)
    assert 'client_id="app-1"' in line
    assert 'principal="User:alice"' in line
    assert 'a_b="\\"\\n\\\\"' in line
    assert "somebody" not in line
    assert "admin" not in line


def test_a_name_is_of_one_kind_whatever_clients_say(clients: ClientMetrics) -> None:
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    push(clients, answer, data=pushed.push(pushed.counter("x.total", 1), pushed.gauge("x.total", 5.0)))
    (line,) = page(clients)
    assert line.startswith("kavka_client_x_total{")
    assert line.endswith(" 1.0")
    assert clients.series_refused == 1


def test_series_and_clients_have_a_limit(clients: ClientMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "MAX_SERIES", 5)
    monkeypatch.setattr(client_metrics, "MAX_SERIES_OF_CLIENT", 3)
    monkeypatch.setattr(client_metrics, "MAX_CLIENTS", 2)
    answers = [clients.ask(Uuid.ZERO, JAVA, NOW) for _ in range(3)]
    for answer in answers[1:]:
        push(clients, answer, data=pushed.push(*(pushed.gauge(f"g{number}", 1.0) for number in range(10))))
    assert len(page(clients)) == 5
    assert clients.series_refused == 15
    assert clients.ask(answers[0].instance_id, JAVA, NOW) == answers[0]  # forgotten: no interval to wait for


def test_what_is_refused_leaves_nothing_behind(clients: ClientMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "MAX_SERIES_OF_CLIENT", 1)
    monkeypatch.setattr(client_metrics, "MAX_CLIENTS", 1)
    first, second = clients.ask(Uuid.ZERO, JAVA, NOW), clients.ask(Uuid.ZERO, JAVA, NOW)
    push(clients, first, data=pushed.push(*(pushed.gauge(f"g{number}", 1.0) for number in range(100))))
    push(clients, second, data=pushed.push(pushed.gauge("h", 1.0)))
    assert [line.partition("{")[0] for line in page(clients)] == ["kavka_client_g0"]
    push(clients, first, NOW + INTERVAL, pushed.push(pushed.gauge("g0", 2.0)))  # what is shown goes on
    assert page(clients)[0].endswith(" 2.0")
    assert clients.series_refused == 100


def test_what_is_out_of_date_goes(clients: ClientMetrics) -> None:
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    push(clients, answer, data=pushed.push(pushed.gauge("g", 1.0)))
    clients.gone(answer.instance_id)
    assert len(page(clients, NOW + 60_000)) == 1  # longer than its connection: the last push is for somebody to see
    assert page(clients, NOW + 80_000) == []
    push(clients, clients.ask(Uuid.ZERO, JAVA, NOW), data=pushed.push(pushed.counter("g", 1)))
    assert len(page(clients, NOW + 80_000)) == 1  # and nobody remembers that it was a gauge


def test_a_name_that_nobody_pushes_any_more_is_forgotten_though_others_push(clients: ClientMetrics) -> None:
    first, second = clients.ask(Uuid.ZERO, JAVA, NOW), clients.ask(Uuid.ZERO, JAVA, NOW)
    push(clients, first, data=pushed.push(pushed.gauge("g", 1.0)))
    push(clients, second, NOW + 50_000, pushed.push(pushed.gauge("h", 1.0)))
    assert len(page(clients, NOW + 80_000)) == 1
    push(clients, second, NOW + 80_000, pushed.push(pushed.gauge("h", 1.0), pushed.counter("g", 1)))
    assert len(page(clients, NOW + 80_000)) == 2


def test_a_page_that_is_being_written_has_what_is_forgotten_meanwhile(clients: ClientMetrics) -> None:
    answer = clients.ask(Uuid.ZERO, JAVA, NOW)
    push(clients, answer, data=pushed.push(pushed.gauge("g", 1.0), pushed.gauge("h", 1.0)))
    metrics = Metrics()
    clients.show(metrics, lambda: NOW)
    families = (each for each in metrics if each.name.startswith("kavka_client_"))
    assert next(families).name == "kavka_client_g"
    clients.sweep(NOW + 80_000)
    assert next(families).name == "kavka_client_h"


def test_a_node_starts_without_what_the_checksums_library_brings_along() -> None:
    script = "import sys; import kavka.broker.broker_role; assert 'importlib.metadata' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
