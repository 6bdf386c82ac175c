"""What consumers embed in the classic group protocol: their subscription when they join, their assignment at the end.

Each is written after its version. Newer versions only add at the end, so what is newer than we know reads as the
newest that we do know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Annotated, Any, Final, TypeVar

from kavka.model.errors import MalformedMessage
from kavka.protocol.compiler import decode, encode
from kavka.protocol.schema import IGNORABLE, Int32, data, declared, fresh, message, since

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of groups whose members embed these."""

_VERSION: Final = Struct(">h")
M = TypeVar("M")


@message
class OwnedPartitions:
    topic: str
    partitions: list[Int32]


@data(versions="0-3", flexible="none")
class ConsumerProtocolSubscription:
    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: Annotated[list[OwnedPartitions], since(1), IGNORABLE] = fresh()
    generation_id: Annotated[Int32, since(2), IGNORABLE] = -1
    rack_id: Annotated[str | None, since(3), IGNORABLE] = None


@message
class AssignedPartitions:
    topic: str
    partitions: list[Int32]


@data(versions="0-3", flexible="none")
class ConsumerProtocolAssignment:
    assigned_partitions: list[AssignedPartitions]
    user_data: bytes | None = None


def version_of(embedded: bytes) -> int:
    """The version that something embedded was written at; raises MalformedMessage."""
    if len(embedded) < _VERSION.size:
        raise MalformedMessage("an embedded consumer protocol without a version")
    (version,) = _VERSION.unpack_from(embedded)
    if version < 0:
        raise MalformedMessage(f"an embedded consumer protocol of version {version}")
    return int(version)


def read_subscription(embedded: bytes) -> ConsumerProtocolSubscription:
    """A member's subscription; raises MalformedMessage."""
    return _read(ConsumerProtocolSubscription, embedded, version_of(embedded))


def read_topics(embedded: bytes) -> list[str]:
    """The topics of a member's subscription, which every version starts with; raises MalformedMessage."""
    version_of(embedded)
    return _read(ConsumerProtocolSubscription, embedded, 0).topics


def write_subscription(subscription: ConsumerProtocolSubscription, version: int) -> bytes:
    """A subscription as it is embedded."""
    version = _known(ConsumerProtocolSubscription, version)
    return _VERSION.pack(version) + encode(subscription, version)


def read_assignment(embedded: bytes) -> ConsumerProtocolAssignment:
    """A member's assignment; raises MalformedMessage."""
    return _read(ConsumerProtocolAssignment, embedded, version_of(embedded))


def write_assignment(assigned: Mapping[str, Iterable[int]], version: int) -> bytes:
    """An assignment by topic names, at the version that the member's subscription had."""
    version = _known(ConsumerProtocolAssignment, version)
    topics = [AssignedPartitions(topic=topic, partitions=sorted(assigned[topic])) for topic in sorted(assigned)]
    return _VERSION.pack(version) + encode(ConsumerProtocolAssignment(assigned_partitions=topics), version)


def _read(cls: type[M], embedded: bytes, version: int) -> M:
    return decode(cls, embedded, _known(cls, version), _VERSION.size)


def _known(cls: type[Any], version: int) -> int:
    return min(version, declared(cls).versions[-1])
