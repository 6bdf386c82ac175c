"""Changes of ISRs on their way to the controller: one request at a time, tried until there is an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from kavka.client.line import TOLD
from kavka.model.clock import Clock
from kavka.model.errors import KafkaError
from kavka.pacing.turn import Turn
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.replication.isr import IsrChange, IsrOutcome

logger = logging.getLogger(__name__)

AlterIsr = Callable[[Sequence[IsrChange]], Awaitable[Sequence[IsrOutcome]]]
"""Asks the active controller (AlterPartition); one outcome per change, or a KafkaError if there is no answer at all."""

RETRY_MS: Final = 50
MAX_RETRY_MS: Final = 1_000


class IsrManager:
    """Shrinks and expands the in-sync replicas of the partitions that this node leads."""

    def __init__(self, replicas: ReplicaManager, alter_isr: AlterIsr, clock: Clock) -> None:
        self._replicas = replicas
        self._alter_isr = alter_isr
        self._clock = clock
        self.shrinks = 0
        self.expands = 0
        self.failures = 0

    async def run(self) -> None:
        """Look for followers that fell behind, and send ISR changes, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_forever())
            tasks.create_task(self._send_forever())

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(self._replicas.max_lag_ms / 2000)
            try:
                await self.look()
            except Exception:  # there is a next time, and the node goes on
                logger.exception("checking followers for ISR changes failed")

    async def look(self) -> None:
        """Check every partition with followers once."""
        turn = Turn()
        for partition in self._replicas:
            partition.shrink_isr()
            await turn.breathe()

    async def _send_forever(self) -> None:
        retry_ms = RETRY_MS
        while True:
            await self._replicas.proposals.wait()
            sent = False
            try:
                sent = await self.send()
            except Exception:
                logger.exception("changing the ISR failed")
            if sent:
                retry_ms = RETRY_MS
            else:
                await asyncio.sleep(retry_ms / 1000)
                retry_ms = min(retry_ms * 2, MAX_RETRY_MS)

    async def send(self) -> bool:
        """Ask for all changes that are wanted now; False if some have to be asked for again."""
        proposed = self._replicas.proposals.take()
        wanted = {change.key: (partition, change) for partition, change in proposed.items() if partition.wants(change)}
        if not wanted:
            return True
        again = dict(wanted)
        before = {key: len(partition.isr) for key, (partition, _) in wanted.items()}  # the metadata may be faster
        try:
            outcomes = await self._alter_isr([change for _, change in wanted.values()])
        except TOLD:
            pass  # tried again, as below
        except (KafkaError, OSError) as error:
            logger.info("AlterPartition failed: %s", error)
        except Exception:
            logger.exception("AlterPartition failed")
        else:
            for outcome in outcomes:
                partition, change = wanted.get(outcome.key, (None, None))
                if partition is not None and change is not None:
                    self._count(before[outcome.key], outcome)
                    if not self._settle(partition, change, outcome):
                        del again[outcome.key]
        for partition, change in again.values():
            self.failures += 1
            if partition.wants(change):
                self._replicas.propose(partition, change)
        return not again

    def _settle(self, partition: Partition, change: IsrChange, outcome: IsrOutcome) -> bool:
        again = partition.isr_answered(change, outcome)
        if outcome.error_code:
            self.failures += not again
            logger.info("%s: ISR change rejected: error %d", partition.topic_partition, outcome.error_code)
        return again

    def _count(self, before: int, outcome: IsrOutcome) -> None:
        if not outcome.error_code:
            self.shrinks += len(outcome.isr) < before
            self.expands += len(outcome.isr) > before
