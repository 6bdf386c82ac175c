"""Changes of in-sync replicas on their way to the controller: one request at a time, tried until there is an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from kavka.client.line import TOLD
from kavka.model.clock import Clock
from kavka.model.errors import KafkaError
from kavka.replica.manager import SLICE_SECONDS, ReplicaManager
from kavka.replica.partition import Partition
from kavka.replication.isr import IsrChange, IsrOutcome

log = logging.getLogger(__name__)

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
        """Look for followers that fell behind, and send what is to change, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_forever())
            tasks.create_task(self._send_forever())

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(self._replicas.max_lag_ms / 2000)
            try:
                await self.look()
            except Exception:  # there is a next time, and the node goes on
                log.exception("followers could not be looked at")

    async def look(self) -> None:
        """Look at every partition with followers once."""
        loop = asyncio.get_running_loop()
        turn_ends = loop.time() + SLICE_SECONDS
        for partition in self._replicas:
            partition.shrink_isr()
            if loop.time() >= turn_ends:
                await asyncio.sleep(0)
                turn_ends = loop.time() + SLICE_SECONDS

    async def _send_forever(self) -> None:
        retry_ms = RETRY_MS
        while True:
            await self._replicas.proposals.wait()
            sent = False
            try:
                sent = await self.send()
            except Exception:
                log.exception("the in-sync replicas could not be changed")
            if sent:
                retry_ms = RETRY_MS
            else:
                await asyncio.sleep(retry_ms / 1000)
                retry_ms = min(retry_ms * 2, MAX_RETRY_MS)

    async def send(self) -> bool:
        """Ask for all changes that are wanted now; False if some have to be asked for again."""
        proposed = self._replicas.proposals.take()
        wanted = {change.key: (one, change) for one, change in proposed.items() if one.wants(change)}
        if not wanted:
            return True
        again = dict(wanted)
        try:
            outcomes = await self._alter_isr([change for _, change in wanted.values()])
        except TOLD:
            pass  # tried again, as below
        except (KafkaError, OSError) as error:
            log.info("the controller could not be asked to change in-sync replicas: %s", error)
        except Exception:
            log.exception("the controller could not be asked to change in-sync replicas")
        else:
            for outcome in outcomes:
                partition, change = wanted.get(outcome.key, (None, None))
                if partition is not None and change is not None and not self._settle(partition, change, outcome):
                    del again[outcome.key]
        for partition, change in again.values():
            self.failures += 1
            if partition.wants(change):
                self._replicas.propose(partition, change)
        return not again

    def _settle(self, partition: Partition, change: IsrChange, outcome: IsrOutcome) -> bool:
        before = len(partition.isr)
        again = partition.isr_answered(change, outcome)
        if outcome.error_code:
            self.failures += not again
            log.info("%s: the in-sync replicas stay: error %d", partition.topic_partition, outcome.error_code)
        self.shrinks += len(partition.isr) < before
        self.expands += len(partition.isr) > before
        return again
