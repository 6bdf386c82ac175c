"""FindCoordinator (key 10): ask which broker coordinates a group, transactional id or share partition."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import (
    IGNORABLE,
    Int8,
    Int16,
    Int32,
    between,
    fresh,
    message,
    request,
    response,
    since,
    until,
)


@request(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: Annotated[str, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[list[str], since(4)] = fresh()


@message
class Coordinator:
    key: str
    node_id: Int32
    host: str
    port: Int32
    error_code: Int16
    error_message: str | None


@response(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[str | None, between(1, 3), IGNORABLE] = ""
    node_id: Annotated[Int32, until(3)] = 0
    host: Annotated[str, until(3)] = ""
    port: Annotated[Int32, until(3)] = 0
    coordinators: Annotated[list[Coordinator], since(4)] = fresh()
