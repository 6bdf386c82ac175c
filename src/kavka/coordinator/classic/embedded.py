"""What consumers embed in the classic protocol: shared with the client, which embeds it."""

from __future__ import annotations

from kavka.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    read_assignment,
    read_subscription,
    read_topics,
    version_of,
    write_assignment,
)

__all__ = [
    "PROTOCOL_TYPE",
    "AssignedPartitions",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "OwnedPartitions",
    "read_assignment",
    "read_subscription",
    "read_topics",
    "version_of",
    "write_assignment",
]
