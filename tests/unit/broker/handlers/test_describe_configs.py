"""Describe configs: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.describe_configs import describe_configs
from kavka.controller.configs import Op
from kavka.metadata.image import ConfigResource
from kavka.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def tell(ask, loop):
    loop.topic("a", configs={"retention.ms": "5"})
    change = {ConfigResource(BROKER, ""): {"log.cleaner.threads": (Op.SET, "2")}}
    loop.write(loop.machine.incremental_alter_configs(change))

    def call(kind, name, keys=None, version=4, **more):
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        request = DescribeConfigsRequest(resources=[resource], **more)
        (row,) = ask(describe_configs, request, version, loop, loop.settings).results
        assert (row.resource_type, row.resource_name) == (kind, name)
        return row

    return call


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_shows_every_key_with_its_source(tell, version):
    row = tell(TOPIC, "a", version=version, include_synonyms=True)
    shown = {config.name: config for config in row.configs}
    assert len(shown) > 25
    assert (shown["retention.ms"].value, shown["retention.ms"].config_source) == ("5", 1)
    assert [(synonym.name, synonym.source) for synonym in shown["retention.ms"].synonyms] == [("retention.ms", 1)]
    assert [(synonym.name, synonym.source) for synonym in shown["segment.bytes"].synonyms] == [("log.segment.bytes", 5)]
    assert (shown["segment.bytes"].value, shown["segment.bytes"].config_source) == ("1073741824", 5)
    if version >= 3:
        assert shown["segment.bytes"].config_type == 3
        assert shown["segment.bytes"].documentation is None


def test_only_the_keys_asked_for_are_shown(tell):
    assert [config.name for config in tell(TOPIC, "a", ["retention.ms"]).configs] == ["retention.ms"]
    assert len(tell(TOPIC, "a", []).configs) > 25


def test_documentation_and_synonyms_come_on_request(tell):
    config = tell(TOPIC, "a", ["retention.ms"], include_documentation=True).configs[0]
    assert config.documentation
    assert config.synonyms == []


def test_the_broker_shows_its_settings_and_what_is_dynamic(tell):
    shown = {config.name: config for config in tell(BROKER, "1").configs}
    assert (shown["log.cleaner.threads"].value, shown["log.cleaner.threads"].config_source) == ("2", 3)
    assert not shown["log.cleaner.threads"].read_only
    assert shown["node.id"].read_only


def test_all_brokers_show_what_is_set_for_them(tell):
    shown = {config.name: config.value for config in tell(BROKER, "").configs}
    assert shown == {"log.cleaner.threads": "2", "min.insync.replicas": "1"}


def test_groups_and_subscriptions_have_defaults(tell):
    assert {config.name for config in tell(GROUP, "g").configs} > {"consumer.session.timeout.ms"}
    assert {config.name for config in tell(METRICS, "m").configs} == {"interval.ms", "match", "metrics"}


def test_loggers_have_levels(tell):
    shown = {
        config.name: (config.value, config.config_source, config.read_only) for config in tell(LOGGER, "1").configs
    }
    assert shown["root"][1:] == (6, False)
    assert shown["root"][0] in ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")


def test_the_message_of_success_is_empty_as_kafkas(tell):
    assert tell(LOGGER, "1").error_message == ""


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", 3),
        (TOPIC, "bad name", 17),
        (BROKER, "2", 42),
        (BROKER, "x", 42),
        (LOGGER, "", 42),
        (LOGGER, "2", 42),
        (GROUP, "", 42),
        (METRICS, "", 42),
        (7, "x", 42),
    ],
)
def test_every_refusal_is_one_error_code(tell, kind, name, code):
    row = tell(kind, name)
    assert (row.error_code, row.configs) == (code, [])
    assert bool(row.error_message) == (name != "nope")  # Kafka has no words for a topic that is not there
