"""What a ConsumerGroupHeartbeat must look like, whatever the group is like."""

from __future__ import annotations

from kavka.coordinator.consumer.state import LEFT, LEFT_SEAT
from kavka.model.errors import InvalidRequest, UnsupportedAssignor
from kavka.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """Raise InvalidRequest or UnsupportedAssignor for a request that no group could accept."""
    epoch = request.member_epoch
    if (api_version >= 1 or epoch > 0 or epoch == LEFT) and not request.member_id.strip():
        raise InvalidRequest("a member id is missing")
    if not request.group_id.strip():
        raise InvalidRequest("GroupId can't be empty.")  # words that clients look for
    if request.instance_id is not None and not request.instance_id.strip():
        raise InvalidRequest("the instance id is empty")
    if request.rack_id is not None and not request.rack_id.strip():
        raise InvalidRequest("the rack id is empty")
    if epoch == 0:
        _check_first(request)
    elif epoch == LEFT_SEAT and request.instance_id is None:
        raise InvalidRequest("only a static member can keep its seat")
    elif epoch < LEFT_SEAT:
        raise InvalidRequest(f"{epoch} is no member epoch")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        offered = ", ".join(assignors)
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {offered}."
        )


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequest("a member that joins must send a rebalance timeout")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequest("a member that joins must own no partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequest("a member that joins must send its subscribed topics")
