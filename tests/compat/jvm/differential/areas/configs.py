"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources, UpdateFeatures."""

from __future__ import annotations

from jvm.differential.case import Case, cases

from kavka.protocol.schemas.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kavka.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.schemas.incremental_alter_configs import AlterableConfig as Change
from kavka.protocol.schemas.incremental_alter_configs import AlterConfigsResource as Changed
from kavka.protocol.schemas.incremental_alter_configs import IncrementalAlterConfigsRequest
from kavka.protocol.schemas.list_config_resources import ListConfigResourcesRequest
from kavka.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UNKNOWN, TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def describe(
    kind: int, name: str, *keys: str, synonyms: bool = False, documentation: bool = False
) -> DescribeConfigsRequest:
    """The settings of a resource: all, or these."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms, include_documentation=documentation)


def change(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """Changes to the settings of a resource."""
    rows = [Change(name=key, config_operation=how, value=value) for key, how, value in changes]
    resource = Changed(resource_type=kind, resource_name=name, configs=rows)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def replace(kind: int, name: str, validate_only: bool = False, **configs: str | None) -> AlterConfigsRequest:
    """All settings of a resource at once."""
    rows = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    return AlterConfigsRequest(resources=[resource], validate_only=validate_only)


def features(*updates: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    """Feature levels: name, level, how."""
    rows = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=how) for name, level, how in updates]
    return UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=rows, validate_only=validate_only)


DESCRIBE = [
    *cases(1, 2, 3, 4, name="configs of a topic", request=describe(TOPIC, "compacted")),
    *cases(1, 3, 4, name="configs of a topic with synonyms", request=describe(TOPIC, "compacted", synonyms=True)),
    Case("configs of a topic with words", describe(TOPIC, "compacted", documentation=True), 4),
    Case("one config of a topic", describe(TOPIC, "compacted", "cleanup.policy"), 4),
    Case("an unknown config of a topic", describe(TOPIC, "compacted", "no.such"), 4),
    Case("configs of an unknown topic", describe(TOPIC, "nowhere"), 4),
    Case("configs of a bad name", describe(TOPIC, "a/b"), 4),
    Case("configs of an empty name", describe(TOPIC, ""), 4),
    Case("configs of the broker with synonyms", describe(BROKER, "1", synonyms=True), 4),
    Case("configs of the broker v1", describe(BROKER, "1"), 1),
    Case("configs of all brokers", describe(BROKER, "", synonyms=True), 4),
    Case("some configs of the broker", describe(BROKER, "1", "num.partitions", "ssl.key.password", synonyms=True), 4),
    Case("configs of an unknown broker", describe(BROKER, "42"), 4),
    Case("configs of a broker that is no number", describe(BROKER, "one"), 4),
    Case("configs of an unknown type", describe(99, "x"), 4),
    Case("configs of type 0", describe(UNKNOWN, "x"), 4),
    Case("configs of nothing", DescribeConfigsRequest(resources=[]), 4),
    Case("log levels of an unknown broker", describe(BROKER_LOGGER, "42"), 4),
    Case("log levels of no broker", describe(BROKER_LOGGER, ""), 4),
    Case("configs of a metrics subscription", describe(CLIENT_METRICS, "some"), 4),
    Case("configs of no metrics subscription", describe(CLIENT_METRICS, ""), 4),
    Case("configs of a group", describe(GROUP, "some-group", synonyms=True), 4),
    Case("configs of no group", describe(GROUP, ""), 4),
    Case(
        "configs of a topic twice",
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=TOPIC, resource_name="compacted", configuration_keys=["retention.ms"]
                )
            ]
            * 2
        ),
        4,
    ),
]

CHANGE = [
    *cases(0, 1, name="set a config", request=change(TOPIC, "twin", ("retention.ms", SET, "5000"))),
    Case("the config that was set", describe(TOPIC, "twin", "retention.ms", synonyms=True), 4),
    Case("append to a list", change(TOPIC, "compacted", ("cleanup.policy", APPEND, "delete")), 1),
    Case("the list after appending", describe(TOPIC, "compacted", "cleanup.policy"), 4),
    Case("append what is there already", change(TOPIC, "compacted", ("cleanup.policy", APPEND, "delete")), 1),
    Case("subtract from a list", change(TOPIC, "compacted", ("cleanup.policy", SUBTRACT, "delete")), 1),
    Case("the list after subtracting", describe(TOPIC, "compacted", "cleanup.policy"), 4),
    Case("append to what is no list", change(TOPIC, "twin", ("retention.ms", APPEND, "1")), 1),
    Case("an unknown operation", change(TOPIC, "twin", ("retention.ms", 9, "1")), 1),
    Case("set a config to null", change(TOPIC, "twin", ("retention.ms", SET, None)), 1),
    Case("append null", change(TOPIC, "twin", ("cleanup.policy", APPEND, None)), 1),
    Case("delete a config", change(TOPIC, "twin", ("retention.ms", DELETE, None)), 1),
    Case("delete a config that is not set", change(TOPIC, "twin", ("retention.ms", DELETE, None)), 1),
    Case("the config that was deleted", describe(TOPIC, "twin", "retention.ms", synonyms=True), 4),
    Case("set a config twice", change(TOPIC, "twin", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")), 1),
    Case("set an unknown config", change(TOPIC, "twin", ("no.such", SET, "1")), 1),
    Case("delete an unknown config", change(TOPIC, "twin", ("no.such", DELETE, None)), 1),
    Case("set a wrong value", change(TOPIC, "twin", ("retention.ms", SET, "soon")), 1),
    Case(
        "set one right and one wrong value",
        change(TOPIC, "twin", ("flush.ms", SET, "5"), ("retention.ms", SET, "x")),
        1,
    ),
    Case("the right value was not set", describe(TOPIC, "twin", "flush.ms"), 4),
    Case("set a value only to validate", change(TOPIC, "twin", ("flush.ms", SET, "7"), validate_only=True), 1),
    Case("set a wrong value only to validate", change(TOPIC, "twin", ("flush.ms", SET, "x"), validate_only=True), 1),
    Case("the value was only validated", describe(TOPIC, "twin", "flush.ms"), 4),
    Case("set a config of an unknown topic", change(TOPIC, "nowhere", ("flush.ms", SET, "7")), 1),
    Case("set a config of an empty name", change(TOPIC, "", ("flush.ms", SET, "7")), 1),
    Case("set no config", change(TOPIC, "twin"), 1),
    Case("set configs of nothing", IncrementalAlterConfigsRequest(resources=[], validate_only=False), 1),
    Case(
        "set configs of a topic twice",
        IncrementalAlterConfigsRequest(
            resources=[
                Changed(
                    resource_type=TOPIC,
                    resource_name="twin",
                    configs=[Change(name="flush.ms", config_operation=0, value="9")],
                )
            ]
            * 2,
            validate_only=False,
        ),
        1,
    ),
    Case("set a config of an unknown type", change(99, "x", ("flush.ms", SET, "7")), 1),
    Case("set a broker config", change(BROKER, "1", ("log.cleaner.threads", SET, "2")), 1),
    Case("the broker config that was set", describe(BROKER, "1", "log.cleaner.threads", synonyms=True), 4),
    Case("delete a broker config", change(BROKER, "1", ("log.cleaner.threads", DELETE, None)), 1),
    Case("set a broker config of all brokers", change(BROKER, "", ("log.retention.ms", SET, "9999999")), 1),
    Case("the broker config of all brokers", describe(BROKER, "", synonyms=True), 4),
    Case("the topic config under it", describe(TOPIC, "twin", "retention.ms", synonyms=True), 4),
    Case("delete a broker config of all brokers", change(BROKER, "", ("log.retention.ms", DELETE, None)), 1),
    Case("set a static broker config", change(BROKER, "1", ("log.dirs", SET, "/tmp/elsewhere")), 1),
    Case("set a static config of all brokers", change(BROKER, "", ("node.id", SET, "4")), 1),
    Case("set an unknown broker config", change(BROKER, "1", ("no.such", SET, "4")), 1),
    Case("set a wrong broker config", change(BROKER, "1", ("log.cleaner.threads", SET, "none")), 1),
    *[
        Case(f"check {key}={value} of a broker", change(BROKER, "1", (key, SET, value), validate_only=True), 1)
        for key, value in (
            ("log.cleaner.threads", "9"),
            ("log.cleaner.threads", "0"),
            ("num.io.threads", "3"),
            ("num.io.threads", "16"),
            ("num.network.threads", "7"),
            ("num.replica.fetchers", "0"),
            ("background.threads", "1"),
            ("log.cleaner.dedupe.buffer.size", "1000"),
            ("max.connections", "0"),
            ("max.connection.creation.rate", "0"),
            ("max.connections.per.ip", "0"),
            ("max.connections.per.ip.overrides", "127.0.0.1"),
            ("listener.name.plaintext.max.connections", "0"),
            ("listener.name.plaintext.max.connections", "7"),
            ("listener.name.nobody.max.connections", "7"),
            ("listeners", "OTHER://127.0.0.1:1"),
            ("listeners", ""),
            ("listener.security.protocol.map", "PLAINTEXT:NONSENSE"),
            ("log.retention.ms", "0"),
            ("log.retention.ms", "-1"),
            ("log.roll.ms", "0"),
            ("log.segment.bytes", "1"),
            ("log.cleanup.policy", "shrink"),
            ("message.max.bytes", "-1"),
            ("min.insync.replicas", "0"),
            ("compression.type", "none"),
            ("log.message.timestamp.type", "Sometime"),
            ("unclean.leader.election.enable", "perhaps"),
            ("leader.replication.throttled.rate", "-1"),
            ("replica.alter.log.dirs.io.max.bytes.per.second", "-1"),
            ("cordoned.log.dirs", "/nowhere"),
            ("quota.window.num", "5"),
            ("connections.max.idle.ms", "5"),
        )
    ],
    Case(
        "set one right and one wrong broker config",
        change(BROKER, "1", ("log.cleaner.backoff.ms", SET, "14000"), ("log.cleaner.threads", SET, "9")),
        1,
    ),
    Case("the right broker config was not set", describe(BROKER, "1", "log.cleaner.backoff.ms"), 4),
    Case("check listeners of all brokers", change(BROKER, "", ("listeners", SET, "A://:1"), validate_only=True), 1),
    Case("append to a broker config", change(BROKER, "1", ("log.cleaner.threads", APPEND, "2"), validate_only=True), 1),
    Case("a level of an unknown logger", change(BROKER_LOGGER, "1", ("no.such.logger", SET, "INFO")), 1),
    Case("an unknown level", change(BROKER_LOGGER, "1", ("root", SET, "LOUD"), validate_only=True), 1),
    Case("append to a level", change(BROKER_LOGGER, "1", ("root", APPEND, "INFO"), validate_only=True), 1),
    Case("delete the level of the root logger", change(BROKER_LOGGER, "1", ("root", DELETE, None)), 1),
    Case("a level at an unknown broker", change(BROKER_LOGGER, "42", ("root", SET, "INFO")), 1),
    Case("a level at no broker", change(BROKER_LOGGER, "", ("root", SET, "INFO")), 1),
    Case("a level at a broker that is no number", change(BROKER_LOGGER, "one", ("root", SET, "INFO")), 1),
    Case("replace levels", replace(BROKER_LOGGER, "1", root="INFO", validate_only=True), 2),
    Case("set a config of an unknown broker", change(BROKER, "42", ("log.cleaner.threads", SET, "2")), 1),
    Case("set a config of a broker that is no number", change(BROKER, "one", ("log.cleaner.threads", SET, "2")), 1),
    Case("set a wrong group config", change(GROUP, "some-group", ("no.such", SET, "2")), 1),
    Case("set a wrong metrics config", change(CLIENT_METRICS, "some", ("no.such", SET, "2")), 1),
    *cases(0, 1, 2, name="replace configs", request=replace(TOPIC, "twin", retention_ms="6000", flush_ms="8000")),
    Case("the configs that were replaced", describe(TOPIC, "twin", "retention.ms", "flush.ms", synonyms=True), 4),
    Case("replace configs with fewer", replace(TOPIC, "twin", flush_ms="8000"), 2),
    Case("the config that was left out", describe(TOPIC, "twin", "retention.ms"), 4),
    Case("replace configs with a wrong value", replace(TOPIC, "twin", flush_ms="x"), 2),
    Case("replace configs with null", replace(TOPIC, "twin", flush_ms=None), 2),
    Case("replace configs with an unknown one", replace(TOPIC, "twin", no_such="x"), 2),
    Case("replace configs only to validate", replace(TOPIC, "twin", validate_only=True, flush_ms="1"), 2),
    Case("replace configs of an unknown topic", replace(TOPIC, "nowhere", flush_ms="1"), 2),
    Case("replace configs of an unknown type", replace(99, "x", flush_ms="1"), 2),
    Case("replace configs of an unknown broker", replace(BROKER, "42", num_io_threads="4"), 2),
    Case("replace configs with none", replace(TOPIC, "twin"), 2),
    Case("list the metrics subscriptions v0", ListConfigResourcesRequest(), 0),
    Case("list resources of all types", ListConfigResourcesRequest(resource_types=[]), 1),
    *[
        Case(f"list resources of type {kind}", ListConfigResourcesRequest(resource_types=[kind]), 1)
        for kind in (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, 99)
    ],
    Case("list resources of two types", ListConfigResourcesRequest(resource_types=[TOPIC, BROKER]), 1),
]

FEATURES = [
    *cases(0, 1, 2, name="update no feature", request=features()),
    *cases(1, 2, name="a feature to the level it has", request=features(("group.version", 1, UPGRADE))),
    Case(
        "a feature to the level it has v0",
        UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="group.version", max_version_level=1)]),
        0,
    ),
    Case("lower a feature by an upgrade", features(("transaction.version", 1, UPGRADE)), 1),
    Case("lower a feature by an upgrade v2", features(("transaction.version", 1, UPGRADE)), 2),
    Case(
        "lower a feature, only to validate", features(("transaction.version", 1, SAFE_DOWNGRADE), validate_only=True), 1
    ),
    Case("lower a feature", features(("transaction.version", 1, SAFE_DOWNGRADE)), 1),
    Case("raise a feature", features(("transaction.version", 2, UPGRADE)), 2),
    Case("raise a feature too far", features(("transaction.version", 9, UPGRADE)), 2),
    Case("a negative feature level", features(("transaction.version", -1, SAFE_DOWNGRADE)), 2),
    Case("an unknown feature", features(("no.such", 1, UPGRADE)), 2),
    Case("an unknown feature v1", features(("no.such", 1, UPGRADE)), 1),
    Case("an empty feature", features(("", 1, UPGRADE)), 2),
    Case("an unknown kind of update", features(("group.version", 1, 7)), 2),
    Case("lower the metadata version too far", features(("metadata.version", 1, UNSAFE_DOWNGRADE)), 2),
    Case("a feature and an unknown one", features(("group.version", 1, UPGRADE), ("no.such", 1, UPGRADE)), 1),
    Case("a feature twice", features(("group.version", 1, UPGRADE), ("group.version", 0, SAFE_DOWNGRADE)), 1),
]
