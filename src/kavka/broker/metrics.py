"""What a node shows of itself: numbers that its parts hold, asked for when somebody scrapes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from kavka.broker.coordinating import Coordinating
from kavka.broker.dispatch import Dispatcher
from kavka.broker.quotas import Quotas
from kavka.model.clock import Clock
from kavka.net.server import Server
from kavka.protocol.registry import API
from kavka.quorum.controller_loop import ControllerLoop
from kavka.replica.cleaner import Cleaner
from kavka.replica.fetching import FetchSessions
from kavka.replica.manager import ReplicaManager
from kavka.telemetry.metrics import Labelled, Metrics, StallWatch

MICROSECONDS = 1e-6


def show_traffic(metrics: Metrics, dispatcher: Dispatcher, server: Server) -> None:
    """Requests by API, connections, and what went through them."""

    def requests() -> Iterator[Labelled]:
        for key, count in dispatcher.requests.items():
            yield (API[key].name,), count

    metrics.counts("kavka_requests", "Requests received, by API.", ("api",), requests)
    metrics.gauge("kavka_connections", "Open connections.", lambda: len(server.connections))
    metrics.count("kavka_connections_delayed", "Connections that came too fast and waited.", lambda: server.delayed)
    metrics.count(
        "kavka_connections_turned_away", "Connections that an address opened too fast.", lambda: server.turned_away
    )
    metrics.count("kavka_received_bytes", "Bytes received from clients.", lambda: server.received_bytes)
    metrics.count("kavka_sent_bytes", "Bytes sent to clients.", lambda: server.sent_bytes)


def show_quotas(metrics: Metrics, quotas: Quotas) -> None:
    """How clients are made to wait."""

    def waits() -> Iterator[Labelled]:
        for kind, count in quotas.waits.items():
            yield (kind.value,), count

    def waited() -> Iterator[Labelled]:
        for kind, ms in quotas.waited_ms.items():
            yield (kind.value,), ms / 1000

    metrics.counts("kavka_throttled", "How often clients had to wait, by quota.", ("quota",), waits)
    metrics.counts("kavka_throttled_seconds", "For how long clients had to wait, by quota.", ("quota",), waited)
    metrics.gauge("kavka_quota_buckets", "Users and client ids whose use is counted.", lambda: len(quotas))


def show_replicas(metrics: Metrics, replicas: ReplicaManager, sessions: FetchSessions, cleaner: Cleaner) -> None:
    """Partitions and their logs."""
    metrics.gauge("kavka_partitions", "Partitions held.", lambda: len(replicas))
    metrics.gauge("kavka_partitions_led", "Partitions led.", lambda: sum(one.leads for one in replicas))
    metrics.gauge("kavka_log_bytes", "Bytes of all logs.", lambda: sum(one.size_bytes for one in replicas))
    metrics.gauge(
        "kavka_failed_logs", "Logs that the disk refused.", lambda: sum(one.failed is not None for one in replicas)
    )
    metrics.gauge(
        "kavka_offline_log_dirs", "Log directories out of use.", lambda: sum(not one.online for one in replicas.dirs)
    )
    metrics.gauge("kavka_fetch_sessions", "Fetch sessions kept.", lambda: len(sessions))
    metrics.gauge("kavka_fetch_session_partitions", "Partitions in them.", lambda: sessions.partitions)
    metrics.count("kavka_fetch_session_evictions", "Sessions that gave way.", lambda: sessions.evictions)
    metrics.count("kavka_compactions", "Compaction passes finished.", lambda: cleaner.passes)


def show_coordinators(metrics: Metrics, coordinating: Coordinating) -> None:
    """What the coordinators made of their logs."""

    def passed_over() -> Iterator[Labelled]:
        for topic, count in coordinating.passed_over.items():
            yield (topic,), count

    metrics.counts(
        "kavka_coordinator_records_passed_over",
        "Records of a coordinator's log that this version cannot take in.",
        ("topic",),
        passed_over,
    )


def show_quorum(metrics: Metrics, controller: ControllerLoop) -> None:
    """The metadata log, and who leads it."""
    metrics.gauge("kavka_active_controller", "Whether this node is it.", lambda: int(controller.is_active))
    metrics.gauge("kavka_quorum_leader", "The node that leads the quorum, -1 if unknown.", lambda: controller.leader)
    metrics.gauge("kavka_quorum_epoch", "The newest epoch of the quorum.", lambda: controller.leader_epoch)
    metrics.gauge("kavka_metadata_offset", "The newest committed metadata.", lambda: controller.image.offset)
    metrics.gauge("kavka_topics", "Topics in the cluster.", lambda: len(controller.image.topics.by_name))


class LoopWatch:
    """Tells how late the loop runs its timers: the sign of a callback that held it."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._clock = clock
        self._watch = StallWatch(
            metrics.histogram("kavka_loop_late_seconds", "How late the loop ran a timer.", MICROSECONDS),
            metrics.counter("kavka_loop_stalls", "How often the loop was held too long."),
        )
        metrics.gauge(
            "kavka_loop_worst_seconds", "The longest it was held.", lambda: self._watch.worst_us * MICROSECONDS
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await asyncio.sleep(self._watch.interval_us * MICROSECONDS)
            self._watch.tick(self._clock.monotonic_ms() * 1000)
