"""Replays the metadata log on every node, and runs the controller on the one that leads the quorum.

A decision of the active controller is appended and replayed at once, and answered when it is committed and published.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from kavka.controller.machine import Controller
from kavka.metadata.delta import MetadataDelta, apply, between
from kavka.metadata.faults import MetadataError
from kavka.metadata.image import EMPTY, MetadataImage
from kavka.metadata.records import encode_record
from kavka.metadata.versions import write_version
from kavka.model.clock import Clock
from kavka.model.errors import KafkaError, KafkaStorageError, MalformedMessage, NotController, UnknownServerError
from kavka.model.transition import Divisible, Parked, Transition
from kavka.pacing.turn import Turn
from kavka.quorum.driver import RaftDriver
from kavka.quorum.metadata_log import Replayed
from kavka.quorum.settings import SnapshotRules
from kavka.quorum.snapshots import SnapshotId
from kavka.quorum.snapshotting import Snapshotter
from kavka.quorum.status import QuorumStatus
from kavka.quorum.strangers import Strangers
from kavka.storage.loader import LoadReport

logger = logging.getLogger(__name__)

T = TypeVar("T")

Decide = Callable[[Controller, int], Transition[T]]
"""Asks the machine for a decision, at a time in milliseconds."""
Subscriber = Callable[[MetadataImage, MetadataDelta], Iterator[None] | None]
"""Called with every committed change, in order; one with much to do returns an iterator, which is run in slices."""

SLICE_RECORDS: Final = 500
IDLE_TICK_MS: Final = 100
"""The least time between two ticks that had nothing to do."""
_NEVER: Final = float("inf")


class Appended:
    """A batch that is written but perhaps not committed: what it makes of the image, and who waits for it."""

    __slots__ = ("base", "delta", "image", "offset", "timestamp_ms", "waiters")

    def __init__(self, base: int, image: MetadataImage, delta: MetadataDelta, timestamp_ms: int) -> None:
        self.base = base
        self.offset = image.offset
        self.image = image
        self.delta = delta
        self.timestamp_ms = timestamp_ms
        self.waiters: list[asyncio.Future[None]] = []


class ControllerLoop:
    """The cluster's metadata on this node; the one writer of it while this node is the active controller.

    A node without the controller role has no machine and only replays.
    """

    def __init__(
        self,
        quorum: RaftDriver,
        machine: Controller | None,
        clock: Clock,
        *,
        bootstrap: Sequence[Any] = (),
        snapshots: SnapshotRules | None = None,
    ) -> None:
        self.quorum = quorum
        self.strangers = Strangers(quorum.replica.cluster_id)
        self._machine = machine
        self._clock = clock
        self._bootstrap = bootstrap
        self._snapshots = Snapshotter(quorum, clock, snapshots or SnapshotRules())
        self._image = EMPTY  # published
        self._committed = EMPTY  # the same, and what an open metadata transaction has changed
        self._committed_at_ms = 0
        self._unpublished = True  # whether something is committed that the published image does not have
        self._next = 0  # the first offset that was not replayed
        self._high_watermark = 0
        self._epoch = -1  # of this node's leadership; -1 while it does not lead
        self._epoch_start = 0
        self._active = False
        self._former_leader = -1
        self._appended: deque[Appended] = deque()
        self._subscribers: list[Subscriber] = []
        self._leader_callbacks: list[Callable[[], None]] = []
        self._moved = asyncio.Event()
        self._decided = asyncio.Event()
        self._tick_at = _NEVER
        self._becoming_ready: list[asyncio.Future[None]] = []
        self._turn = asyncio.Lock()
        self._stopped: KafkaError | None = None

    # -- what others see ------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The newest committed image; EMPTY before the first commit."""
        return self._image

    @property
    def node_id(self) -> int:
        """This node."""
        return self.quorum.replica.node_id

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.quorum.replica.cluster_id

    @property
    def kraft_version(self) -> int:
        """The version of the quorum's protocol."""
        return self.quorum.kraft_version

    @property
    def leader(self) -> int:
        """The quorum leader's id; -1 while none is known."""
        return self.quorum.leader_id

    @property
    def leader_epoch(self) -> int:
        """The newest epoch of the quorum that this node knows."""
        return self.quorum.leader_epoch

    @property
    def leader_endpoint(self) -> tuple[str, int] | None:
        """The controller endpoint of another node that is the leader; None while none is known."""
        endpoint = self.quorum.leader_endpoint
        return None if endpoint is None or self.quorum.leader_id == self.node_id else (endpoint.host, endpoint.port)

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller: it is the leader, and has replayed all earlier epochs."""
        return self._active

    def status(self) -> QuorumStatus:
        """The quorum leader, and the log end offsets of voters and observers."""
        return self.quorum.status()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell of every change committed from now on."""
        self._subscribers.append(subscriber)

    def on_leader_change(self, callback: Callable[[], None]) -> None:
        """Tell whenever another node leads, or this one becomes active or stops being it."""
        self._leader_callbacks.append(callback)

    # -- starting and running -----------------------------------------------------------------------

    def start(self, *, clean: bool = False, accept_loss: bool = False) -> LoadReport:
        """Open the log and join the quorum; `run` commits and replays. Once, before `run`."""
        return self.quorum.open(self, clean=clean, accept_loss=accept_loss)

    def stored(self) -> Iterator[Any]:
        """All records that this node has, committed or not: what it knew when it stopped."""
        return self.quorum.log.everything()

    async def run(self) -> None:
        """Take part, publish and take snapshots until cancelled; a group with KafkaStorageError says the disk is lost.

        Such a group also tells of a log that cannot be replayed.
        """
        try:
            with ThreadPoolExecutor(1, "metadata-snapshot") as threads:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.quorum.run())
                    tasks.create_task(self._publish_forever())
                    tasks.create_task(self._snapshots.run(threads))
                    if self._machine is not None:
                        tasks.create_task(self._tick_forever(self._machine))
        finally:
            self._stopped = NotController("this node is shutting down")
            self._lose(self._stopped)
            self._tell_ready(self._stopped)

    async def leave(self) -> None:
        """Before the end of `run`: resign if this node is the leader."""
        await self.quorum.leave()

    def close(self) -> None:
        """After `run` has ended: force everything to the disk and let go of it."""
        self.quorum.close()

    async def ready(self) -> MetadataImage:
        """The image, once the cluster's metadata is there, and all that is written by now committed."""
        while not self._is_ready():
            await self._something_new()
        await self._committed_up_to_here()
        return self._image

    async def _something_new(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._becoming_ready.append(waiter)
        await waiter

    def _is_ready(self) -> bool:
        if self._stopped is not None:
            raise self._stopped
        return self._image.features.metadata_version > 0 and (self._active or not self.quorum.is_leader)

    def _tell_ready(self, error: KafkaError | None = None) -> None:
        waiting, self._becoming_ready = self._becoming_ready, []
        for waiter in waiting:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    async def snapshot(self, threads: ThreadPoolExecutor) -> SnapshotId | None:
        """Write a snapshot of what is committed now; None if there is nothing new to write."""
        return await self._snapshots.take(threads)

    # -- what the quorum tells --------------------------------------------------------------------------

    def on_commit(self, high_watermark: int) -> None:
        """More is committed."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        self._moved.set()

    def on_leading(self, epoch: int, start_offset: int) -> None:
        """This node became leader; it is active once all earlier epochs are committed and replayed."""
        self._epoch, self._epoch_start = epoch, start_offset
        self._moved.set()

    def on_lost(self, error: KafkaError) -> None:
        """This node resigned: whoever waits gets NOT_CONTROLLER, and the machine goes back to what is committed."""
        self._lose(error)
        if isinstance(error, KafkaStorageError):
            self._tell_ready(error)

    def on_leader(self) -> None:
        """The leader has changed, or none is known."""
        leader = self.quorum.leader_id
        if leader not in (-1, self.node_id):
            self._former_leader = leader
        self._tell_ready()
        for callback in self._leader_callbacks:
            callback()

    def _lose(self, error: KafkaError) -> None:
        was_active, self._active, self._epoch = self._active, False, -1
        if self._machine is not None:
            self._machine.image = self._committed
        while self._appended:
            for waiter in self._appended.popleft().waiters:
                if not waiter.done():
                    waiter.set_exception(error)
        if was_active and self._stopped is None:
            self.on_leader()

    # -- submitting -----------------------------------------------------------------------------------

    async def submit(self, decide: Decide[T]) -> T:
        """Let the machine decide, and answer when its records are committed and published.

        A decision without records waits for what was written before it, and so does a refusal. Raises NotController
        unless this node is the active controller, or about to be, and what the machine raises.
        """
        while self.quorum.is_leader and not self._active and self._stopped is None and self._machine is not None:
            await self._something_new()
        try:
            reply = await self._decide(decide)
        except KafkaError:
            await self._committed_up_to_here()
            raise
        await self._committed_up_to_here()
        if isinstance(reply, Parked):
            raise UnknownServerError("the controller parks no requests")
        return reply

    async def _decide(self, decide: Decide[T]) -> T | Parked:
        async with self._turn:
            machine = self._deciding()
            machine.kraft_version = self.quorum.kraft_version
            epoch, now_ms = self._epoch, self._clock.now_ms()
            transition = decide(machine, now_ms)
            records = transition.records
            if isinstance(records, Divisible) and len(records) > SLICE_RECORDS:
                for first in range(0, len(records), SLICE_RECORDS):
                    if self._deciding() is not machine or self._epoch != epoch:
                        raise NotController("this node has led the quorum anew meanwhile")
                    self._append(machine, records[first : first + SLICE_RECORDS], now_ms)
                    await asyncio.sleep(0)
            else:
                self._append(machine, records, now_ms)
            if machine.next_deadline_ms() < self._tick_at:
                self._decided.set()
            return transition.reply

    def _deciding(self) -> Controller:
        if self._stopped is not None:
            raise self._stopped
        if self._machine is None or not self._active:
            raise NotController(f"node {self.node_id} is not the active controller")
        return self._machine

    def _append(self, machine: Controller, records: Sequence[Any], now_ms: int) -> None:
        if not records:
            return
        before = machine.image
        level = before.features.metadata_version
        values = [encode_record(record, write_version(record, level)) for record in records]
        base = self.quorum.log.end_offset
        try:
            delta = machine.replay(records, base + len(values) - 1, self._epoch)
        except MetadataError as error:
            machine.image = before
            logger.error("controller records do not apply to the metadata image: %s", error)
            raise UnknownServerError("the controller made a change that cannot be; nothing was written") from error
        try:
            self.quorum.append(values, self._epoch, now_ms)
        except KafkaError as error:
            machine.image = before
            logger.error("appending to the metadata log failed: %s", error)
            raise
        self._appended.append(Appended(base, machine.image, delta, now_ms))
        self._moved.set()

    def upgrade_kraft_version(self, version: int, validate_only: bool) -> None:
        """Raise the version of the quorum's protocol, which puts the voters into the log; raises KafkaError."""
        self.quorum.upgrade_kraft_version(version, validate_only=validate_only)

    def broker_disconnected(self, broker_id: int, epoch: int, connection: int) -> None:
        """The connection of a broker's heartbeats has closed."""
        if self._active and self._machine is not None:
            self._machine.broker_disconnected(broker_id, epoch, self._clock.now_ms(), connection)
            self._decided.set()

    async def _committed_up_to_here(self) -> None:
        if self._appended:
            waiter = asyncio.get_running_loop().create_future()
            self._appended[-1].waiters.append(waiter)
            await waiter

    def _activate(self, machine: Controller) -> None:
        """Begin to decide: what other leaders wrote is committed and replayed."""
        now_ms = self._clock.now_ms()
        machine.image = self._committed
        machine.kraft_version = self.quorum.kraft_version
        self._active = True
        logger.info("node %d became the active controller in epoch %d", self.node_id, self._epoch)
        try:
            self._append(machine, machine.activate(self._bootstrap, now_ms, self._former_leader).records, now_ms)
        except KafkaError as error:
            logger.error("node %d cannot become the active controller: %s", self.node_id, error)
            self.quorum.resign()
            return
        self._decided.set()
        self.on_leader()

    async def _tick_forever(self, machine: Controller) -> None:
        """Let the machine do what is due, while this node is the active controller."""
        not_before = 0
        while True:
            now_ms = self._clock.now_ms()
            self._tick_at = max(machine.next_deadline_ms(), not_before) if self._active else _NEVER
            wait = None if self._tick_at is _NEVER else max(self._tick_at - now_ms, 0) / 1000
            if wait is None or wait > 0:
                try:
                    async with asyncio.timeout(wait):
                        await self._decided.wait()
                except TimeoutError:
                    pass
                self._decided.clear()
                continue
            before = self.quorum.log.end_offset
            try:
                await self.submit(lambda machine, now_ms: machine.tick(now_ms))
            except KafkaError as error:
                logger.warning("periodic controller task postponed: %s", error)
            not_before = now_ms + (IDLE_TICK_MS if self.quorum.log.end_offset == before else 0)

    # -- committing -----------------------------------------------------------------------------------

    async def _publish_forever(self) -> None:
        turn = Turn()
        while True:
            await self._moved.wait()
            self._moved.clear()
            while self._next < (end := self._committed_end()):
                first = self._appended[0] if self._appended else None
                if first is None or first.base != self._next:
                    await self._replay(end if first is None else min(end, first.base), turn)
                elif first.offset < end:
                    await self._publish(self._appended.popleft(), turn)
                else:
                    break
            self._tell_ready()
            if self._machine is not None and not self._active and self._epoch >= 0 and self._next > self._epoch_start:
                self._activate(self._machine)
            self._snapshots.consider()

    def _committed_end(self) -> int:
        """Where what is committed and on this node ends; a disk that failed may have lost what others still have."""
        return min(self._high_watermark, self.quorum.log.end_offset)

    async def _replay(self, end: int, turn: Turn) -> None:
        """Take in what other leaders wrote, or this node in an earlier life, up to an offset; and publish it."""
        metadata_log = self.quorum.log
        before, delta = self._committed, None
        first_time = self._next == 0 and before is EMPTY
        if first_time or self._next < metadata_log.start_offset:
            snapshot = metadata_log.take_snapshot_records()
            if snapshot is not None and snapshot.offset >= self._next:
                before = self._committed = EMPTY
                self._unpublished = True
                self._take_in(snapshot)
                await turn.breathe()
        for portion in metadata_log.replay(self._next, end):
            self._unpublished = self._unpublished or delta is not None
            delta = self._take_in(portion)
            await turn.breathe()
        if self._committed is not before:
            await self._tell(delta, turn)

    def _take_in(self, portion: Replayed) -> MetadataDelta:
        try:
            self._committed, delta = apply(self._committed, portion.records, portion.offset, portion.epoch)
        except MetadataError as error:
            raise KafkaStorageError(f"the metadata log contradicts itself: {error}") from error
        except MalformedMessage as error:
            raise KafkaStorageError(f"the metadata log has a record that cannot be read: {error}") from error
        self._committed_at_ms = portion.timestamp_ms
        self._next = portion.offset + 1
        if self._machine is not None and not self._active:
            self._machine.image = self._committed
        return delta

    async def _publish(self, batch: Appended, turn: Turn) -> None:
        self._committed, self._committed_at_ms = batch.image, batch.timestamp_ms
        self._next = batch.offset + 1
        try:
            await self._tell(batch.delta, turn)
        finally:
            for waiter in batch.waiters:
                if not waiter.done():
                    waiter.set_result(None)
        await turn.breathe()

    async def _tell(self, delta: MetadataDelta | None, turn: Turn) -> None:
        """Publish what is committed, unless it is in the middle of a metadata transaction."""
        image = self._committed
        if image.in_transaction:
            self._unpublished = True
            return
        if self._unpublished or delta is None:
            delta = between(self._image, image)
        self._image, self._unpublished = image, False
        self._snapshots.has_image(image, self._committed_at_ms)
        for subscriber in self._subscribers:
            for _ in subscriber(image, delta) or ():
                await turn.breathe()
