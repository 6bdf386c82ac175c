"""What a node shows of itself: numbers that its parts hold, asked for when somebody scrapes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Final

from kavka.broker.coordinating import Coordinating
from kavka.broker.dispatch import Dispatcher
from kavka.broker.holding import Holding
from kavka.broker.quotas import Quotas
from kavka.broker.securing import Securing
from kavka.model.clock import Clock
from kavka.net.login import Logins
from kavka.net.server import Server
from kavka.net.tls import TlsListener
from kavka.protocol.registry import API
from kavka.quorum.controller_loop import ControllerLoop
from kavka.replica.cleaner import Cleaner
from kavka.replica.fetching import FetchSessions
from kavka.replica.manager import ReplicaManager
from kavka.telemetry.metrics import Labelled, Metrics, StallWatch

if TYPE_CHECKING:  # it is imported after the start
    from kavka.runtime.led_share import LedShare

logger = logging.getLogger(__name__)

MICROSECONDS = 1e-6
TELL_ABOVE_US = 100_000
TELL_EVERY_SECONDS = 10.0


def show_traffic(metrics: Metrics, dispatcher: Dispatcher, server: Server) -> None:
    """Requests by API, connections, and what went through them."""

    def requests() -> Iterator[Labelled]:
        for key, count in dispatcher.requests.items():
            yield (API[key].name,), count

    metrics.counts("kavka_requests", "Requests received, by API.", ("api",), requests)

    def held() -> Iterator[Labelled]:
        for key, count in dispatcher.holding.counts.items():
            yield (API[key].name,), count

    memory = server.memory
    metrics.counts("kavka_requests_held_loop", "How often a request held the loop over 20 ms.", ("api",), held)
    metrics.gauge("kavka_request_memory_bytes", "Held by requests and answers in between.", lambda: memory.held)
    metrics.count("kavka_request_memory_waits", "How often a client waited for room there.", lambda: memory.waits)
    metrics.count("kavka_request_memory_closed", "Connections closed to make room.", lambda: memory.closed)
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


def show_security(metrics: Metrics, securing: Securing) -> None:
    """Who gets in, who does not, and how long certificates last."""

    def outcomes(of: Mapping[str, TlsListener] | Mapping[str, Logins]) -> Callable[[], Iterator[Labelled]]:
        def rows() -> Iterator[Labelled]:
            for name, one in of.items():
                yield (name, "succeeded"), one.succeeded
                yield (name, "failed"), one.failed

        return rows

    def ends() -> Iterator[Labelled]:
        for name in securing.keys:
            ends_at = securing.keys[name].ends_at
            if ends_at is not None:
                yield (name,), ends_at

    labels, lobby, keys = ("listener", "outcome"), securing.lobby, securing.keys
    metrics.counts("kavka_tls_handshakes", "TLS handshakes of clients, by outcome.", labels, outcomes(securing.tls))
    metrics.counts("kavka_sasl_logins", "SASL log-ins of clients, by outcome.", labels, outcomes(securing.logins))
    metrics.gauge("kavka_unauthenticated_connections", "Connections that are on their way in.", lambda: len(lobby))
    metrics.count("kavka_authentication_timeouts", "Clients that took too long to get in.", lambda: lobby.timed_out)
    metrics.count("kavka_authentication_crowded_out", "Clients that gave way to others.", lambda: lobby.crowded_out)
    metrics.count("kavka_tls_reloads", "How often certificates took the place of others.", lambda: keys.reloaded)
    metrics.count("kavka_tls_reload_failures", "How often certificates could not be used.", lambda: keys.kept)
    metrics.gauges(
        "kavka_tls_certificate_end_seconds", "When a certificate ends, since the epoch.", ("listener",), ends
    )


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


SHARE_COUNTS: Final = {
    "acquired": "Records that members of share groups got from this node.",
    "redelivered": "Of the records that members of share groups got: not for the first time.",
    "accepted": "Records that share groups have accepted.",
    "released": "Records that share groups have given back to be delivered again.",
    "expired": "Records that were taken back from members of share groups because their lock had ended.",
    "archived": "Records that share groups do not get any more: rejected, gone, or delivered as often as they may be.",
}


def show_share_groups(metrics: Metrics, coordinating: Coordinating) -> None:
    """What share groups do with the partitions that this node leads."""

    def each(read: Callable[[LedShare], int]) -> Callable[[], Iterator[Labelled]]:
        def rows() -> Iterator[Labelled]:
            for one in coordinating.share_leader or ():
                tp = one.partition.topic_partition
                yield (one.key.group_id, tp.topic, str(tp.partition)), read(one)

        return rows

    def total(name: str) -> Callable[[], int]:
        def read() -> int:
            leader = coordinating.share_leader
            return 0 if leader is None else int(getattr(leader.counts, name))

        return read

    labels = ("group", "topic", "partition")
    in_flight, lag = each(lambda one: one.in_flight), each(lambda one: one.lag)
    metrics.gauges("kavka_share_in_flight_records", "Records that a share group has in flight.", labels, in_flight)
    metrics.gauges("kavka_share_lag_records", "Records that a share group is not done with.", labels, lag)
    for name, help_ in SHARE_COUNTS.items():
        metrics.count(f"kavka_share_{name}_records", help_, total(name))

    def sessions() -> int:
        leader = coordinating.share_leader
        return 0 if leader is None else len(leader.sessions)

    metrics.gauge("kavka_share_sessions", "Share sessions of members on this node.", sessions)


def show_quorum(metrics: Metrics, controller: ControllerLoop) -> None:
    """The metadata log, and who leads it."""
    metrics.gauge("kavka_active_controller", "Whether this node is it.", lambda: int(controller.is_active))
    metrics.gauge("kavka_quorum_leader", "The node that leads the quorum, -1 if unknown.", lambda: controller.leader)
    metrics.gauge("kavka_quorum_epoch", "The newest epoch of the quorum.", lambda: controller.leader_epoch)
    metrics.gauge("kavka_metadata_offset", "The newest committed metadata.", lambda: controller.image.offset)
    metrics.gauge("kavka_topics", "Topics in the cluster.", lambda: len(controller.image.topics.by_name))


class LoopWatch:
    """Tells how late the loop runs its timers: the sign of a callback that held it."""

    def __init__(self, metrics: Metrics, clock: Clock, holding: Holding) -> None:
        self._clock = clock
        self._holding = holding
        self._told = -TELL_EVERY_SECONDS
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
            began = monotonic()
            await asyncio.sleep(self._watch.interval_us * MICROSECONDS)
            late_us = self._watch.tick(self._clock.monotonic_ms() * 1000)
            if late_us >= TELL_ABOVE_US and monotonic() - self._told >= TELL_EVERY_SECONDS:
                self._told = monotonic()
                who = self._holding.since(began) or "no request: by the node's own work, or by the machine"
                logger.warning("the loop ran %d ms late; it was held by %s", late_us // 1000, who)
