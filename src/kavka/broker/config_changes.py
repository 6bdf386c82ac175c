"""What a broker checks of a configuration change before the controller decides on it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from kavka.broker.context import CONTROLLER, Context
from kavka.broker.forwarding import Forwarding
from kavka.broker.handlers.marks import Parts
from kavka.broker.live_listeners import check_listeners
from kavka.controller.configs import Op, Outcomes, applied
from kavka.metadata.image import ConfigResource, ConfigsImage, ResourceType
from kavka.metadata.live import LiveSettings
from kavka.model.errors import BY_CODE, InvalidConfig, InvalidRequest, KafkaError, UnknownServerError
from kavka.model.settings import (
    CORDONED_LOG_DIRS,
    LISTENER_SECURITY_PROTOCOL_MAP,
    LISTENERS,
    SettingError,
    with_dynamic,
)
from kavka.model.settings.rules import check_threads, validate_broker
from kavka.model.settings.values import broker_setting
from kavka.protocol.schema import replace
from kavka.security.acl import Operation
from kavka.security.acl import ResourceType as AclResource
from kavka.telemetry.loggers import LEVELS, ROOT, exists, set_level

logger = logging.getLogger(__name__)

T = TypeVar("T")

TRIED = (
    "ssl.",
    "sasl.",
    "connections.max.reauth.ms",
    LISTENERS.name,
    LISTENER_SECURITY_PROTOCOL_MAP.name,
    CORDONED_LOG_DIRS.name,
)
"""In the names of settings that are tried before they are changed."""

MAX_KEYS = 1_000
"""More than any resource has settings: of more, some are unknown."""
RESOURCES = Parts(("resources",), ("responses",), unique=("resource_type", "resource_name"))
"""Resources are changed one by one."""
Texts = Mapping[str, str | None]
CHANGEABLE = frozenset({ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS})


class RequestedResource(Protocol):
    """A resource in a request."""

    @property
    def resource_type(self) -> int:
        """What kind of resource."""

    @property
    def resource_name(self) -> str:
        """Its name."""

    @property
    def configs(self) -> Sequence[Any]:
        """The keys and what to do with them."""


class ConfigRequest(Protocol):
    """A request that changes configurations."""

    @property
    def resources(self) -> Sequence[RequestedResource]:
        """Whose."""


class ConfigChecks:
    """Checks the resources of one request, for one node."""

    def __init__(self, node_id: int | None, settings: LiveSettings, configs: ConfigsImage) -> None:
        """`node_id` is the broker's that was asked; None at a controller, where a broker has checked already."""
        self._node_id = node_id
        self._settings = settings
        self._configs = configs

    async def replacement(self, resource: RequestedResource) -> dict[str, str | None]:
        """What a resource shall have set, and nothing else."""
        self._check_keys(resource, [config.name for config in resource.configs if config.value is None])
        texts = {config.name: config.value for config in resource.configs}
        await self._check_broker(resource, texts)
        return texts

    async def increments(self, resource: RequestedResource) -> dict[str, tuple[int, str | None]]:
        """The operations on a resource's keys."""
        empty = [
            config.name for config in resource.configs if config.value is None and config.config_operation != Op.DELETE
        ]
        self._check_keys(resource, empty, {*CHANGEABLE, ResourceType.BROKER_LOGGER})
        keys = {config.name: (int(config.config_operation), config.value) for config in resource.configs}
        of = ConfigResource(resource.resource_type, resource.resource_name)
        if of.type == ResourceType.BROKER:
            now = self._configs.of(of)
            await self._check_broker(resource, {**now, **applied(of, now, keys)})
        return keys

    def _check_keys(
        self, resource: RequestedResource, empty: Sequence[str], types: Collection[int] = CHANGEABLE
    ) -> None:
        if len(resource.configs) > MAX_KEYS:
            raise InvalidConfig(f"no resource has {len(resource.configs)} settings")
        names = Counter(config.name for config in resource.configs)
        if len(names) < len(resource.configs):
            raise InvalidRequest(f"{next(name for name, times in names.items() if times > 1)} is set more than once")
        if empty:
            raise InvalidRequest(f"a value is missing for {', '.join(empty)}")
        if resource.resource_type not in types:
            raise InvalidRequest(f"resources of type {resource.resource_type} cannot be configured")

    async def _check_broker(self, resource: RequestedResource, texts: Texts) -> None:
        """Hold a broker's new configuration against this node's other settings: nobody else knows them."""
        if resource.resource_type != ResourceType.BROKER or self._node_id is None:
            return
        name = resource.resource_name
        if name and name != str(self._node_id):
            raise InvalidRequest(f"this is broker {self._node_id}: broker {name} is configured at its own address")
        new = {key: text for key, text in texts.items() if text is not None}
        configs = self._configs
        now = configs.of_broker(self._node_id) if name else configs.of_all_brokers
        named = {config.name for config in resource.configs}
        removed = now.keys() - new.keys()
        static = self._settings.static
        after = validate_broker(
            static,
            per_broker=new if name else configs.of_broker(self._node_id),
            cluster=configs.of_all_brokers if name else new,
            one_broker=bool(name),
        )
        before = with_dynamic(static, configs.of_broker(self._node_id), configs.of_all_brokers)
        try:
            check_threads(before, after)
            check_listeners(static, before, after)
            if any(part in key for key in named | removed for part in TRIED):
                await self._settings.check(after)
        except SettingError as error:
            raise InvalidRequest(str(error)) from None
        idle = [
            key for key in named & new.keys() if (setting := broker_setting(key)) is not None and not setting.honoured
        ]
        if idle:
            logger.warning("accepted without effect: %s", ", ".join(sorted(idle)))


