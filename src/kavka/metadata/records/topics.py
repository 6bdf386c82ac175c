"""Records of topics and their partitions."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import Int8, Int32, fresh, record, since, tag


@record(key=2, versions="0", flexible="0+")
class TopicRecord:
    name: str
    topic_id: Uuid


@record(key=9, versions="0", flexible="0+")
class RemoveTopicRecord:
    topic_id: Uuid


@record(key=3, versions="0-2", flexible="0+")
class PartitionRecord:
    partition_id: Int32 = -1
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32 = -1
    leader_recovery_state: Annotated[Int8, tag(0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[list[Uuid], since(1)] = fresh()
    eligible_leader_replicas: Annotated[list[Int32] | None, since(2), tag(1)] = None
    last_known_elr: Annotated[list[Int32] | None, since(2), tag(2)] = None


@record(key=5, versions="0-2", flexible="0+")
class PartitionChangeRecord:
    partition_id: Int32 = -1
    topic_id: Uuid
    isr: Annotated[list[Int32] | None, tag(0)] = None
    leader: Annotated[Int32, tag(1)] = -2
    replicas: Annotated[list[Int32] | None, tag(2)] = None
    removing_replicas: Annotated[list[Int32] | None, tag(3)] = None
    adding_replicas: Annotated[list[Int32] | None, tag(4)] = None
    leader_recovery_state: Annotated[Int8, tag(5)] = -1
    directories: Annotated[list[Uuid] | None, since(1), tag(8)] = None
    eligible_leader_replicas: Annotated[list[Int32] | None, since(2), tag(6)] = None
    last_known_elr: Annotated[list[Int32] | None, since(2), tag(7)] = None


@record(key=28, versions="0", flexible="0+")
class ClearElrRecord:
    topic_name: str
