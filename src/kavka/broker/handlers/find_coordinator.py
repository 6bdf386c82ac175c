"""FindCoordinator: v0-6.

Behaviour:  the leader of the internal topic's partition that a key belongs to coordinates it. That topic is
            created when it is first asked for, and the answer waits for it, and a moment for a coordinator that is
            being loaded. Up to v3 one key, from v4 several.
Errors:     one per key: 42 for an unknown type of key, or a share partition's before v6 or malformed; 15 while the
            coordinator cannot be reached under the listener that was asked on.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.broker.topology import reachable_brokers
from kavka.metadata.live import LiveSettings
from kavka.metadata.view import MetadataView
from kavka.model.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from kavka.model.types import Endpoint
from kavka.protocol.schemas.find_coordinator import Coordinator as Row
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kavka.quorum.internal_topics import create_if_missing
from kavka.quorum.topic_creation import TopicCreation
from kavka.runtime.coordinators import Coordinator, NodeCoordinators
from kavka.security.acl import CLUSTER_NAME, Operation, ResourceType

SHARE = 2
NEEDED = {
    0: (Operation.DESCRIBE, ResourceType.GROUP),
    1: (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
    SHARE: (Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
}
"""What asking for a type of key takes."""
NOWHERE = Endpoint("", "", -1, "")


@handler(FindCoordinatorRequest, PER_ITEM, Parts(("coordinator_keys",), ("coordinators",)))
async def find_coordinator(
    request: FindCoordinatorRequest,
    ctx: Context,
    view: MetadataView,
    coordinators: NodeCoordinators,
    settings: LiveSettings,
    creation: TopicCreation,
) -> FindCoordinatorResponse:
    """Say which broker coordinates groups, transactional ids or share partitions."""
    keys = request.coordinator_keys if ctx.api_version >= 4 else [request.key]
    coordinator = coordinators.of_key_type(request.key_type)
    refused: KafkaError | None = None
    if coordinator is not None and any(may_ask(key, request.key_type, ctx) for key in keys):
        try:
            await create_if_missing(creation, coordinator.internal_topic(settings.values), settings.values)
        except CoordinatorNotAvailable as error:
            refused = error
    rows = [find(key, request.key_type, coordinator, ctx, view, refused) for key in keys]
    if coordinator is not None:
        rows = [await when_served(row, view, coordinator) for row in rows]
    if ctx.api_version >= 4:
        return FindCoordinatorResponse(coordinators=rows)
    found = rows[0]
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def may_ask(key: str, key_type: int, ctx: Context) -> bool:
    """Whether the client may know who coordinates a key."""
    operation, resource = NEEDED.get(key_type, NEEDED[SHARE])
    return ctx.allows(operation, resource, CLUSTER_NAME if resource == ResourceType.CLUSTER else key, asked=False)


def require_right(key: str, key_type: int, ctx: Context) -> None:
    """Raise the error of the right that asking for a key takes."""
    operation, resource = NEEDED.get(key_type, NEEDED[SHARE])
    ctx.require(operation, resource, CLUSTER_NAME if resource == ResourceType.CLUSTER else key)


async def when_served(found: Row, view: MetadataView, coordinator: Coordinator) -> Row:
    """A key's row, once this node is ready to be asked, if it is this node."""
    if found.node_id == view.node_id and not await coordinator.serves(found.key):
        return row(found.key, -1, NOWHERE, CoordinatorNotAvailable("the coordinator is about to begin"))
    return found


def find(
    key: str,
    key_type: int,
    coordinator: Coordinator | None,
    ctx: Context,
    view: MetadataView,
    refused: KafkaError | None,
) -> Row:
    """The coordinator of one key."""
    try:
        require_right(key, key_type, ctx)
        if refused is not None:
            raise refused
        if coordinator is None:
            raise InvalidRequest(f"there are no coordinators of type {key_type}")
        coordinator.check_key(key, ctx.api_version)
        node_id = coordinator.find(key, view.image)
        endpoint = reach(node_id, ctx, view)
    except KafkaError as error:
        return row(key, -1, NOWHERE, error)
    return row(key, node_id, endpoint, None)


def row(key: str, node_id: int, endpoint: Endpoint, error: KafkaError | None) -> Row:
    """A key's row."""
    return Row(
        key=key,
        node_id=node_id,
        host=endpoint.host,
        port=endpoint.port,
        error_code=0 if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def reach(node_id: int, ctx: Context, view: MetadataView) -> Endpoint:
    """Where a node is reached on the client's listener."""
    for broker, endpoint in reachable_brokers(view.image, ctx.listener):
        if broker.id == node_id:
            return endpoint
    raise CoordinatorNotAvailable("the coordinator is not in service")
