"""What a broker checks of a configuration change before the controller decides on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from kavka.broker.context import Context
from kavka.broker.forwarding import Forwarding
from kavka.broker.handlers.marks import Parts
from kavka.controller.configs import Op, Outcomes, applied
from kavka.metadata.image import ConfigResource, ConfigsImage, ResourceType
from kavka.model.errors import BY_CODE, InvalidConfig, InvalidRequest, KafkaError, UnknownServerError
from kavka.model.settings import Values
from kavka.model.settings.rules import validate_broker
from kavka.protocol.schema import replace
from kavka.security.acl import Operation
from kavka.security.acl import ResourceType as AclResource

T = TypeVar("T")

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

    def __init__(self, node_id: int | None, static: Values, configs: ConfigsImage) -> None:
        """`node_id` is the broker's that was asked; None at a controller, where a broker has checked already."""
        self._node_id = node_id
        self._static = static
        self._configs = configs

    def replacement(self, resource: RequestedResource) -> dict[str, str | None]:
        """What a resource shall have set, and nothing else."""
        self._check_keys(resource, [one.name for one in resource.configs if one.value is None])
        texts = {one.name: one.value for one in resource.configs}
        self._check_broker(resource, texts)
        return texts

    def increments(self, resource: RequestedResource) -> dict[str, tuple[int, str | None]]:
        """The operations on a resource's keys."""
        empty = [one.name for one in resource.configs if one.value is None and one.config_operation != Op.DELETE]
        self._check_keys(resource, empty)
        keys = {one.name: (int(one.config_operation), one.value) for one in resource.configs}
        of = ConfigResource(resource.resource_type, resource.resource_name)
        if of.type == ResourceType.BROKER:
            now = self._configs.of(of)
            self._check_broker(resource, {**now, **applied(of, now, keys)})
        return keys

    def _check_keys(self, resource: RequestedResource, empty: Sequence[str]) -> None:
        if len(resource.configs) > MAX_KEYS:
            raise InvalidConfig(f"no resource has {len(resource.configs)} settings")
        names = Counter(one.name for one in resource.configs)
        if len(names) < len(resource.configs):
            raise InvalidRequest(f"{next(name for name, times in names.items() if times > 1)} is set more than once")
        if empty:
            raise InvalidRequest(f"a value is missing for {', '.join(empty)}")
        if resource.resource_type not in CHANGEABLE:
            raise InvalidRequest(f"resources of type {resource.resource_type} cannot be configured")

    def _check_broker(self, resource: RequestedResource, texts: Texts) -> None:
        """Hold a broker's new configuration against this node's other settings: nobody else knows them."""
        if resource.resource_type != ResourceType.BROKER or self._node_id is None:
            return
        name = resource.resource_name
        if name and name != str(self._node_id):
            raise InvalidRequest(f"this is broker {self._node_id}: broker {name} is configured at its own address")
        new = {key: text for key, text in texts.items() if text is not None}
        configs = self._configs
        validate_broker(
            self._static,
            per_broker=new if name else configs.of_broker(self._node_id),
            cluster=configs.of_all_brokers if name else new,
            one_broker=bool(name),
        )


def require_config_right(ctx: Context, operation: Operation, resource_type: int, name: str) -> None:
    """Raise the error of the right that a resource's configuration takes: topics and groups have their own."""
    if resource_type == ResourceType.TOPIC:
        ctx.require(operation, AclResource.TOPIC, name)
    elif resource_type == ResourceType.GROUP:
        ctx.require(operation, AclResource.GROUP, name)
    else:
        ctx.require(operation, AclResource.CLUSTER)


async def change_configs(
    request: ConfigRequest,
    ctx: Context,
    check: Callable[[RequestedResource], T],
    submit: Callable[[dict[ConfigResource, T]], Awaitable[Outcomes]],
    forwarding: Forwarding,
) -> Outcomes:
    """Check each resource by itself, and have the controller decide on those that pass."""
    resources = request.resources
    outcomes: Outcomes = {}
    chosen: dict[ConfigResource, T] = {}
    times = Counter((one.resource_type, one.resource_name) for one in resources)
    for one in resources:
        resource = ConfigResource(one.resource_type, one.resource_name)
        try:
            if times[resource] > 1:
                raise InvalidRequest("a resource is in the request more than once")
            require_config_right(ctx, Operation.ALTER_CONFIGS, *resource)
            chosen[resource] = check(one)
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
    left = [one for one in request.resources if (one.resource_type, one.resource_name) in chosen]
    answer = await forwarding.send(replace(request, resources=left), ctx)
    return {
        ConfigResource(row.resource_type, row.resource_name): BY_CODE.get(row.error_code, UnknownServerError)(
            row.error_message or ""
        )
        if row.error_code
        else None
        for row in answer.responses
    }
