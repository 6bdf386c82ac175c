"""Asking the coordinator of a group or of a transactional id, wherever it is at the moment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Any, Final, TypeVar

from kavka.client.pool import Pool
from kavka.client.view import error_for
from kavka.model.errors import (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NetworkException,
    NotCoordinator,
    RequestTimedOut,
)
from kavka.protocol.schema import declared
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

R = TypeVar("R")

logger = logging.getLogger(__name__)

GROUP: Final = 0
TRANSACTION: Final = 1
ELSEWHERE: Final = frozenset({CoordinatorNotAvailable.code, NotCoordinator.code})
PASSING: Final = ELSEWHERE | {CoordinatorLoadInProgress.code}


def top_code(answer: Any) -> int:
    """The error code of answers that have one for the whole request."""
    code: int = answer.error_code
    return code


class GroupLink:
    """Finds the coordinator of one group (or of what `key_type` says) and asks it, again where that is worth trying.

    A broker answers the requests of a connection one after the other, and a JoinGroup may wait for minutes; so
    membership talks on a `lane` of its own, and commits are not held up by it.
    """

    def __init__(self, pool: Pool, group_id: str, lane: object = None, *, key_type: int = GROUP) -> None:
        self.group_id = group_id
        self._key_type = key_type
        self._pool = pool
        self._lane = lane
        self._node: int | None = None

    async def ask(
        self,
        request: Any,
        response: type[R],
        *,
        code: Callable[[R], int] = top_code,
        timeout_ms: int | None = None,
        answer_ms: int | None = None,
        at_most: int | None = None,
        version: int | None = None,
        once: bool = False,
    ) -> R:
        """The coordinator's answer; it is asked until it is loaded and reached, or the time is up.

        `answer_ms` is how long one answer may take, `at_most` the newest version to speak, `version` the only one.
        With `once` it is for the caller to ask again: what it has to say may be another then.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._pool.timeout_ms if timeout_ms is None else timeout_ms) / 1000
        for attempt in count(1):
            failure: KafkaError | None
            try:
                node = await self.node(timeout_ms=max(1, int((deadline - loop.time()) * 1000)))
                connection = await self._pool.node(node, lane=self._lane)
                spoken = version or connection.version(declared(type(request)).key, at_most=at_most)
                answer = await connection.request(request, response, version=spoken, timeout_ms=answer_ms)
                found = code(answer)
                if found not in PASSING:
                    return answer
                failure = error_for(found)
                if found in ELSEWHERE:
                    self._node = None
            except (NetworkException, RequestTimedOut, BrokerNotAvailable, CoordinatorNotAvailable) as error:
                self._node = None
                failure = error
            wait = self._pool.retry_delay(attempt)
            if once or loop.time() + wait > deadline:
                raise failure
            logger.debug("retrying %s for %r: %s", type(request).__name__, self.group_id, failure)
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def node(self, timeout_ms: int | None = None) -> int:
        """The node that coordinates."""
        if self._node is None:
            request = FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=[self.group_id])
            answer = await self._pool.request(request, FindCoordinatorResponse, timeout_ms=timeout_ms)
            row = answer.coordinators[0]
            if row.error_code:
                raise error_for(row.error_code, row.error_message)
            if row.node_id not in self._pool.view.nodes:
                await self._pool.refresh()
            self._node = row.node_id
        return self._node

    def hang_up(self) -> None:
        """Close the connection of the lane."""
        if self._lane is not None:
            self._pool.hang_up(self._lane)
