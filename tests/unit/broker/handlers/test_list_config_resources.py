"""List config resources: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.list_config_resources import list_config_resources
from kavka.controller.configs import Op
from kavka.metadata.image import ConfigResource
from kavka.model.errors import UnsupportedVersion
from kavka.protocol.schemas.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def tell(ask, loop):
    loop.topic("a")
    changes = {
        ConfigResource(GROUP, "g"): {"consumer.session.timeout.ms": (Op.SET, "50000")},
        ConfigResource(METRICS, "m"): {"interval.ms": (Op.SET, "500")},
    }
    loop.write(loop.machine.incremental_alter_configs(changes))

    def call(*types, version=1):
        answer = ask(list_config_resources, ListConfigResourcesRequest(resource_types=list(types)), version, loop)
        return [(resource.resource_type, resource.resource_name) for resource in answer.config_resources]

    return call


def test_none_named_means_all_types(tell):
    assert sorted(tell()) == [(TOPIC, "a"), (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g")]


def test_types_can_be_chosen(tell):
    assert tell(TOPIC, GROUP) == [(GROUP, "g"), (TOPIC, "a")]


def test_version_0_knows_only_client_metrics(tell):
    assert tell(version=0) == [(METRICS, "m")]


def test_an_unknown_type_is_refused(tell):
    with pytest.raises(UnsupportedVersion):
        tell(99)
