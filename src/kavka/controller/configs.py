"""Changing the configuration of topics, brokers, groups and client-metrics subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

from kavka.controller.effective import Effective
from kavka.controller.results import bounded
from kavka.metadata.features import MV_CORDONED_DIRS
from kavka.metadata.image import ConfigResource, ConfigsImage, MetadataImage, ResourceType
from kavka.metadata.image.configs import ALL_BROKERS
from kavka.metadata.names import validate_topic_name
from kavka.metadata.records.settings import ConfigRecord
from kavka.metadata.records.topics import ClearElrRecord
from kavka.model.errors import (
    BrokerIdNotRegistered,
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
)
from kavka.model.settings import BROKER, MIN_INSYNC_REPLICAS, TOPIC, TOPIC_MIN_INSYNC_REPLICAS, Setting
from kavka.model.settings import client_metrics as client_metrics_settings
from kavka.model.settings import group as group_settings
from kavka.model.settings.rules import validate_client_metrics, validate_group, validate_topic
from kavka.model.transition import Transition

MIN_ISR: Final = TOPIC_MIN_INSYNC_REPLICAS.name
CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
MAX_VALUE: Final = 32_767
"""The longest value, in UTF-16 units as Kafka counts."""

Outcomes = dict[ConfigResource, KafkaError | None]
"""For each resource the error that kept it as it was, or None where it was changed."""


class Op(IntEnum):
    """What an incremental change does to a key, by its code on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


IncrementalChanges = Mapping[ConfigResource, Mapping[str, tuple[int, str | None]]]
"""By resource and key: the operation and its value."""


class Configs:
    """Decides configuration changes, each resource by itself."""

    def __init__(self, effective: Effective) -> None:
        self._effective = effective

    def alter_incrementally(
        self, image: MetadataImage, changes: IncrementalChanges, validate_only: bool
    ) -> Transition[Outcomes]:
        """Change the named keys only."""
        outcomes: Outcomes = {}
        records: list[Any] = []
        for resource, keys in changes.items():
            try:
                records += self.incremental_records(image, resource, keys, exists=False)
                outcomes[resource] = None
            except KafkaError as error:
                outcomes[resource] = error
        return self._decided(image, outcomes, records, validate_only)

    def alter(
        self, image: MetadataImage, wanted: Mapping[ConfigResource, Mapping[str, str | None]], validate_only: bool
    ) -> Transition[Outcomes]:
        """Change the named keys and remove all others of each resource (the older AlterConfigs)."""
        outcomes: Outcomes = {}
        records: list[Any] = []
        for resource, values in wanted.items():
            now = image.configs.of(resource)
            changed = {name: text for name, text in values.items() if self._says_more(resource, now, name, text)}
            dropped: dict[str, str | None] = {name: None for name in now if name not in values}
            try:
                self._check(image, resource, {**changed, **dropped}, exists=False)
            except KafkaError as error:
                outcomes[resource] = error
                continue
            records += _records(resource, {**changed, **dropped})
            outcomes[resource] = None
        return self._decided(image, outcomes, records, validate_only)

    def incremental_records(
        self, image: MetadataImage, resource: ConfigResource, keys: Mapping[str, tuple[int, str | None]], exists: bool
    ) -> list[ConfigRecord]:
        """The records of an incremental change; `exists` says that the resource is being created just now."""
        now = image.configs.of(resource)
        new = applied(resource, now, keys)
        changed = {name: text for name, text in new.items() if self._says_more(resource, now, name, text)}
        self._check(image, resource, changed, exists)
        return _records(resource, changed)

    @staticmethod
    def _says_more(resource: ConfigResource, now: Mapping[str, str], name: str, new: str | None) -> bool:
        # KAFKA-14136: a broker reloads what a path points to when the path is set again, so that is a change too
        return now.get(name) != new or resource.type == ResourceType.BROKER

    def _decided(
        self, image: MetadataImage, outcomes: Outcomes, records: list[Any], validate_only: bool
    ) -> Transition[Outcomes]:
        if validate_only:
            return Transition(outcomes)
        return Transition(outcomes, bounded(records + clear_elr_records(image, records)))

    # -- checks ---------------------------------------------------------------------------------

    def _check(
        self, image: MetadataImage, resource: ConfigResource, changed: Mapping[str, str | None], exists: bool
    ) -> None:
        values: dict[str, str | None] = dict(image.configs.of(resource))
        for name, text in changed.items():
            self._check_key(image, resource, name, text)
            if text is None:
                values.pop(name, None)
            else:
                values[name] = text
        self._check_values(image, resource, values)
        if not exists:
            _check_exists(image, resource)

    def _check_key(self, image: MetadataImage, resource: ConfigResource, name: str, text: str | None) -> None:
        if resource.type == ResourceType.BROKER and name == MIN_ISR and image.features.elr_enabled:
            if resource.name:
                raise InvalidConfig(f"{MIN_ISR} cannot differ between brokers while ELR is on")
            if text is None:
                raise InvalidConfig(f"{MIN_ISR} of the cluster cannot be removed while ELR is on")
        cordons = resource.type == ResourceType.BROKER and name == CORDONED_LOG_DIRS
        if cordons and image.features.metadata_version < MV_CORDONED_DIRS:
            raise InvalidConfig(f"{CORDONED_LOG_DIRS} needs metadata.version {MV_CORDONED_DIRS} or later")
        if text is not None and len(text) > MAX_VALUE:
            raise InvalidConfig(f"the value of {name} is longer than {MAX_VALUE}")

    def _check_values(self, image: MetadataImage, resource: ConfigResource, values: Mapping[str, str | None]) -> None:
        if resource.type == ResourceType.TOPIC:
            if not resource.name:
                raise InvalidRequest("a topic's configuration needs the topic's name")
            validate_topic_name(resource.name)
            validate_topic(values, self._effective.broker(image.configs), dict(image.configs.of(resource)))
        elif resource.type == ResourceType.BROKER:
            if resource.name and not (resource.name.isascii() and resource.name.isdigit()):
                raise InvalidRequest(f"{resource.name!r} is no broker id")
        elif resource.type == ResourceType.GROUP:
            if not resource.name:
                raise InvalidRequest("a group's configuration needs the group's name")
            validate_group(values, self._effective.broker(image.configs))
        elif resource.type == ResourceType.CLIENT_METRICS:
            if not resource.name:
                raise InvalidRequest("a client-metrics subscription needs a name")
            validate_client_metrics(values)
        else:
            raise InvalidRequest(f"resources of type {resource.type} have no configuration here")


