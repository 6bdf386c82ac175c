"""What a node shows of itself: numbers that its parts hold, asked for when somebody scrapes."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from time import monotonic, process_time
from typing import TYPE_CHECKING, Final

from kavka.broker.coordinating import Coordinating
from kavka.broker.dispatch import Dispatcher
from kavka.broker.holding import Holding
from kavka.broker.quotas import Quotas
from kavka.broker.securing import Securing
from kavka.model.clock import Clock
from kavka.net.login import UNKNOWN
from kavka.net.server import Server
from kavka.net.transport import Transport
from kavka.protocol.registry import API
from kavka.quorum.controller_loop import ControllerLoop
from kavka.replica.cleaner import Cleaner
from kavka.replica.fetching import FetchSessions
from kavka.replica.manager import ReplicaManager
from kavka.telemetry.metrics import Labelled, Metrics, StallWatch

if TYPE_CHECKING:  # imported after the start, or not by a node that is alone
    from kavka.replica.isr import IsrManager
    from kavka.runtime.group_lag import GroupLag, PartitionLag
    from kavka.runtime.led_share import LedShare

logger = logging.getLogger(__name__)

MICROSECONDS: Final = 1e-6
NANOSECONDS: Final = 1e-9
REQUEST_BITS: Final = range(14, 37)
"""The times of requests are shown from 16 microseconds to 69 seconds, always the same so that they can be added up."""
MOST_SOFTWARE: Final = 50
MOST_CLIENTS: Final = 50
"""So many names of clients are shown, the busiest: any client may say anything."""
TELL_ABOVE_US = 100_000
TELL_EVERY_SECONDS = 10.0


def show_requests(metrics: Metrics, dispatchers: Mapping[str, Dispatcher]) -> None:
    """Requests by API and by the role of the node that they are asked of, and how long they take."""

    def counts(of: Callable[[Dispatcher], Mapping[int, int]]) -> Callable[[], Iterator[Labelled]]:
        def rows() -> Iterator[Labelled]:
            for role, dispatcher in dispatchers.items():
                for key, count in of(dispatcher).items():
                    yield (API[key].name, role), count

        return rows

    def unsupported() -> Iterator[Labelled]:
        for role, dispatcher in dispatchers.items():
            yield (role,), dispatcher.unsupported

    labels = ("api", "role")
    received, held = counts(lambda of: of.requests), counts(lambda of: of.holding.counts)
    metrics.counts("kavka_requests", "Requests received, by API.", labels, received)
    metrics.counts("kavka_requests_held_loop", "How often a request held the loop over 20 ms.", labels, held)
    metrics.counts(
        "kavka_unsupported_requests", "Requests of an API or version that is not served.", ("role",), unsupported
    )
    times = metrics.histograms(
        "kavka_request_seconds",
        "How long requests took until they were answered, waiting for records or replicas included, by API.",
        *labels,
        scale=NANOSECONDS,
        bits=REQUEST_BITS,
    )
    for role, dispatcher in dispatchers.items():
        for key, taken in dispatcher.times.items():
            times.adopt((API[key].name, role), taken)


def show_connections(metrics: Metrics, server: Server) -> None:
    """Connections of clients, and what went through them."""
    memory = server.memory

    def listeners() -> Iterator[Labelled]:
        names = Counter(connection.session.listener for connection in server.connections.values())
        yield from (((name,), count) for name, count in names.items())

    def software() -> Iterator[Labelled]:
        sessions = (connection.session for connection in server.connections.values())
        found = Counter((each.client_software_name, each.client_software_version) for each in sessions)
        yield from ((names, count) for names, count in found.most_common(MOST_SOFTWARE))

    def moved(read: Callable[[Transport], int]) -> Callable[[], Iterator[Labelled]]:
        def rows() -> Iterator[Labelled]:
            found: Counter[tuple[str, str]] = Counter()
            for connection in server.connections.values():
                session = connection.session
                found[session.client_id, session.client_host] += read(connection.transport)
            yield from found.most_common(MOST_CLIENTS)

        return rows

    received, sent = moved(lambda transport: transport.received_bytes), moved(lambda transport: transport.sent_bytes)
    who = ("client_id", "host")
    metrics.gauges("kavka_connected_received_bytes", "What a client's open connections have sent.", who, received)
    metrics.gauges("kavka_connected_sent_bytes", "What a client's open connections were sent.", who, sent)
    metrics.gauges("kavka_connections", "Open connections, by listener.", ("listener",), listeners)
    metrics.gauges(
        "kavka_connected_software",
        "Open connections by what clients say they are (KIP-511), the most frequent.",
        ("name", "version"),
        software,
    )
    metrics.gauge("kavka_request_memory_bytes", "Held by requests and answers in between.", lambda: memory.held)
    metrics.count("kavka_request_memory_waits", "How often a client waited for room there.", lambda: memory.waits)
    metrics.count("kavka_request_memory_closed", "Connections closed to make room.", lambda: memory.closed)
    metrics.count("kavka_connections_delayed", "Connections that came too fast and waited.", lambda: server.delayed)
    metrics.count(
        "kavka_connections_turned_away", "Connections that an address opened too fast.", lambda: server.turned_away
    )
    metrics.count("kavka_received_bytes", "Bytes received from clients.", lambda: server.received_bytes)
    metrics.count("kavka_sent_bytes", "Bytes sent to clients.", lambda: server.sent_bytes)


def show_process(metrics: Metrics, clock: Clock) -> None:
    """The process of the node: its open files, its memory, its clock."""
    most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    metrics.gauge("kavka_open_files", "Descriptors in use.", lambda: len(os.listdir("/proc/self/fd")))
    metrics.gauge("kavka_max_open_files", "Descriptors that may be in use.", lambda: most_files)
    metrics.count("kavka_cpu_seconds", "The processor's time that this process has used.", process_time)
    metrics.gauge("kavka_resident_bytes", "Memory in use.", resident_bytes)
    metrics.gauge(
        "kavka_time_seconds", "The time by this node's clock, since the epoch.", lambda: clock.now_ms() / 1000
    )


def resident_bytes() -> int:
    """What the process holds of memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


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

    def handshakes() -> Iterator[Labelled]:
        for name, listener in securing.tls.items():
            yield (name, "succeeded"), listener.succeeded
            yield (name, "failed"), listener.failed

    def logins() -> Iterator[Labelled]:
        for name, listener in securing.logins.items():
            for mechanism in dict.fromkeys((*listener.offers, *listener.succeeded, *listener.failed, UNKNOWN)):
                if mechanism != UNKNOWN:
                    yield (name, mechanism, "succeeded"), listener.succeeded[mechanism]
                yield (name, mechanism, "failed"), listener.failed[mechanism]

    def ends() -> Iterator[Labelled]:
        for name in securing.keys:
            ends_at = securing.keys[name].ends_at
            if ends_at is not None:
                yield (name,), ends_at

    lobbies, keys = securing.lobbies.values, securing.keys
    outcomes, logged_in = ("listener", "outcome"), ("listener", "mechanism", "outcome")
    metrics.counts("kavka_tls_handshakes", "TLS handshakes of clients, by outcome.", outcomes, handshakes)
    metrics.counts("kavka_sasl_logins", "SASL log-ins of clients, by mechanism and outcome.", logged_in, logins)
    metrics.gauge(
        "kavka_unauthenticated_connections", "Connections that are on their way in.", lambda: sum(map(len, lobbies()))
    )
    metrics.count(
        "kavka_authentication_timeouts",
        "Clients that took too long to get in.",
        lambda: sum(lobby.timed_out for lobby in lobbies()),
    )
    metrics.count(
        "kavka_authentication_crowded_out",
        "Clients that gave way to others.",
        lambda: sum(lobby.crowded_out for lobby in lobbies()),
    )
    metrics.count("kavka_tls_reloads", "How often certificates took the place of others.", lambda: keys.reloaded)
    metrics.count(
        "kavka_tls_reload_failures", "How often certificates could not be used.", lambda: keys.reload_failures
    )
    metrics.gauges(
        "kavka_tls_certificate_end_seconds", "When a certificate ends, since the epoch.", ("listener",), ends
    )


