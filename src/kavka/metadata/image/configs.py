"""The dynamic configuration of topics, brokers, groups and client-metrics subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from kavka.metadata.image.persistent import GONE, Gone, PersistentMap
from kavka.metadata.records.settings import ConfigRecord


class ResourceType(IntEnum):
    """What a configuration belongs to, by its code on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """The owner of a configuration; the broker named "" stands for all brokers."""

    type: int
    name: str


ALL_BROKERS: Final = ConfigResource(ResourceType.BROKER, "")
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    """What was set, by resource; a resource with nothing set is not there."""

    resources: PersistentMap[ConfigResource, Mapping[str, str]]

    def of(self, resource: ConfigResource) -> Mapping[str, str]:
        """What was set for a resource."""
        return self.resources.get(resource, _NOTHING)

    def of_topic(self, name: str) -> Mapping[str, str]:
        """What was set for a topic."""
        return self.resources.get(ConfigResource(ResourceType.TOPIC, name), _NOTHING)

    def of_broker(self, broker_id: int) -> Mapping[str, str]:
        """What was set for one broker."""
        return self.resources.get(ConfigResource(ResourceType.BROKER, str(broker_id)), _NOTHING)

    @property
    def of_all_brokers(self) -> Mapping[str, str]:
        """What was set for all brokers at once."""
        return self.resources.get(ALL_BROKERS, _NOTHING)


EMPTY_CONFIGS = ConfigsImage(PersistentMap())


class ConfigsDraft:
    """The configs image being changed by records."""

    def __init__(self, image: ConfigsImage) -> None:
        self._image = image
        self._touched: dict[ConfigResource, dict[str, str]] = {}

    @property
    def changed(self) -> frozenset[ConfigResource]:
        """The resources that records touched."""
        return frozenset(self._touched)

    def config(self, record: ConfigRecord) -> None:
        """Set a key, or remove it when the value is null."""
        resource = ConfigResource(record.resource_type, record.resource_name)
        touched = self._touched.get(resource)
        if touched is None:
            touched = self._touched[resource] = dict(self._image.of(resource))
        if record.value is None:
            touched.pop(record.name, None)
        else:
            touched[record.name] = record.value

    def topic_removed(self, name: str) -> None:
        """Forget what was set for a topic that is deleted."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        if resource in self._touched or resource in self._image.resources:
            self._touched[resource] = {}

    def build(self) -> ConfigsImage:
        """The image with the changes."""
        if not self._touched:
            return self._image
        changes: dict[ConfigResource, Mapping[str, str] | Gone] = {
            resource: values or GONE for resource, values in self._touched.items()
        }
        return ConfigsImage(self._image.resources.changed(changes))
