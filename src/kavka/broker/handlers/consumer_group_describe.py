"""ConsumerGroupDescribe: v0-1.

Behaviour:  consumer groups with their members, what these have and what they shall have.
Errors:     one per group: 14, 16, 24 no group id, 69 not there or of another type; 35 while group.version is off.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.coordination import require_consumer_groups
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.topology import GROUP_OPERATIONS
from kavka.coordinator.consumer.kind import ConsumerKind
from kavka.metadata.live import LiveSettings
from kavka.metadata.view import MetadataView
from kavka.model.errors import KafkaError
from kavka.protocol.schema import replace
from kavka.protocol.schemas.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kavka.runtime.groups import Groups


@handler(ConsumerGroupDescribeRequest, needs=PER_ITEM)
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, ctx: Context, groups: Groups, view: MetadataView, settings: LiveSettings
) -> ConsumerGroupDescribeResponse:
    """Describe consumer groups."""
    try:
        require_consumer_groups(view.image, settings.values)
        found = await groups.ask_each(ConsumerKind, request.group_ids, ConsumerKind.describe, failed, named=True)
    except KafkaError as error:
        found = [failed(id_, error) for id_ in request.group_ids]
    if request.include_authorized_operations:
        found = [replace(one, authorized_operations=GROUP_OPERATIONS) if not one.error_code else one for one in found]
    return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=found)


def failed(group_id: str, error: KafkaError) -> DescribedGroup:
    """A group that cannot be described here and now."""
    return DescribedGroup(
        error_code=error.code,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