def show_replicas(metrics: Metrics, replicas: ReplicaManager, sessions: FetchSessions, cleaner: Cleaner) -> None:
    """What is around the partitions of a node: directories, fetch sessions, compaction."""
    metrics.gauge(
        "kavka_offline_log_dirs",
        "Log directories out of use.",
        lambda: sum(not log_dir.online for log_dir in replicas.dirs),
    )
    metrics.gauge("kavka_fetch_sessions", "Fetch sessions kept.", lambda: len(sessions))
    metrics.gauge("kavka_fetch_session_partitions", "Partitions in them.", lambda: sessions.partitions)
    metrics.count("kavka_fetch_session_evictions", "Sessions that gave way.", lambda: sessions.evictions)
    metrics.count("kavka_compactions", "Compaction passes finished.", lambda: cleaner.passes)


def show_isr(metrics: Metrics, isr: IsrManager) -> None:
    """How the ISRs of the partitions led change."""
    metrics.count("kavka_isr_shrinks", "How often an ISR of a partition led became smaller.", lambda: isr.shrinks)
    metrics.count("kavka_isr_expands", "How often an ISR of a partition led became larger.", lambda: isr.expands)
    metrics.count("kavka_failed_isr_updates", "ISR changes that the controller did not make.", lambda: isr.failures)


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


