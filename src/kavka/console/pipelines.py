"""The flows of pipelines as they report themselves, in a topic: read on from where the last look ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final

from kavka.client import Consumer, KafkaError, Pool, TopicPartition
from kavka.model.errors import UnknownTopicOrPartition
from kavka.model.pipelines import STATUS_TOPIC, FlowReport

logger = logging.getLogger(__name__)

READ_SECONDS: Final = 4.0
MOST_FLOWS: Final = 1000
SILENT: Final = "silent"
"""The state of a flow that said it runs, and then nothing more."""
LONGEST_MS: Final = 3_600_000
"""However seldom a flow says that it reports, after twice this it is silent."""


def state_of(report: FlowReport, now_ms: float) -> str:
    """How a flow stands, as far as anybody can tell."""
    patience = 2 * min(max(report.every_ms, 10_000), LONGEST_MS)
    return SILENT if report.state == "running" and now_ms - report.at_ms > patience else report.state


def lag_of(report: FlowReport, ends: Mapping[TopicPartition, int]) -> int | None:
    """How many offsets a flow has not read, by where partitions end now, as far as that is known."""
    if not report.positions:
        return None
    return sum(max(0, ends.get(TopicPartition(at.topic, at.partition), at.end) - at.read) for at in report.positions)


class Reports:
    """What is known of flows."""

    def __init__(self, pool: Pool, topic: str = STATUS_TOPIC) -> None:
        self.flows: dict[tuple[str, str], FlowReport] = {}
        """By the names of pipeline and flow."""
        self.unreadable = 0
        """How many records of the topic are no reports."""
        self.complete = True
        """Whether everything up to the end was read."""
        self._pool = pool
        self._topic = topic
        self._positions: dict[TopicPartition, int] = {}
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Read what is new; raises KafkaError, except that there need be no topic."""
        async with self._reading:
            try:
                await self._pool.topic(self._topic)
                await self._read()
            except UnknownTopicOrPartition:
                self._forget()

    def _forget(self) -> None:
        self.flows.clear()
        self._positions.clear()
        self.unreadable, self.complete = 0, True

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + READ_SECONDS
        async with Consumer(self._pool, max_wait_ms=100, out_of_range="start") as consumer:
            await consumer.assign(self._topic, start="start")
            ends = await consumer.end_offsets()
            if any(self._positions.get(tp, 0) > end for tp, end in ends.items()):  # it was created anew
                self._forget()
            for tp, offset in self._positions.items():
                if tp in ends:
                    await consumer.seek(offset, tp)
            while any(consumer.position(tp) < end for tp, end in ends.items()) and (left := until - loop.time()) > 0:
                for record in await consumer.read(int(left * 1000) + 1, ends=ends):
                    self._take(record.value)
            self._positions = {tp: consumer.position(tp) for tp in ends}
            self.complete = all(self._positions[tp] >= end for tp, end in ends.items())

    def _take(self, value: bytes | None) -> None:
        if value is None:
            return
        try:
            report = FlowReport.decode(value)
        except ValueError as error:
            logger.debug("a record of %s is no report: %s", self._topic, error)
            self.unreadable += 1
            return
        key = report.pipeline, report.flow
        self.flows.pop(key, None)
        self.flows[key] = report  # the newest last
        if len(self.flows) > MOST_FLOWS:
            del self.flows[next(iter(self.flows))]

    def lags(self, ends: Mapping[TopicPartition, int]) -> dict[str, float]:
        """The lag of each flow, for charts."""
        found = {f"flow {pipeline}/{flow}": lag_of(report, ends) for (pipeline, flow), report in self.flows.items()}
        return {name: lag for name, lag in found.items() if lag is not None}


async def known_reports(reports: Reports) -> str | None:
    """Bring reports up to date; why they cannot be, in words for people, if they cannot."""
    try:
        await reports.refresh()
    except KafkaError as error:
        return str(error) or type(error).__name__
    return None


def now_ms() -> float:
    """The time as reports have it."""
    return time.time() * 1000
