"""Alter configs: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.forwarding import Forwarding
from kavka.broker.handlers.alter_configs import alter_configs
from kavka.model.settings import SettingError
from kavka.protocol.schemas.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource

TOPIC, BROKER, LOGGER = 2, 4, 8


def resource(kind, name, *values):
    configs = [AlterableConfig(name=key, value=value) for key, value in values]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


@pytest.fixture
def tell(ask, loop):
    loop.topic("a", configs={"retention.ms": "5", "segment.ms": "7"})

    def call(*resources, version=2, validate_only=False):
        request = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        return [
            row.error_code for row in ask(alter_configs, request, version, loop, loop.settings, Forwarding()).responses
        ]

    return call


@pytest.mark.parametrize("version", range(3))
def test_the_whole_configuration_is_replaced(tell, loop, version):
    assert tell(resource(TOPIC, "a", ("retention.ms", "6")), version=version) == [0]
    assert loop.image.configs.of_topic("a") == {"retention.ms": "6"}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource(TOPIC, "nope"), 3),
        (resource(TOPIC, "a", ("retention.ms", "x")), 40),
        (resource(TOPIC, "a", ("retention.ms", None)), 42),
        (resource(TOPIC, "a", ("retention.ms", "1"), ("retention.ms", "2")), 42),
        (resource(BROKER, "2", ("log.cleaner.threads", "2")), 42),
        (resource(BROKER, "1", ("node.id", "2")), 42),
        (resource(BROKER, "1", ("log.cleaner.threads", "2")), 0),
        (resource(BROKER, ""), 40),  # it would remove the cluster's min.insync.replicas
        (resource(LOGGER, "1", ("a", "b")), 42),
    ],
)
def test_every_outcome_is_one_error_code(tell, loop, asked, code):
    before = loop.image
    assert tell(asked) == [code]
    assert (loop.image is before) == bool(code)


def test_validating_only_changes_nothing(tell, loop):
    assert tell(resource(TOPIC, "a"), validate_only=True) == [0]
    assert loop.image.configs.of_topic("a") == {"retention.ms": "5", "segment.ms": "7"}


def test_what_is_removed_is_tried_before_as_well(ask, tell, loop):
    assert tell(resource(BROKER, "1", ("listener.name.extra.ssl.keystore.location", "/keys"))) == [0]

    async def needs_the_keys(values):
        raise SettingError("listener EXTRA has no keys then")

    settings = loop.settings
    settings.ask_before(needs_the_keys)
    request = AlterConfigsRequest(resources=[resource(BROKER, "1", ("log.cleaner.threads", "2"))], validate_only=False)
    (row,) = ask(alter_configs, request, 2, loop, settings, Forwarding()).responses
    assert (row.error_code, row.error_message) == (42, "listener EXTRA has no keys then")