class LoggerChanges:
    """Changes what the loggers of this node tell, all of one request or nothing; no log remembers it, as in Kafka."""

    def __init__(self, node_id: int, *, validate_only: bool) -> None:
        self._node_id = node_id
        self._validate_only = validate_only

    def make(self, resource: RequestedResource) -> None:
        """Check the changes of a resource and make them; raises KafkaError."""
        if resource.resource_name != str(self._node_id):
            raise InvalidRequest(
                f"this is node {self._node_id}: its loggers are not those of {resource.resource_name!r}"
            )
        for config in resource.configs:
            self._check(config.name, config.config_operation, config.value)
        if not self._validate_only:
            for config in resource.configs:
                set_level(config.name, config.value if config.config_operation == Op.SET else None)
                logger.warning(
                    "log level of %s: %s", config.name, config.value if config.config_operation == Op.SET else "unset"
                )

    def _check(self, name: str, operation: int, level: str | None) -> None:
        if operation not in (Op.SET, Op.DELETE):
            shown = Op(operation).name if operation in list(Op) else f"Unknown operation {operation}"
            raise InvalidRequest(f"{shown} operation is not allowed for the BROKER_LOGGER resource")
        if not exists(name):
            raise InvalidConfig(f"Logger {name} does not exist!")
        if operation == Op.DELETE and name == ROOT:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
        if operation == Op.SET and level not in LEVELS:
            raise InvalidConfig(f"{level} is no log level for {name}, those are {', '.join(sorted(LEVELS))}")


def require_config_right(ctx: Context, operation: Operation, resource_type: int, name: str) -> None:
    """Raise the error of the right that a resource's configuration takes: topics and groups have their own.

    A controller's log levels take ClusterAction, as in Kafka.
    """
    if resource_type == ResourceType.TOPIC:
        ctx.require(operation, AclResource.TOPIC, name)
    elif resource_type == ResourceType.GROUP:
        ctx.require(operation, AclResource.GROUP, name)
    else:
        loggers = resource_type == ResourceType.BROKER_LOGGER and operation == Operation.ALTER_CONFIGS
        ctx.require(Operation.CLUSTER_ACTION if loggers and ctx.kind == CONTROLLER else operation, AclResource.CLUSTER)


async def change_configs(
    request: ConfigRequest,
    ctx: Context,
    check: Callable[[RequestedResource], Awaitable[T]],
    submit: Callable[[dict[ConfigResource, T]], Awaitable[Outcomes]],
    forwarding: Forwarding,
    loggers: LoggerChanges | None = None,
) -> Outcomes:
    """Check each resource by itself, and have the controller decide on those that pass; loggers are this node's own."""
    resources = request.resources
    outcomes: Outcomes = {}
    chosen: dict[ConfigResource, T] = {}
    times = Counter((row.resource_type, row.resource_name) for row in resources)
    for row in resources:
        resource = ConfigResource(row.resource_type, row.resource_name)
        try:
            if times[resource] > 1:
                raise InvalidRequest("a resource is in the request more than once")
            require_config_right(ctx, Operation.ALTER_CONFIGS, *resource)
            checked = await check(row)
            if loggers is not None and resource.type == ResourceType.BROKER_LOGGER:
                loggers.make(row)
                outcomes[resource] = None
            else:
                chosen[resource] = checked
        except KafkaError as error:
            outcomes[resource] = error
    if chosen:
        try:
            if forwarding.elsewhere(ctx):
                outcomes |= await sent_on(request, ctx, chosen, forwarding)
            else:
                outcomes |= await submit(chosen)
        except KafkaError as error:
            outcomes |= dict.fromkeys(chosen, error)
    return outcomes


async def sent_on(
    request: ConfigRequest, ctx: Context, chosen: Collection[ConfigResource], forwarding: Forwarding
) -> Outcomes:
    """What the controller, which is another node, makes of some of the resources."""
    left = [row for row in request.resources if (row.resource_type, row.resource_name) in chosen]
    answer = await forwarding.send(replace(request, resources=left), ctx)
    return {
        ConfigResource(row.resource_type, row.resource_name): BY_CODE.get(row.error_code, UnknownServerError)(
            row.error_message or ""
        )
        if row.error_code
        else None
        for row in answer.responses
    }
