"""FindCoordinator: v0-6.

Behaviour:  the leader of the internal topic's partition that a key belongs to coordinates it. That topic is
            created when it is first asked for, and the answer waits for it, and a moment for a coordinator that is
            being loaded. Up to v3 one key, from v4 several.
Errors:     one per key: 42 for an unknown type of key, or a share partition's before v6 or malformed; 15 while the
            coordinator cannot be reached under the listener that was asked on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler
from kavka.broker.internal_topics import create_consumer_offsets, create_transaction_state
from kavka.broker.topic_creation import TopicCreation
from kavka.broker.topology import reachable_brokers
from kavka.metadata.image import MetadataImage
from kavka.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from kavka.model.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from kavka.model.settings import Values
from kavka.model.types import Endpoint, Uuid
from kavka.protocol.schemas.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.runtime.coordinators import partition_of
from kavka.runtime.groups import Groups
from kavka.runtime.transactions import Transactions

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}
NOWHERE = Endpoint("", "", -1, "")


@handler(FindCoordinatorRequest)
async def find_coordinator(
    request: FindCoordinatorRequest,
    ctx: Context,
    controller: ControllerLoop,
    groups: Groups,
    values: Values,
    creation: TopicCreation,
    transactions: Transactions,
) -> FindCoordinatorResponse:
    """Say which broker coordinates groups, transactional ids or share partitions."""
    keys = request.coordinator_keys if ctx.api_version >= 4 else [request.key]
    refused: KafkaError | None = None
    if request.key_type in TOPICS and keys:
        try:
            create = create_consumer_offsets if request.key_type == GROUP else create_transaction_state
            await create(creation, values)
        except CoordinatorNotAvailable as error:
            refused = error
    rows = [find(key, request.key_type, ctx, controller, refused) for key in keys]
    if request.key_type in TOPICS:
        serves = groups.serves if request.key_type == GROUP else transactions.serves
        rows = [await when_served(one, controller, serves) for one in rows]
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


async def when_served(
    found: Coordinator, controller: ControllerLoop, serves: Callable[[str], Awaitable[bool]]
) -> Coordinator:
    """A key's row, once this node is ready to be asked, if it is this node."""
    if found.node_id == controller.node_id and not await serves(found.key):
        return row(found.key, -1, NOWHERE, CoordinatorNotAvailable("the coordinator is about to begin"))
    return found


def find(key: str, key_type: int, ctx: Context, controller: ControllerLoop, refused: KafkaError | None) -> Coordinator:
    """The coordinator of one key."""
    try:
        if refused is not None:
            raise refused
        check_key(key, key_type, ctx.api_version)
        topic = TOPICS.get(key_type)
        node_id = controller.node_id if topic is None else leader(key, topic, controller.image)
        endpoint = reach(node_id, ctx, controller)
    except KafkaError as error:
        return row(key, -1, NOWHERE, error)
    return row(key, node_id, endpoint, None)


def row(key: str, node_id: int, endpoint: Endpoint, error: KafkaError | None) -> Coordinator:
    """A key's row."""
    return Coordinator(
        key=key,
        node_id=node_id,
        host=endpoint.host,
        port=endpoint.port,
        error_code=0 if error is None else error.code,
        error_message=None if error is None else str(error),
    )


def check_key(key: str, key_type: int, version: int) -> None:
    """Raise InvalidRequest for a key that nobody coordinates."""
    if key_type not in (GROUP, TRANSACTION, SHARE):
        raise InvalidRequest(f"there are no coordinators of type {key_type}")
    if key_type != SHARE:
        return
    group, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    try:
        Uuid.parse(topic_id)
    except ValueError:
        topic_id = ""
    if version < 6 or not group or not topic_id or not partition.isdecimal():
        raise InvalidRequest(f"{key!r} is no share partition (group:topic id:partition)")


def leader(key: str, topic_name: str, image: MetadataImage) -> int:
    """Who leads the partition that a key belongs to; -1 if nobody does."""
    topic = image.topics.by_name.get(topic_name)
    return -1 if topic is None else topic.partitions[partition_of(key, len(topic.partitions))].leader


def reach(node_id: int, ctx: Context, controller: ControllerLoop) -> Endpoint:
    """Where a node is reached on the client's listener."""
    for broker, endpoint in reachable_brokers(controller.image, ctx.listener):
        if broker.id == node_id:
            return endpoint
    raise CoordinatorNotAvailable("the coordinator is not in service")