def show_lag(metrics: Metrics, lag: GroupLag, detail: str) -> None:
    """The groups that this node coordinates, and how far they are behind: all, by topic, by partition."""

    def groups() -> Iterator[Labelled]:
        yield from lag.groups.items()

    def sums(labels: Callable[[PartitionLag], tuple[str, ...]]) -> Callable[[], Iterator[Labelled]]:
        def rows() -> Iterator[Labelled]:
            totals: Counter[tuple[str, ...]] = Counter()
            for found in lag.partitions:
                totals[labels(found)] += found.lag
            yield from totals.items()

        return rows

    metrics.gauges("kavka_groups", "Groups coordinated here, by type and state.", ("type", "state"), groups)
    help_ = "Records that a group has not committed, up to the high watermark."
    metrics.gauges("kavka_group_lag_records", help_, ("group",), sums(lambda found: (found.group,)))
    if detail != "node":
        by_topic = sums(lambda found: (found.group, found.topic))
        metrics.gauges("kavka_group_topic_lag_records", help_, ("group", "topic"), by_topic)
    if detail == "partition":
        each = sums(lambda found: (found.group, found.topic, str(found.partition)))
        metrics.gauges("kavka_group_partition_lag_records", help_, ("group", "topic", "partition"), each)


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
            for share_partition in coordinating.share_leader or ():
                tp = share_partition.partition.topic_partition
                yield (share_partition.key.group_id, tp.topic, str(tp.partition)), read(share_partition)

        return rows

    def total(name: str) -> Callable[[], int]:
        def read() -> int:
            leader = coordinating.share_leader
            return 0 if leader is None else int(getattr(leader.counts, name))

        return read

    labels = ("group", "topic", "partition")
    in_flight, lag = (
        each(lambda share_partition: share_partition.in_flight),
        each(lambda share_partition: share_partition.lag),
    )
    metrics.gauges("kavka_share_in_flight_records", "Records that a share group has in flight.", labels, in_flight)
    metrics.gauges("kavka_share_lag_records", "Records that a share group is not done with.", labels, lag)
    for name, help_ in SHARE_COUNTS.items():
        metrics.count(f"kavka_share_{name}_records", help_, total(name))

    def sessions() -> int:
        leader = coordinating.share_leader
        return 0 if leader is None else len(leader.sessions)

    metrics.gauge("kavka_share_sessions", "Share sessions of members on this node.", sessions)


def show_quorum(metrics: Metrics, controller: ControllerLoop) -> None:
    """The metadata log, and its leader."""
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
                logger.warning("event loop ran %d ms late, held by %s", late_us // 1000, who)
