"""Push telemetry: what is taken is on the page of metrics; every refusal is one error code."""

from __future__ import annotations

import pushed_metrics as pushed
import pytest

from kavka.broker.client_telemetry import ClientTelemetry
from kavka.broker.handlers.get_telemetry_subscriptions import get_telemetry_subscriptions
from kavka.broker.handlers.push_telemetry import push_telemetry
from kavka.controller.configs import Op
from kavka.metadata.image import ConfigResource, ResourceType
from kavka.model.errors import InvalidRecord, InvalidRequest, TelemetryTooLarge, ThrottlingQuotaExceeded
from kavka.model.types import Uuid
from kavka.protocol.schemas.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kavka.protocol.schemas.push_telemetry import PushTelemetryRequest
from kavka.telemetry.client_metrics import ClientMetrics
from kavka.telemetry.metrics import Metrics
from kavka.telemetry.prometheus import render
from kavka.wire.compression import compress

MAX_BYTES = 20_000
ALL = ConfigResource(ResourceType.CLIENT_METRICS, "all")
DATA = pushed.push(pushed.gauge("org.apache.kafka.producer.queue.time.max", 2.5))


@pytest.fixture
def telemetry(loop):
    loop.write(loop.machine.incremental_alter_configs({ALL: {"metrics": (Op.SET, "*")}}))
    return ClientTelemetry(ClientMetrics(MAX_BYTES, lambda: Uuid(b"i" * 16)), loop)


@pytest.fixture
def push(ask, telemetry):
    asked = ask(
        get_telemetry_subscriptions, GetTelemetrySubscriptionsRequest(client_instance_id=Uuid.ZERO), 0, telemetry
    )

    def send(data=DATA, compression_type=0, instance_id=asked.client_instance_id, terminating=False):
        request = PushTelemetryRequest(
            client_instance_id=instance_id,
            subscription_id=asked.subscription_id,
            terminating=terminating,
            compression_type=compression_type,
            metrics=data,
        )
        return ask(push_telemetry, request, 0, telemetry).error_code

    return send


def page(telemetry):
    metrics = Metrics()
    telemetry.clients.show(metrics, lambda: 0)
    return [line for line in render(metrics).decode().splitlines() if line.startswith("kavka_client_")]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_what_is_pushed_is_on_the_page(push, telemetry, codec):
    assert push(compress(codec, DATA) if codec else DATA, codec) == 0
    (line,) = page(telemetry)
    assert line.startswith("kavka_client_producer_queue_time_max{")
    assert line.endswith(" 2.5")


def test_a_push_without_metrics_is_taken(push, telemetry):
    assert push(b"") == 0
    assert page(telemetry) == []


@pytest.mark.parametrize(
    ("data", "codec"),
    [(b"\xff\xff\xff", 0), (b"garbage", 4), (compress(4, bytes(MAX_BYTES + 1)), 4), (DATA[:-1], 0)],
    ids=["no otlp", "no zstd", "too large once decompressed", "cut"],
)
def test_what_cannot_be_read_is_an_invalid_record(push, telemetry, data, codec):
    with pytest.raises(InvalidRecord):
        push(data, codec)
    assert telemetry.clients.unreadable == 1


def test_too_much_is_refused(push):
    with pytest.raises(TelemetryTooLarge):
        push(bytes(MAX_BYTES + 1))


def test_a_push_needs_an_instance_id(push):
    with pytest.raises(InvalidRequest):
        push(instance_id=Uuid.ZERO)


def test_a_second_push_waits_for_the_interval_unless_it_is_the_last(push):
    assert push() == 0
    with pytest.raises(ThrottlingQuotaExceeded):
        push()
    assert push(terminating=True) == 0
    with pytest.raises(InvalidRequest):
        push()
