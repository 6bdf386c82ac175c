"""CreateTopics (key 19): create topics."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int8, Int16, Int32, fresh, message, request, response, since, tag


@message
class CreatableReplicaAssignment:
    partition_index: Int32
    broker_ids: list[Int32]


@message
class CreatableTopicConfig:
    name: str
    value: str | None


@message
class CreatableTopic:
    name: str
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@request(key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: bool = False


@message
class CreatableTopicConfigs:
    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool


@message
class CreatableTopicResult:
    name: str
    topic_id: Annotated[Uuid, since(7), IGNORABLE] = Uuid.ZERO
    error_code: Int16
    error_message: str | None
    topic_config_error_code: Annotated[Int16, since(5), tag(0), IGNORABLE] = 0
    num_partitions: Annotated[Int32, since(5), IGNORABLE] = -1
    replication_factor: Annotated[Int16, since(5), IGNORABLE] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, since(5), IGNORABLE] = fresh()


@response(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult]
