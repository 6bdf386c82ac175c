"""DeleteShareGroupOffsets (key 92): forget where a share group starts."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, message, request, response


@message
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str


@request(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    group_id: str
    topics: list[DeleteShareGroupOffsetsRequestTopic]


@message
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: Uuid
    error_code: Int16
    error_message: str | None = None


@response(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic]
