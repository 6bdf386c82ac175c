"""What is known of a cluster on behalf of one principal: the last look at it, rates, health, and how it was before.

Nobody is asked while no browser looks; while one does, looks cost at most a small share of the time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import Final

from kavka.client import ClusterView, KafkaError, Pool, TopicView
from kavka.console.checks import Finding, Seen, findings
from kavka.console.examining import examine
from kavka.console.looking import look
from kavka.console.pipelines import Reports
from kavka.console.rates import Look, Rates, by_topic, lag_of, rates
from kavka.console.series import Series

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 3.0
SHARE: Final = 0.1
"""Of the time that passes, at most so much is spent on looks."""
WATCHED_SECONDS: Final = 60.0
EXAMINED_EVERY_SECONDS: Final = 10.0
ASK_SECONDS: Final = 5.0
BUSIEST: Final = 8
SCHEMAS: Final = "_schemas"


class Watch:
    """A cluster under watch."""

    def __init__(self, cluster: str, pages: tuple[str, ...] = ()) -> None:
        self.cluster = cluster
        self.pool = Pool(cluster, client_id="kavka-console", timeout_ms=int(ASK_SECONDS * 1000))
        self.pipelines = Reports(self.pool)
        self.view = ClusterView()
        """Topics and nodes as they were last told."""
        self.look: Look | None = None
        self.rates: Rates | None = None
        self.topic_rates: dict[str, tuple[float, float]] = {}
        """Records and bytes a second."""
        self.topic_sizes: Counter[str] = Counter()
        self.troubles: dict[str, str] = {}
        """What is wrong with topics, of those that have something."""
        self.series = Series()
        self.findings: list[Finding] | None = None
        self.seen: Seen | None = None
        self.error: str | None = None
        """Why the last look failed."""
        self.looked_at: float | None = None
        self._pages = pages
        self._known = asyncio.Event()
        self._touched = float("-inf")
        self._look_at = self._examine_at = 0.0
        self._looking = self._examining = False

    def touch(self) -> None:
        """Somebody is looking."""
        self._touched = asyncio.get_running_loop().time()

    async def known(self) -> None:
        """Return when topics and nodes are known, or it is known why they are not."""
        self.touch()
        await self._known.wait()

    def due(self, now: float) -> tuple[bool, bool]:
        """Whether it is time to look, and to examine."""
        watched = now - self._touched < WATCHED_SECONDS
        return (
            watched and not self._looking and now >= self._look_at,
            watched and not self._examining and now >= self._examine_at,
        )

    async def look_now(self) -> None:
        """Look at the cluster."""
        loop, self._looking = asyncio.get_running_loop(), True
        began = loop.time()
        try:
            self.view = await self.pool.refresh_all()
            self.troubles = {name: trouble for name, topic in self.view.topics.items() if (trouble := _trouble(topic))}
            self._known.set()
            self._learn(await look(self.pool, (), ASK_SECONDS, internal=True, view=self.view))
            self.error = None
        except (KafkaError, OSError, TimeoutError) as error:
            self.error = str(error) or type(error).__name__
        finally:
            self._looking = False
            self._known.set()
            took = loop.time() - began
            self._look_at = began + max(EVERY_SECONDS, took / SHARE)

    def _learn(self, now: Look) -> None:
        before, self.look, self.looked_at = self.look, now, time.time()
        row: dict[str, float] = {}
        if before is not None:
            self.rates, self.topic_rates = rates(before, now, BUSIEST), by_topic(before, now)
            row["records"], row["bytes"] = self.rates.messages_per_second, self.rates.bytes_per_second
            row |= {f"topic {name}": records for name, (records, _) in self.topic_rates.items()}
            row |= {f"topic-bytes {name}": added for name, (_, added) in self.topic_rates.items()}
        self.topic_sizes = Counter()
        for tp, count in now.sizes.items():
            self.topic_sizes[tp.topic] += count
        for group in (*now.committed, *now.share_lags):
            row[f"group {group}"] = lag_of(now, group) or 0
        row |= self.pipelines.lags(now.ends)
        self.series.add(round(self.looked_at, 1), row)

    async def examine_now(self) -> None:
        """Look at everything that commonly goes wrong."""
        loop, self._examining = asyncio.get_running_loop(), True
        try:
            await self._known.wait()
            self.seen = await examine(self.cluster, self.pool, self._pages, ASK_SECONDS, self.view)
            self.findings = findings(self.seen)
        except (KafkaError, OSError, TimeoutError) as error:
            logger.info("the cluster cannot be examined: %s", error)  # why is shown by the look, which fails too
            self.findings = None
        finally:
            self._examining = False
            self._examine_at = loop.time() + EXAMINED_EVERY_SECONDS

    async def close(self) -> None:
        """Hang up."""
        await self.pool.close()


def is_internal(name: str, topic: TopicView) -> bool:
    """Whether a topic is there for the cluster's own sake: not only those that Kafka calls so."""
    return topic.internal or name.startswith("__") or name == SCHEMAS


def _trouble(topic: TopicView) -> str:
    """What is wrong with a topic, if anything."""
    offline = sum(each.leader < 0 for each in topic.partitions.values())
    if offline:
        return f"{offline} offline"
    lacking = sum(len(each.isr) < len(each.replicas) for each in topic.partitions.values())
    return f"{lacking} under-replicated" if lacking else ""