def _check_exists(image: MetadataImage, resource: ConfigResource) -> None:
    if resource.type == ResourceType.TOPIC and resource.name not in image.topics.by_name:
        raise UnknownTopicOrPartition(f"there is no topic {resource.name}")
    if resource.type == ResourceType.BROKER and resource.name:
        id_ = int(resource.name)
        if id_ not in image.cluster.brokers and id_ not in image.cluster.controllers:
            raise BrokerIdNotRegistered(f"there is no node {id_}")


def applied(
    resource: ConfigResource, now: Mapping[str, str], keys: Mapping[str, tuple[int, str | None]]
) -> dict[str, str | None]:
    """The values of keys after one operation on each; None where the key is removed."""
    return {name: _applied(resource, name, now.get(name), op, text) for name, (op, text) in keys.items()}


def _applied(resource: ConfigResource, name: str, now: str | None, op: int, text: str | None) -> str | None:
    if op == Op.SET:
        return text
    if op == Op.DELETE:
        return None
    if op not in (Op.APPEND, Op.SUBTRACT):
        raise InvalidRequest(f"{op} is no operation on {name}")
    setting = _setting(resource, name)
    if setting is None or setting.kind.name != "list":
        raise InvalidConfig(
            f"{name} is no list that could be {'appended to' if op == Op.APPEND else 'subtracted from'}"
        )
    parts = [part for part in (setting.text(setting.default) or "" if now is None else now).split(",") if part]
    for part in (text or "").split(","):
        if op == Op.APPEND and part not in parts:
            parts.append(part)
        elif op == Op.SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)


def _setting(resource: ConfigResource, name: str) -> Setting[Any] | None:
    tables: Mapping[int, Mapping[str, Setting[Any]]] = {
        ResourceType.TOPIC: TOPIC,
        ResourceType.BROKER: BROKER,
        ResourceType.GROUP: group_settings.SETTINGS,
        ResourceType.CLIENT_METRICS: client_metrics_settings.SETTINGS,
    }
    return tables.get(resource.type, {}).get(name)


def _records(resource: ConfigResource, changed: Mapping[str, str | None]) -> list[ConfigRecord]:
    return [
        ConfigRecord(resource_type=int(resource.type), resource_name=resource.name, name=name, value=text)
        for name, text in changed.items()
    ]


def clear_elr_records(image: MetadataImage, records: Iterable[Any]) -> list[ClearElrRecord]:
    """Who is eligible to lead depends on min.insync.replicas, so the ELR is cleared where that changes."""
    if not image.features.elr_enabled:
        return []
    return [
        ClearElrRecord(topic_name=record.resource_name if record.resource_type == ResourceType.TOPIC else "")
        for record in records
        if record.name == MIN_ISR
    ]


def elr_safety_records(configs: ConfigsImage, effective: Effective) -> list[ConfigRecord]:
    """What must hold before ELR is switched on: one min.insync.replicas for the cluster, none for single brokers."""
    records = []
    if MIN_ISR not in configs.of_all_brokers:
        records += _records(ALL_BROKERS, {MIN_ISR: str(effective.static[MIN_INSYNC_REPLICAS])})
    for resource, values in configs.resources.items():
        if resource.type == ResourceType.BROKER and resource.name and MIN_ISR in values:
            records += _records(resource, {MIN_ISR: None})
    return records
