"""DeleteTopics (key 20): delete topics by name or id."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int16, Int32, fresh, message, null_since, request, response, since, until


@message
class DeleteTopicState:
    name: str | None = None
    topic_id: Uuid


@request(key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    topics: Annotated[list[DeleteTopicState], since(6)] = fresh()
    topic_names: Annotated[list[str], until(5), IGNORABLE] = fresh()
    timeout_ms: Int32


@message
class DeletableTopicResult:
    name: Annotated[str | None, null_since(6)]
    topic_id: Annotated[Uuid, since(6), IGNORABLE] = Uuid.ZERO
    error_code: Int16
    error_message: Annotated[str | None, since(5), IGNORABLE] = None


@response(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult]
