"""Copying from one leader: one long poll at a time, in a session, until no partition is left to copy.

Where a copy goes on is where its log ends, so nothing is remembered that the log does not know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from kavka.client.connection import Connection
from kavka.client.connector import Connector
from kavka.client.line import AT_ONCE, TOLD, Address, Line
from kavka.model.clock import Clock
from kavka.model.errors import (
    BY_CODE,
    BrokerNotAvailable,
    CorruptMessage,
    FetchSessionIdNotFound,
    KafkaError,
    KafkaStorageError,
    NetworkException,
    ReplicaNotAvailable,
    UnknownServerError,
)
from kavka.model.settings import (
    FOLLOWER_FETCH_LAST_TIERED_OFFSET_ENABLE,
    REPLICA_FETCH_BACKOFF_MS,
    REPLICA_FETCH_MAX_BYTES,
    REPLICA_FETCH_MIN_BYTES,
    REPLICA_FETCH_RESPONSE_MAX_BYTES,
    REPLICA_FETCH_WAIT_MAX_MS,
    REPLICA_SOCKET_TIMEOUT_MS,
)
from kavka.pacing.turn import Turn
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from kavka.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.replica.session import Ask, Asked, FetchSession, Key
from kavka.replica.syncing import Failed, Syncer
from kavka.replica.tier import RemoteStateRead, arrived
from kavka.replica.tiered_start import EARLIEST_PENDING_UPLOAD, TieredStart, tiered_start
from kavka.replication.follower import Reaction, backoff_ms, reaction, reset, start_offset, truncation_offset
from kavka.replication.throttle import Throttle
from kavka.storage import files
from kavka.storage.log import Log

logger = logging.getLogger(__name__)

FETCH_VERSION: Final = 17
REPLICA_STATE_SINCE: Final = 15
LATEST: Final = -1
EARLIEST: Final = -2
SOON_MS: Final = 50
THROTTLED_MS: Final = 100
URGENT_SECONDS: Final = 0.02
INTERRUPT_SECONDS: Final = 0.2
"""A long poll is given up for what cannot wait for its end at most this often."""
LEVELS: Final = {Reaction.SOON: logging.DEBUG, Reaction.WAIT: logging.INFO}
"""How loud the answers are told of that come whenever a leader hands over; others are warnings."""


@dataclass(frozen=True, slots=True)
class FetcherContext:
    """What all fetchers of a node share."""

    replicas: ReplicaManager
    syncer: Syncer
    connector: Connector
    clock: Clock
    listener: str
    broker_epoch: Callable[[], int]
    throttle: Throttle
    leaving: Callable[[], bool] = lambda: False
    """Whether this node is stopping, as others may be too."""


class Copy:
    """A partition that is copied from a leader in one of its epochs."""

    __slots__ = ("attempts", "behind", "leader", "leader_epoch", "partition", "rests")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader = partition.leader
        self.leader_epoch = partition.leader_epoch
        self.attempts = 0
        self.behind = True
        self.rests = False
        """Whether it is not to be asked for now."""

    @property
    def key(self) -> Key:
        """How requests name it."""
        return self.partition.topic_id, self.partition.topic_partition.partition

    @property
    def current(self) -> bool:
        """Whether the leadership that it belongs to still holds."""
        return self.partition.leader_epoch == self.leader_epoch and self.partition.leader == self.leader

    def asked(self, max_bytes: int) -> Asked:
        """What to ask the leader for."""
        log = self.partition.log
        return Asked(self.leader_epoch, log.log_end_offset, log.epochs.latest, log.log_start_offset, max_bytes)


class Fetcher:
    """Copies partitions from one leader."""

    def __init__(self, leader: int, around: FetcherContext) -> None:
        self.leader = leader
        self._around = around
        self._loop = asyncio.get_running_loop()
        self._copies: dict[Key, Copy] = {}
        self._changed: dict[Key, None] = {}
        self._session = FetchSession()
        self._line = self._lay_line()
        self._woken = asyncio.Event()
        self._interrupt: asyncio.TimerHandle | None = None
        self._interrupted_at = -INTERRUPT_SECONDS
        self._interrupted = False
        self._polling = False
        self._closed = False
        self._cut = False  # whether the checkpoint may say of a log that more of it is on the disk than there is

    def __len__(self) -> int:
        return len(self._copies)

    # -- what to copy ---------------------------------------------------------------------------------

    def follow(self, partition: Partition) -> None:
        """Copy a partition from now on, in its present leader epoch."""
        copy = Copy(partition)
        known = self._copies.get(copy.key)
        if known is not None and known.partition is partition and known.current:
            return
        self._copies[copy.key] = copy
        log = partition.log
        try:
            offset = start_offset(log.epochs, log.log_end_offset, partition.high_watermark)
            if offset < log.log_end_offset:
                self._truncate(partition, offset)
        except KafkaStorageError as error:
            self._give_up(copy, error)
        self._touch(copy.key)

    def forget(self, key: Key) -> None:
        """Copy a partition no more."""
        if self._copies.pop(key, None) is not None:
            self._changed[key] = None
            if not self._copies:
                self.close()

    def wake(self) -> None:
        """The leader may have come back: do not wait to try again."""
        self._woken.set()

    def close(self) -> None:
        """Copy nothing any more; what is under way is not taken in."""
        self._closed = True
        self._copies.clear()
        self._woken.set()
        if self._interrupt is not None:
            self._interrupt.cancel()
        self._line.close()

    def _touch(self, key: Key) -> None:
        """Say something else of a partition soon, even if the leader is asked already and has nothing to answer."""
        self._changed[key] = None
        self._woken.set()
        if self._polling and self._interrupt is None:
            since = self._loop.time() - self._interrupted_at
            delay = max(URGENT_SECONDS, INTERRUPT_SECONDS - since)
            self._interrupt = self._loop.call_later(delay, self._give_up_poll)

    def _give_up_poll(self) -> None:
        self._interrupt = None
        if self._polling and self._changed:
            self._interrupted_at = self._loop.time()
            self._interrupted = True
            self._line.hang_up()

    def _rest(self, copy: Copy, delay_ms: int, *, urgent: bool) -> None:
        """Leave a partition alone for a while."""
        copy.rests = True
        self._changed[copy.key] = None
        self._loop.call_later(delay_ms / 1000, self._resume, copy, urgent)

    def _resume(self, copy: Copy, urgent: bool) -> None:
        if self._copies.get(copy.key) is copy:
            copy.rests = False
            self._changed[copy.key] = None
            self._woken.set()
            if urgent:
                self._touch(copy.key)

    def _back_off(self, copy: Copy, why: Reaction) -> None:
        copy.attempts += 1
        most_ms = self._around.replicas.values[REPLICA_FETCH_BACKOFF_MS]
        self._rest(copy, backoff_ms(why, copy.attempts, SOON_MS, most_ms), urgent=why is Reaction.SOON)

    def _give_up(self, copy: Copy, error: Exception) -> None:
        """Copy it no more until its leadership changes."""
        logger.error("%s: replication stopped: %s", copy.partition.topic_partition, error)
        copy.rests = True
        self._changed[copy.key] = None

    # -- running ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Copy until closed or cancelled."""
        failures = 0
        try:
            while not self._closed:
                try:
                    await self._note_cuts()
                    connection = await self._line.connect()
                    await self._note_cuts()
                    if not self._closed:
                        await self._fetch(connection)
                    failures = 0
                except Exception as error:  # a fault with one leader: the others are followed all the same
                    if not isinstance(error, KafkaError):
                        logger.exception("fetching from leader %d failed", self.leader)
                    self._hang_up()
                    if not self._closed and not self._interrupted:
                        failures += 1
                        self._tell_failed(failures, error)
                        await self._pause(failures)
                    self._interrupted = False
        finally:
            self._hang_up()

    def _tell_failed(self, failures: int, error: Exception) -> None:
        """A connection that ends is news; a leader that does not come back either is a warning, once."""
        if isinstance(error, TOLD):
            return  # the line has said it
        if failures == 1:
            logger.info("fetch from leader %d failed, retrying: %s", self.leader, error)
        elif failures == 2:
            level = logging.INFO if self._around.leaving() else logging.WARNING
            logger.log(level, "fetch from leader %d keeps failing: %s", self.leader, error)

    async def _pause(self, failures: int) -> None:
        most_ms = self._around.replicas.values[REPLICA_FETCH_BACKOFF_MS]
        self._woken.clear()
        try:
            async with asyncio.timeout(backoff_ms(Reaction.SOON, failures, SOON_MS, most_ms) / 1000):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _hang_up(self) -> None:
        self._session.restart()
        self._polling = False
        self._line.hang_up()

    def _lay_line(self) -> Line:
        replicas = self._around.replicas
        timeout_ms = replicas.values[REPLICA_SOCKET_TIMEOUT_MS]
        return Line(
            self._around.connector,
            self._address,
            name=f"broker {self.leader}",
            client_id=f"broker-{replicas.node_id}-fetcher-{self.leader}",
            request_timeout_ms=timeout_ms,
            connect_timeout_ms=timeout_ms,
            backoff=AT_ONCE,
        )

    def _address(self) -> Address:
        around = self._around
        broker = around.replicas.brokers.get(self.leader)
        endpoint = broker.endpoint(around.listener) if broker is not None else None
        if endpoint is None:
            raise BrokerNotAvailable(f"node {self.leader} has no listener {around.listener}")
        return endpoint.host, endpoint.port

    async def _fetch(self, connection: Connection) -> None:
        """Ask once and take in the answer; without anything to ask for, wait until there is."""
        self._woken.clear()
        ask = self._session.ask(self._changes())
        if not self._session.rows or self._around.broker_epoch() < 0:
            self._session.restart()
            try:
                async with asyncio.timeout(SOON_MS / 1000 if self._session.rows else None):
                    await self._woken.wait()
            except TimeoutError:
                pass
            return
        version = connection.version(ApiKey.FETCH, FETCH_VERSION)
        self._polling = True
        try:
            answer = await connection.request(self._request(ask, version), FetchResponse, version=version)
        finally:
            self._polling = False
        if answer.error_code:
            self._session.restart(known=answer.error_code != FetchSessionIdNotFound.code)
            logger.debug("leader %d rejected the fetch session: error %d", self.leader, answer.error_code)
            return
        self._session.answered(answer.session_id)
        await self._take(connection, answer)

    def _changes(self) -> dict[Key, Asked | None]:
        """What may have to be said of the partitions that have changed."""
        around = self._around
        max_bytes = around.replicas.values[REPLICA_FETCH_MAX_BYTES]
        exceeded = around.throttle.exceeded(around.clock.monotonic_ms())
        changed, self._changed = self._changed, {}
        found: dict[Key, Asked | None] = {}
        for key in changed:
            copy = self._copies.get(key)
            if copy is not None and not copy.rests and exceeded and copy.behind and copy.partition.follower_throttled:
                self._rest(copy, THROTTLED_MS, urgent=False)  # in-sync replicas are not slowed down (KIP-73)
            wanted = copy is not None and not copy.rests and copy.current
            found[key] = copy.asked(max_bytes) if wanted and copy is not None else None
        return found

    def _request(self, ask: Ask, version: int) -> FetchRequest:
        around = self._around
        values = around.replicas.values
        topics: dict[object, FetchTopic] = {}
        for (topic_id, index), row in ask.rows.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=row.leader_epoch,
                    fetch_offset=row.offset,
                    last_fetched_epoch=row.last_epoch,
                    log_start_offset=row.log_start_offset,
                    partition_max_bytes=row.max_bytes,
                )
            )
        node_id, old = around.replicas.node_id, version < REPLICA_STATE_SINCE
        state = ReplicaState() if old else ReplicaState(replica_id=node_id, replica_epoch=around.broker_epoch())
        return FetchRequest(
            replica_id=node_id if old else -1,
            replica_state=state,
            max_wait_ms=values[REPLICA_FETCH_WAIT_MAX_MS],
            min_bytes=values[REPLICA_FETCH_MIN_BYTES],
            max_bytes=values[REPLICA_FETCH_RESPONSE_MAX_BYTES],
            session_id=ask.session_id,
            session_epoch=ask.session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=[ForgottenTopic(topic_id=id_, partitions=[index]) for id_, index in ask.forgotten],
        )

    # -- taking in --------------------------------------------------------------------------------------

    async def _take(self, connection: Connection, answer: FetchResponse) -> None:
        turn = Turn()
        to_force: list[Log] = []
        for topic in answer.responses:
            for row in topic.partitions:
                key = topic.topic_id, row.partition_index
                copy, asked = self._copies.get(key), self._session.rows.get(key)
                if copy is None or asked is None or not self._fits(copy, asked):
                    continue
                self._changed[key] = None
                if row.error_code:
                    await self._react(connection, copy, row.error_code)
                elif self._take_in(copy, row) and copy.partition.sync_due:
                    to_force.append(copy.partition.log)
                await turn.breathe()
        if to_force:
            await self._forced(to_force)

    def _truncate(self, partition: Partition, offset: int) -> None:
        partition.truncate(offset, self._around.clock.now_ms())
        self._cut = True

    async def _note_cuts(self) -> None:
        """Before a log that was cut grows again: a recovery point from before would have what is new passed over."""
        if self._cut:
            self._cut = False
            await self._around.replicas.checkpoints.write(files.RECOVERY_POINTS)

    @staticmethod
    def _fits(copy: Copy, asked: Asked) -> bool:
        """Whether an answer is about the log as it is: the leadership or the log may have changed meanwhile."""
        log = copy.partition.log
        return copy.current and asked.leader_epoch == copy.leader_epoch and asked.offset == log.log_end_offset

    def _take_in(self, copy: Copy, row: PartitionData) -> bool:
        """Append, or cut; whether the log has grown."""
        partition = copy.partition
        log = partition.log
        now_ms = self._around.clock.now_ms()
        try:
            if row.diverging_epoch.epoch >= 0:
                diverging = row.diverging_epoch.epoch, row.diverging_epoch.end_offset
                offset = truncation_offset(diverging, log.epochs, log.log_end_offset)
                logger.info(
                    "%s: truncating, diverged from leader: from %d to %d",
                    log.topic_partition,
                    log.log_end_offset,
                    offset,
                )
                self._truncate(partition, offset)
                return False
            records = row.records
            grown = bool(records) and partition.append_as_follower(records, copy.leader_epoch, now_ms)  # type: ignore[arg-type]
            partition.traffic.replication_in_bytes += len(records or b"")
            partition.follow_leader(row.high_watermark, row.log_start_offset)
        except CorruptMessage as error:
            logger.error("leader %d sent corrupt records: %s", self.leader, error)
            self._back_off(copy, Reaction.LATER)
            return False
        except KafkaStorageError as error:
            self._give_up(copy, error)
            return False
        except Exception:
            logger.exception("%s: appending fetched records failed, retrying", log.topic_partition)
            self._back_off(copy, Reaction.LATER)
            return False
        copy.attempts = 0
        copy.behind = row.high_watermark > log.log_end_offset
        if records and partition.follower_throttled:
            self._around.throttle.record(len(records), self._around.clock.monotonic_ms())
        return grown

    async def _forced(self, logs: list[Log]) -> None:
        """Wait until logs are on disk: what is asked for next says that everything before it is safe."""
        done: asyncio.Future[Failed] = self._loop.create_future()

        def synced(failed: Failed) -> None:
            if not done.done():
                done.set_result(failed)

        self._around.syncer.sync(logs, synced)
        failed = await done
        for copy in list(self._copies.values()) if failed else ():
            if copy.partition.log in failed:
                self._give_up(copy, failed[copy.partition.log])

    async def _react(self, connection: Connection, copy: Copy, error_code: int) -> None:
        why = reaction(error_code)
        name = BY_CODE.get(error_code, UnknownServerError).__name__
        logger.log(
            LEVELS.get(why, logging.WARNING),
            "%s: node %d answers %s: %s",
            copy.partition.topic_partition,
            self.leader,
            name,
            why.value,
        )
        if why is Reaction.WAIT:
            copy.rests = True
        elif why is Reaction.RESET:
            await self._reset(connection, copy)
        elif why is Reaction.RESET_LOCAL:
            await self._reset_local(connection, copy)
        else:
            self._back_off(copy, why)

    async def _reset(self, connection: Connection, copy: Copy) -> None:
        """Our end is not in the leader's log: find out what is."""
        partition = copy.partition
        end_offset = partition.log.log_end_offset
        latest = await self._offset(connection, copy, LATEST)
        earliest = await self._offset(connection, copy, EARLIEST)
        if isinstance(latest, Reaction) or isinstance(earliest, Reaction):
            self._back_off(copy, Reaction.SOON)
            return
        tiered = await self._offset(connection, copy, EARLIEST_PENDING_UPLOAD) if self._after_tiered(partition) else -1
        if not copy.current or partition.log.log_end_offset != end_offset:
            return
        found = reset(end_offset, earliest, latest)
        if found.whole and not isinstance(tiered, Reaction) and tiered > earliest:
            await self._reset_local(connection, copy)
            return
        now_ms = self._around.clock.now_ms()
        try:
            if found.whole:
                partition.start_over_at(found.offset, now_ms)
            elif found.offset < end_offset:
                self._truncate(partition, found.offset)
            else:
                self._back_off(copy, Reaction.SOON)
        except KafkaStorageError as error:
            self._give_up(copy, error)

    def _after_tiered(self, partition: Partition) -> bool:
        """Whether a log begins after all that is in the tier (KIP-1023), and not where the leader's disk does."""
        enabled = self._around.replicas.values[FOLLOWER_FETCH_LAST_TIERED_OFFSET_ENABLE]
        return enabled and partition.tier is not None and partition.log_end_offset == 0

    async def _reset_local(self, connection: Connection, copy: Copy) -> None:
        """The leader has our log end offset in tiered storage only: begin after that, with what the tier knows."""
        partition, replicas = copy.partition, self._around.replicas
        tier, end_offset = partition.tier, partition.log_end_offset
        after_tiered = self._after_tiered(partition)
        try:
            start = await tiered_start(connection, partition, replicas.node_id, after_tiered=after_tiered)
            if tier is None:
                raise ReplicaNotAvailable("this node does not know yet that the topic is tiered")
            asked = tier.state_after(start.last_offset, start.leader_epoch)
        except NetworkException:
            raise
        except KafkaError as error:
            logger.info("%s: cannot start from tiered storage yet: %s", partition.topic_partition, error)
            self._back_off(copy, Reaction.LATER)
            return
        copy.rests = True
        self._changed[copy.key] = None
        asked.add_done_callback(partial(self._begin_after, copy, start, end_offset))

    def _begin_after(self, copy: Copy, start: TieredStart, end_offset: int, asked: RemoteStateRead) -> None:
        """Begin with what a tier told, unless the leadership or the log has changed meanwhile."""
        partition = copy.partition
        try:
            if copy.current and partition.log_end_offset == end_offset:
                partition.start_over_with(arrived(asked), start.log_start_offset, self._around.clock.now_ms())
                self._around.syncer.sync([partition.log])
        except KafkaStorageError as error:
            if partition.failed is not None:
                self._give_up(copy, error)
                return
            logger.warning("%s: starting from tiered storage failed: %s", partition.topic_partition, error)
            self._back_off(copy, Reaction.LATER)
        except KafkaError as error:
            logger.warning("%s: starting from tiered storage failed: %s", partition.topic_partition, error)
            self._back_off(copy, Reaction.LATER)
        else:
            copy.attempts = 0
            self._resume(copy, True)

    async def _offset(self, connection: Connection, copy: Copy, which: int) -> int | Reaction:
        """The leader's first or last offset."""
        name, index = copy.partition.topic_partition
        row = ListOffsetsPartition(partition_index=index, current_leader_epoch=copy.leader_epoch, timestamp=which)
        request = ListOffsetsRequest(
            replica_id=self._around.replicas.node_id, topics=[ListOffsetsTopic(name=name, partitions=[row])]
        )
        answer = (await connection.request(request, ListOffsetsResponse)).topics[0].partitions[0]
        return reaction(answer.error_code) if answer.error_code else answer.offset
