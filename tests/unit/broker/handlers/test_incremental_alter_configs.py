"""Incremental alter configs: every outcome is one error code."""

from __future__ import annotations

import logging

import pytest

from kavka.broker.forwarding import Forwarding
from kavka.broker.handlers.incremental_alter_configs import incremental_alter_configs
from kavka.metadata.image import ConfigResource
from kavka.model.errors import KafkaStorageError
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.telemetry.loggers import levels

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(kind, name, *changes):
    configs = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


@pytest.fixture
def tell(ask, loop):
    loop.topic("a")

    def call(*resources, version=1, validate_only=False):
        request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        rows = ask(incremental_alter_configs, request, version, loop, loop.settings, Forwarding()).responses
        assert [(row.resource_type, row.resource_name) for row in rows] == [
            (resource.resource_type, resource.resource_name) for resource in resources
        ]
        assert all(bool(row.error_message) == bool(row.error_code) for row in rows)
        return [row.error_code for row in rows]

    return call


@pytest.mark.parametrize("version", [0, 1])
def test_each_resource_is_changed_or_refused(tell, loop, version):
    codes = tell(
        resource(TOPIC, "a", ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")),
        resource(TOPIC, "nope", ("retention.ms", SET, "5")),
        resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
        resource(METRICS, "m", ("interval.ms", SET, "5")),
        version=version,
    )
    assert codes == [0, 3, 0, 42]
    assert loop.image.configs.of_topic("a") == {"retention.ms": "5", "cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource(TOPIC, "a", ("retention.ms", SET, "5"), ("retention.ms", SET, "6")), 42),
        (resource(TOPIC, "a", ("retention.ms", SET, None)), 42),
        (resource(TOPIC, "a", ("retention.ms", APPEND, None)), 42),
        (resource(TOPIC, "a", ("retention.ms", DELETE, None)), 0),
        (resource(LOGGER, "2", ("kavka", SET, "DEBUG")), 42),
        (resource(LOGGER, "", ("kavka", SET, "DEBUG")), 42),
        (resource(LOGGER, "1", ("kavka", SET, None)), 42),
        (resource(LOGGER, "1", ("kavka", APPEND, "DEBUG")), 42),
        (resource(LOGGER, "1", ("kavka", SUBTRACT, "DEBUG")), 42),
        (resource(LOGGER, "1", ("kavka", 9, "DEBUG")), 42),
        (resource(LOGGER, "1", ("root", DELETE, None)), 42),
        (resource(LOGGER, "1", ("kavka", SET, "LOUD")), 40),
        (resource(LOGGER, "1", ("no such logger", SET, "DEBUG")), 40),
        (resource(7, "x", ("k", SET, "v")), 42),
        (resource(BROKER, "2", ("log.cleaner.threads", SET, "2")), 42),
        (resource(BROKER, "x", ("log.cleaner.threads", SET, "2")), 42),
        (resource(BROKER, "1", ("node.id", SET, "2")), 42),
        (resource(BROKER, "1", ("log.cleaner.threads", SET, "x")), 42),
        (resource(BROKER, "1", ("log.cleaner.threads", APPEND, "2")), 40),
        (resource(BROKER, "1", ("log.cleaner.threads", SET, "2")), 0),
        (resource(BROKER, "1", ("log.cleaner.threads", SET, "3")), 42),
        (resource(BROKER, "1", ("num.io.threads", SET, "3")), 42),
        (resource(BROKER, "1", ("num.io.threads", SET, "17")), 42),
        (resource(BROKER, "1", ("num.io.threads", SET, "4")), 0),
        (resource(BROKER, "1", ("max.connections", SET, "0")), 42),
        (resource(BROKER, "1", ("node.id", SET, "7")), 42),
        (resource(BROKER, "", ("log.cleaner.threads", SET, "2")), 0),
        (resource(BROKER, "", ("min.insync.replicas", DELETE, None)), 40),
        (resource(BROKER, "1", ("min.insync.replicas", SET, "2")), 40),
    ],
)
def test_every_outcome_is_one_error_code(tell, asked, code):
    assert tell(asked) == [code]


def test_kafkas_reassignment_tool_may_clear_its_three_throttles(tell):
    throttles = (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
    assert tell(resource(BROKER, "1", *((name, DELETE, None) for name in throttles))) == [0]


def test_a_resource_named_twice_is_refused_both_times(tell, loop):
    twice = resource(TOPIC, "a", ("retention.ms", SET, "5"))
    assert tell(twice, twice) == [42, 42]
    assert loop.image.configs.of_topic("a") == {}


def test_validating_only_changes_nothing(tell, loop):
    assert tell(resource(TOPIC, "a", ("retention.ms", SET, "5")), validate_only=True) == [0]
    assert ConfigResource(TOPIC, "a") not in loop.image.configs.resources


def test_a_failing_controller_is_said_of_each_resource(tell, loop):
    loop.error = KafkaStorageError("gone")
    assert tell(resource(TOPIC, "a", ("retention.ms", SET, "5"))) == [56]


@pytest.fixture
def logger():
    logger = logging.getLogger("kavka.changed.by.a.test")
    yield logger
    logger.setLevel(logging.NOTSET)


def test_a_log_level_is_set_and_left_to_the_logger_above_again(tell, loop, logger):
    before = loop.image.offset
    assert tell(resource(LOGGER, "1", (logger.name, SET, "TRACE"))) == [0]
    assert logger.isEnabledFor(5)
    assert tell(resource(LOGGER, "1", (logger.name, SET, "FATAL")), validate_only=True) == [0]
    assert levels()[logger.name] == "TRACE"
    assert tell(resource(LOGGER, "1", (logger.name, DELETE, None))) == [0]
    assert logger.level == logging.NOTSET
    assert loop.image.offset == before  # no log remembers it


def test_all_levels_of_a_request_are_changed_or_none(tell, logger):
    assert tell(resource(LOGGER, "1", (logger.name, SET, "DEBUG"), ("no such logger", SET, "DEBUG"))) == [40]
    assert logger.level == logging.NOTSET
