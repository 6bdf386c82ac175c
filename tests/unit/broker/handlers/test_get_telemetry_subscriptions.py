"""Get telemetry subscriptions: what the cluster's configs ask clients for."""

from __future__ import annotations

import pytest

from kavka.broker.client_telemetry import ClientTelemetry
from kavka.broker.handlers.api_versions import served
from kavka.broker.handlers.get_telemetry_subscriptions import get_telemetry_subscriptions
from kavka.controller.configs import Op
from kavka.metadata.image import ConfigResource, ResourceType
from kavka.model.errors import ThrottlingQuotaExceeded
from kavka.model.settings import broker_values
from kavka.model.types import Uuid
from kavka.protocol.schemas.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kavka.telemetry.client_metrics import ClientMetrics

MINE = Uuid(b"m" * 16)


@pytest.fixture
def tell(ask, loop):
    telemetry = ClientTelemetry(ClientMetrics(1000, lambda: Uuid(b"i" * 16)), loop)

    def call(instance_id=Uuid.ZERO):
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        return ask(get_telemetry_subscriptions, request, 0, telemetry)

    return call


def configure(loop, **values):
    changes = {name.replace("_", "."): (Op.SET, value) for name, value in values.items()}
    loop.write(loop.machine.incremental_alter_configs({ConfigResource(ResourceType.CLIENT_METRICS, "mine"): changes}))


def test_who_has_no_id_gets_one_and_nobody_is_asked_for_anything_by_default(tell):
    answer = tell()
    assert answer.client_instance_id == Uuid(b"i" * 16)
    assert answer.requested_metrics == []
    assert (answer.push_interval_ms, answer.telemetry_max_bytes, answer.delta_temporality) == (300_000, 1000, True)
    assert answer.accepted_compression_types == [4, 3, 1, 2]


def test_a_subscription_is_told_as_soon_as_it_is_set(tell, loop):
    before = tell(MINE)
    with pytest.raises(ThrottlingQuotaExceeded):
        tell(MINE)
    configure(loop, metrics="org.apache.kafka.producer.", interval_ms="100")
    after = tell(MINE)
    assert after.requested_metrics == ["org.apache.kafka.producer."]
    assert after.push_interval_ms == 100
    assert after.client_instance_id == MINE
    assert after.subscription_id != before.subscription_id


def test_another_config_changes_nothing_for_a_client(tell, loop):
    tell(MINE)
    loop.topic("other")
    with pytest.raises(ThrottlingQuotaExceeded):
        tell(MINE)


def test_the_apis_are_offered_where_there_is_a_page_to_show_metrics_on():
    def offered(settings):
        return {71, 72} & {api.api_key for api in served(values=broker_values(settings))}

    assert offered({}) == set()
    assert offered({"kavka.metrics.listener": "127.0.0.1:0"}) == {71, 72}
