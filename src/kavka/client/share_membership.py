"""Being a member of a share group: heartbeats, whose answers assign partitions. Nothing has to be revoked in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kavka.client.group_link import GroupLink
from kavka.client.membership import JOINING, LEAVING, PASSING, Partitions, named
from kavka.client.pool import Pool
from kavka.client.view import error_for
from kavka.model.errors import FencedMemberEpoch, KafkaError, UnknownMemberId
from kavka.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

SOON_MS: Final = 250
"""A member that has nothing yet asks again after this: partitions are assigned once the group has states of them."""
SOON_TIMES: Final = 8


class ShareMembership:
    """A member of a share group."""

    def __init__(
        self,
        link: GroupLink,
        pool: Pool,
        topics: tuple[str, ...],
        member_id: str,
        rack: str | None,
        wake: Callable[[], None],
    ) -> None:
        self.member_id = member_id
        self.epoch = JOINING
        self.assigned: Partitions = frozenset()
        self.failure: KafkaError | None = None
        """Why this member cannot be in the group."""
        self._link = link
        self._pool = pool
        self._topics = topics
        self._rack = rack
        self._wake = wake
        self._interval_ms = SOON_MS
        self._soon = SOON_TIMES
        self._whole = True
        """Whether to say what it wants: it is only then sure to be told what it has."""

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        failed = 0
        while True:
            try:
                await self._beat()
            except (FencedMemberEpoch, UnknownMemberId):
                self.epoch = JOINING
                self._whole = True
                continue
            except PASSING:
                failed += 1
                self._whole = True
                await asyncio.sleep(self._pool.retry_delay(failed))
                continue
            except KafkaError as error:
                self.failure = error
                self._wake()
                return
            failed = 0
            wait_ms = self._interval_ms
            if not self.assigned and self._soon > 0:
                self._soon -= 1
                wait_ms = min(SOON_MS, wait_ms)
            await asyncio.sleep(wait_ms / 1000)

    async def leave(self) -> None:
        """Leave the group."""
        if self.epoch > JOINING:
            self.epoch = JOINING
            await self._link.ask(self._heartbeat(LEAVING), ShareGroupHeartbeatResponse, timeout_ms=self._interval_ms)

    async def _beat(self) -> None:
        answer = await self._link.ask(self._heartbeat(self.epoch), ShareGroupHeartbeatResponse, once=True)
        if answer.error_code:
            raise error_for(answer.error_code, answer.error_message)
        self.epoch = answer.member_epoch
        self._interval_ms = answer.heartbeat_interval_ms
        self._whole = False
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            assigned = await named(self._pool, rows)
            # A topic may be newer than what the node that was asked knows: hear of it again.
            self._whole = len(assigned) < sum(len(row.partitions) for row in rows)
            if assigned != self.assigned:
                self.assigned = assigned
                self._wake()

    def _heartbeat(self, epoch: int) -> ShareGroupHeartbeatRequest:
        whole = self._whole and epoch != LEAVING
        return ShareGroupHeartbeatRequest(
            group_id=self._link.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=self._rack if whole else None,
            subscribed_topic_names=list(self._topics) if whole else None,
        )
