"""Administration of configs: of topics, brokers, groups and client metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, Self

from kavka.client.pool import Pool
from kavka.client.view import error_for, raise_for
from kavka.protocol.schemas.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from kavka.protocol.schemas.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterableConfig as ConfigChange,
)
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterConfigsResource as ChangedResource,
)
from kavka.protocol.schemas.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kavka.protocol.schemas.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse


class ResourceType(IntEnum):
    """What has configs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def _missing_(cls, value: object) -> ResourceType:
        return cls.UNKNOWN


class ConfigSource(IntEnum):
    """Where a config's value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


class ConfigType(IntEnum):
    """What kind of value a config has."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def _missing_(cls, value: object) -> ConfigType:
        return cls.UNKNOWN


class ConfigResource(NamedTuple):
    """A thing with configs; the broker named "" stands for the default of all brokers."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> Self:
        """A topic's configs."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node: int | None = None) -> Self:
        """One broker's configs, or the default of all brokers."""
        return cls(ResourceType.BROKER, "" if node is None else str(node))

    @classmethod
    def group(cls, name: str) -> Self:
        """A group's configs."""
        return cls(ResourceType.GROUP, name)

    def __str__(self) -> str:
        return f"{self.type.name.lower().replace('_', ' ')} {self.name!r}"


class ConfigSynonym(NamedTuple):
    """A place that could have given a config its value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A config and its value; a sensitive one's is never told."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None


_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3


class ConfigsAdmin:
    """The part of the admin client that deals with configs."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def describe_configs(
        self,
        *resources: ConfigResource,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The configs of resources by name, all or only some; raises the first error."""
        keys = None if names is None else list(names)
        found: dict[ConfigResource, dict[str, ConfigEntry]] = {}
        for node, part in _by_node(resources).items():
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.type, resource_name=resource.name, configuration_keys=keys
                    )
                    for resource in part
                ],
                include_synonyms=synonyms,
                include_documentation=documentation,
            )
            answer = await self._pool.request(request, DescribeConfigsResponse, node=await self._known(node))
            for result in answer.results:
                resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                raise_for(result.error_code, _message(resource, result.error_code, result.error_message))
                found[resource] = {row.name: _entry(row) for row in result.configs}
        return found

    async def alter_configs(
        self,
        resource: ConfigResource,
        *,
        set: Mapping[str, str] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change some configs of a resource: set, return to the default, add to a list or take from one."""
        changes = [ConfigChange(name=name, config_operation=_SET, value=value) for name, value in (set or {}).items()]
        changes += [ConfigChange(name=name, config_operation=_DELETE, value=None) for name in delete]
        for operation, values in ((_APPEND, append), (_SUBTRACT, subtract)):
            for name, value in (values or {}).items():
                changes.append(ConfigChange(name=name, config_operation=operation, value=value))
        request = IncrementalAlterConfigsRequest(
            resources=[ChangedResource(resource_type=resource.type, resource_name=resource.name, configs=changes)],
            validate_only=validate_only,
        )
        node = await self._known(_node_of(resource))
        answer = await self._pool.request(request, IncrementalAlterConfigsResponse, node=node)
        for result in answer.responses:
            raise_for(result.error_code, _message(resource, result.error_code, result.error_message))

    async def replace_configs(
        self, resource: ConfigResource, configs: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        """Give a resource exactly these configs; all others return to their defaults."""
        rows = [AlterableConfig(name=name, value=value) for name, value in configs.items()]
        request = AlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=rows)],
            validate_only=validate_only,
        )
        node = await self._known(_node_of(resource))
        answer = await self._pool.request(request, AlterConfigsResponse, node=node)
        for result in answer.responses:
            raise_for(result.error_code, _message(resource, result.error_code, result.error_message))

    async def list_config_resources(self, *types: ResourceType) -> list[ConfigResource]:
        """The resources that have configs, of these types or of all."""
        request = ListConfigResourcesRequest(resource_types=[int(type_) for type_ in types])
        answer = await self._pool.request(request, ListConfigResourcesResponse)
        raise_for(answer.error_code)
        return sorted(
            ConfigResource(ResourceType(row.resource_type), row.resource_name) for row in answer.config_resources
        )

    async def _known(self, node: int | None) -> int | None:
        if node is not None and node not in self._pool.view.nodes:
            await self._pool.refresh()
        return node


def _node_of(resource: ConfigResource) -> int | None:
    """The broker that must be asked: a broker alone knows its own static configs."""
    if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name.isdecimal():
        return int(resource.name)
    return None


def _by_node(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    grouped: defaultdict[int | None, list[ConfigResource]] = defaultdict(list)
    for resource in resources:
        grouped[_node_of(resource)].append(resource)
    return grouped


def _message(resource: ConfigResource, code: int, message: str | None) -> str:
    return message or (f"{resource}: {error_for(code)}" if code else "")


def _entry(row: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=row.name,
        value=row.value,
        source=ConfigSource(row.config_source),
        type=ConfigType(row.config_type),
        read_only=row.read_only,
        sensitive=row.is_sensitive,
        synonyms=tuple(
            ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source)) for synonym in row.synonyms
        ),
        documentation=row.documentation,
    )
