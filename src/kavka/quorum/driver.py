"""Runs the raft core on a real disk and a real network: its effects in their order, and its events as they happen.

The event loop is the only thread that touches the core. Forcing the log to the disk and the network run besides; all
else is done when an effect has been run, and the core's next event comes after all effects of the last.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, overload

from kavka.model.clock import Clock
from kavka.model.errors import (
    KafkaError,
    KafkaStorageError,
    NotController,
    NotLeaderOrFollower,
    PositionOutOfRange,
    SnapshotNotFound,
)
from kavka.model.types import FileSlice
from kavka.protocol.schemas.control_records import LeaderChangeMessage, LeaderChangeVoter
from kavka.quorum.commit_mark import CommitMark
from kavka.quorum.metadata_log import MetadataLog
from kavka.quorum.settings import MetadataReplica, QuorumSettings
from kavka.quorum.snapshot_fetch import SnapshotFetch
from kavka.quorum.snapshots import BOOTSTRAP_ID, Snapshot, SnapshotId
from kavka.quorum.state import QuorumState, read_quorum_state, write_quorum_state
from kavka.quorum.view import QuorumView
from kavka.quorum.voters import kraft_version_record, voters_record
from kavka.raft.core import Raft, RaftError
from kavka.raft.effects import (
    Append,
    BecomeLeader,
    Effect,
    ElectionState,
    FetchSnapshotFrom,
    HighWatermark,
    LeaderChanged,
    LostLeadership,
    Persist,
    Reply,
    Send,
    StopSnapshot,
    Truncate,
    WriteControl,
)
from kavka.raft.messages import (
    AddVoter,
    BeginEpoch,
    BeginEpochReply,
    EndEpoch,
    EndEpochReply,
    Fetch,
    FetchReply,
    OffsetAndEpoch,
    RemoveVoter,
    ReplyMessage,
    Request,
    SnapshotReply,
    UpdateVoter,
    Vote,
    VoterChangeReply,
    VoteReply,
)
from kavka.raft.voters import NOBODY, ReplicaKey, VoterSet
from kavka.records.control import QuorumMessage
from kavka.storage.disk import Disk
from kavka.storage.loader import LoadReport

if TYPE_CHECKING:  # only a node that has peers needs them
    from kavka.client.connector import Connector
    from kavka.protocol.schemas.fetch_snapshot import RequestPartitionSnapshot
    from kavka.quorum.outbound import Outbound
    from kavka.quorum.wire import SnapshotWindow

logger = logging.getLogger(__name__)

MAX_FETCH_BYTES: Final = 8 << 20
"""The most that is given at once, whatever is asked for; a larger first batch is given as a whole."""
RESIGN_SECONDS: Final = 1.0
"""How long a leader that stops waits for another to be elected."""
MARK_EVERY_MS: Final = 5_000
"""How often it is written down how far the metadata is committed, at most."""
AGAIN_SECONDS: Final = 1.0
"""How long a node whose disk has failed twice waits before it tries it again."""


class Follows(Protocol):
    """Hears of the quorum's leadership and commits: the controller."""

    def on_commit(self, high_watermark: int) -> None:
        """The high watermark has moved to an offset."""

    def on_leading(self, epoch: int, start_offset: int) -> None:
        """This node became leader, from an offset on."""

    def on_lost(self, error: KafkaError) -> None:
        """This node lost leadership, and what it wrote may never be committed."""

    def on_leader(self) -> None:
        """The leader has changed, or none is known."""


class _Asked:
    """A request that is not answered yet; the core's token for it."""

    __slots__ = ("answer", "max_bytes", "request")

    def __init__(self, request: Request, max_bytes: int, answer: asyncio.Future[ReplyMessage]) -> None:
        self.request = request
        self.max_bytes = max_bytes
        self.answer = answer


class RaftDriver(QuorumView):
    """One replica of the metadata log."""

    def __init__(
        self,
        disk: Disk,
        metadata_dir: str,
        replica: MetadataReplica,
        settings: QuorumSettings,
        clock: Clock,
        connector: Connector,
        *,
        draw: Callable[[int, int], int] = random.randrange,
    ) -> None:
        super().__init__(replica, settings, clock)
        self.log = MetadataLog(disk, metadata_dir, settings.log)
        self._mark = CommitMark(disk, metadata_dir)
        self._marked_ms = 0
        self._connector = connector
        self._draw = draw
        self._follower: Follows | None = None
        self._queue: deque[Callable[[], Sequence[Effect]]] = deque()
        self._pumping = False
        self._asked: dict[_Asked, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._held: list[Send | FetchSnapshotFrom] = []  # what was asked for before `run` began
        self._snapshot = SnapshotFetch(self)
        self._to_sync = asyncio.Event()
        self._failed = asyncio.Event()
        self._failure: KafkaStorageError | None = None
        self._lost = False  # whether no new beginning can help
        self._outbound: Outbound | None = None

    # -- starting and stopping -------------------------------------------------------------------------

    def open(self, follower: Follows, *, clean: bool = False, accept_loss: bool = False) -> LoadReport:
        """Open the log and begin; a sole voter leads at once. Raises KafkaStorageError. Once, before `run`."""
        self._follower = follower
        report = self.log.open(self._clock.now_ms(), clean=clean)
        if self.replica.controller:
            self._mark.check(self.log.path, self.log.start_offset, self.log.end_offset, accept_loss=accept_loss)
        self._begin()
        if self._failure is not None:
            raise self._failure
        return report

    def _begin(self) -> None:
        history = self.log.history(self.settings.voters)
        if self.replica.controller and self.log.durable_offset < self.log.end_offset:
            self.log.log.sync()  # what this node votes and fetches by must be on the disk
        if not history.voters and not self.settings.bootstrap:
            raise KafkaStorageError(f"{self.log.path} names no voter: the directory is not formatted for this node")
        self._require_possible_leader(history.voters)
        self._raft = Raft(
            self.replica.voter,
            self.log,
            history,
            self._draw,
            state=self._read_state(),
            config=self.settings.raft,
            bootstrap=self.settings.bootstrap,
            can_become_voter=self.replica.controller,
        )
        raft = self._raft
        self.feed(lambda: raft.start(self.now_ms()))

    def _require_possible_leader(self, voters: VoterSet) -> None:
        """Raise where nobody can ever lead: the only voter has the id of this node, but another directory's."""
        me, only = self.replica.voter.key, voters.get(self.replica.voter.key.id)
        if only is not None and len(voters) == 1 and not voters.is_voter(me):
            raise KafkaStorageError(
                f"{self.log.path}: the only voter is node {me.id} with directory id {only.key.directory_id}, and "
                f"meta.properties says {me.directory_id}: it is damaged, or from elsewhere. Write "
                f"directory.id={only.key.directory_id} there if this is that directory"
            )

    def _read_state(self) -> ElectionState | None:
        state = read_quorum_state(self.log.disk, self.log.path)
        if state is None:
            return None
        voted = ReplicaKey(state.voted_id, state.voted_directory_id) if state.voted_id >= 0 else None
        return ElectionState(state.leader_epoch, state.leader_id, voted)

    async def run(self) -> None:
        """Take part until cancelled; a group with KafkaStorageError says that the disk is lost."""
        try:
            with ThreadPoolExecutor(1, "metadata-log") as threads:
                async with asyncio.TaskGroup() as tasks:
                    self._tasks = tasks
                    tasks.create_task(self._sync_forever(threads))
                    tasks.create_task(self._mend_forever())
                    held, self._held = self._held, []
                    for effect in held:
                        self._run(effect)
                    self._to_sync.set()
                    self._rearm()
        finally:
            self._tasks = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._outbound is not None:
                self._outbound.close()

    async def leave(self) -> None:
        """Before the end: resign if this node is the leader, and wait for the next election."""
        if self._raft is None or self._tasks is None:
            return
        raft = self._raft
        self.feed(lambda: raft.shutdown(self.now_ms()))
        deadline = asyncio.get_running_loop().time() + RESIGN_SECONDS
        while not raft.has_shut_down and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110  (rare)
            await asyncio.sleep(0.005)

    def close(self) -> None:
        """After `run` has ended: force everything to the disk and let go of it."""
        committed = self.high_watermark
        self._raft = None
        self._drop_asked(NotController("this node is shutting down"))
        self.log.close()
        if self.replica.controller and committed > self._mark.offset:
            self._mark.write(committed)

    # -- events --------------------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes], epoch: int, now_ms: int) -> int:
        """As the leader of an epoch: write encoded records as one batch; the offset of the last.

        Raises NotController, or KafkaStorageError if the disk does not take them, and then nothing was written.
        """
        raft = self.raft
        if self._failure is not None or not raft.is_leader or raft.epoch != epoch:
            raise NotController(f"this node does not lead epoch {epoch}")
        try:
            last = self.log.append(values, epoch, now_ms)
        except KafkaStorageError as error:
            if self.log.failed is not None:
                self.broke(error)
            raise
        self.feed(lambda: raft.on_appended(self.now_ms()))
        self._to_sync.set()
        return last

    @overload
    async def ask(self, request: Vote) -> VoteReply: ...

    @overload
    async def ask(self, request: BeginEpoch) -> BeginEpochReply: ...

    @overload
    async def ask(self, request: EndEpoch) -> EndEpochReply: ...

    @overload
    async def ask(self, request: Fetch, max_bytes: int) -> FetchReply: ...

    @overload
    async def ask(self, request: AddVoter | RemoveVoter | UpdateVoter) -> VoterChangeReply: ...

    async def ask(self, request: Request, max_bytes: int = 0) -> ReplyMessage:
        """What this replica answers to a request, with the records that belong to it."""
        raft = self.raft
        asked = _Asked(request, max_bytes, asyncio.get_running_loop().create_future())
        self._asked[asked] = None
        try:
            self.feed(lambda: raft.on_request(request, self.now_ms(), asked))
            return asked.answer.result() if asked.answer.done() else await asked.answer
        finally:
            del self._asked[asked]

    def _answer(self, asked: _Asked, reply: ReplyMessage) -> None:
        if asked.answer.done():
            return
        if isinstance(reply, FetchReply) and reply.read and isinstance(asked.request, Fetch):
            # Read now: a little later this node may lead no more, and its log may have been cut.
            limit = min(asked.max_bytes, MAX_FETCH_BYTES)
            reply = reply._replace(records=self.log.read(asked.request.offset, limit))
        asked.answer.set_result(reply)

    def snapshot_window(self, replica_id: int, asked: RequestPartitionSnapshot, max_bytes: int) -> SnapshotWindow:
        """Bytes of one of this node's snapshots, for a follower."""
        from kavka.quorum.wire import SnapshotWindow

        raft, id_ = self.raft, SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        error, size, length = raft.leader_error(asked.current_leader_epoch), 0, 0
        if not error and (id_ == BOOTSTRAP_ID or id_ not in self.log.snapshots):
            error = SnapshotNotFound.code
        if not error:
            size = self.log.disk.size(self.log.path_of(id_))
            length = min(size - asked.position, max(max_bytes, 1), MAX_FETCH_BYTES)
            error = 0 if 0 <= asked.position < size else PositionOutOfRange.code
        head = SnapshotReply(error, raft.epoch, raft.leader_id, raft.leader_endpoints)
        if error:
            return SnapshotWindow(head)
        replica = ReplicaKey(replica_id, asked.replica_directory_id)
        self.feed(lambda: raft.on_snapshot_served(replica, self.now_ms()))
        piece = FileSlice(self.log.disk.file(self.log.path_of(id_)), asked.position, length)
        return SnapshotWindow(head, id_, size, asked.position, piece)

    def upgrade_kraft_version(self, version: int, *, validate_only: bool = False) -> None:
        """As the leader: raise the version of the quorum's protocol; raises InvalidUpdateVersion or NotController."""
        raft = self.raft
        try:
            effects = raft.upgrade_kraft_version(version, self.now_ms(), validate_only=validate_only)
        except NotLeaderOrFollower as error:
            raise NotController(str(error)) from None
        self.feed(lambda: effects)

    def resign(self) -> None:
        """Resign, if this node is the leader."""
        raft = self.raft
        self.feed(lambda: raft.resign(raft.epoch, self.now_ms()))

    def now_ms(self) -> int:
        """The time that the core is told."""
        return self._clock.monotonic_ms()

    def feed(self, event: Callable[[], Sequence[Effect]]) -> None:
        """Give the core an event, after those that wait, and run what it asks for.

        A core whose disk refused a write hears of nothing more: it may believe what nobody would remember.
        """
        if self._failure is not None:
            return
        self._queue.append(event)
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._queue:
                effects = self._queue.popleft()()
                for number, effect in enumerate(effects):
                    if isinstance(effect, Persist) and isinstance(_at(effects, number + 1), Persist):
                        continue  # nothing depends on what the next one replaces
                    self._run(effect)
        except RaftError as error:
            self._lost = True
            self.broke(KafkaStorageError(f"the quorum contradicts itself: {error}"))
        except (KafkaStorageError, OSError) as error:
            self.broke(error if isinstance(error, KafkaStorageError) else KafkaStorageError(str(error)))
        finally:
            self._pumping = False
        self._rearm()

    def _rearm(self) -> None:
        """Wake up when the core next has something to do."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._tasks is None or self._raft is None or self._failure is not None:
            return
        wait = max(self._raft.next_deadline_ms() - self.now_ms(), 1) / 1000
        self._timer = asyncio.get_running_loop().call_later(min(wait, 3600.0), self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._raft is not None:
            raft = self._raft
            self.feed(lambda: raft.tick(self.now_ms()))

    # -- effects -------------------------------------------------------------------------------------------

    def _run(self, effect: Effect) -> None:
        match effect:
            case Persist(state):
                self._persist(state)
            case Send() | FetchSnapshotFrom():
                self._begin_sending(effect)
            case Reply(asked, reply):
                self._answer(asked, reply)
            case Append(records, epoch):
                self._append_fetched(records, epoch)
            case Truncate(offset):
                self._truncate(offset)
            case BecomeLeader():
                self._become_leader(effect)
            case WriteControl(epoch, voters, version):
                messages: list[QuorumMessage] = [] if version is None else [kraft_version_record(version)]
                messages += [] if voters is None else [voters_record(voters)]
                self._write_control(messages, epoch)
            case LostLeadership(epoch):
                logger.info("node %d resigned as quorum leader of epoch %d", self.replica.node_id, epoch)
                self._tell().on_lost(NotController("another node is the quorum leader now"))
            case LeaderChanged(leader_id, epoch, _):
                logger.info(
                    "quorum leader is %s in epoch %d", f"node {leader_id}" if leader_id >= 0 else "nobody", epoch
                )
                self._tell().on_leader()
            case HighWatermark(offset):
                self._tell().on_commit(offset)
            case StopSnapshot():
                self._snapshot.stop()

    def _tell(self) -> Follows:
        assert self._follower is not None, "the driver is open"
        return self._follower

    def _persist(self, state: ElectionState) -> None:
        voted = state.voted or ReplicaKey(NOBODY)
        written = QuorumState(state.epoch, state.leader_id, voted.id, voted.directory_id)
        write_quorum_state(self.log.disk, self.log.path, written)

    def _become_leader(self, effect: BecomeLeader) -> None:
        logger.info("node %d became quorum leader in epoch %d", self.replica.node_id, effect.epoch)
        change = LeaderChangeMessage(
            version=0,
            leader_id=self.replica.node_id,
            voters=[LeaderChangeVoter(voter_id=id_) for id_ in effect.voters.ids],
            granting_voters=[LeaderChangeVoter(voter_id=id_) for id_ in effect.granted],
        )
        messages: list[QuorumMessage] = [change]
        if effect.write_voters is not None:
            messages += [kraft_version_record(effect.kraft_version), voters_record(effect.write_voters)]
        self._write_control(messages, effect.epoch)
        self._tell().on_leading(effect.epoch, effect.epoch_start_offset)

    def _write_control(self, messages: Sequence[QuorumMessage], epoch: int) -> None:
        raft = self.raft
        changes = self.log.append_control(messages, epoch, self._clock.now_ms())
        self._queue.append(lambda: raft.on_appended(self.now_ms(), changes))
        self._to_sync.set()

    def _append_fetched(self, records: Any, epoch: int) -> None:
        raft = self.raft
        changes = self.log.append_fetched(records, epoch, self._clock.now_ms())
        self._queue.append(lambda: raft.on_appended(self.now_ms(), changes))
        self._to_sync.set()

    def _truncate(self, offset: int) -> None:
        raft = self.raft
        logger.info("truncating the metadata log to %d, diverged from leader", offset)
        self.log.cut_from(offset, self._clock.now_ms())
        self._queue.append(lambda: raft.on_truncated(self.now_ms()))

    # -- forcing to the disk ---------------------------------------------------------------------------

    async def _sync_forever(self, threads: ThreadPoolExecutor) -> None:
        while True:
            await self._to_sync.wait()
            self._to_sync.clear()
            if self._failure is not None or self._raft is None:
                continue
            raft, written = self._raft, self.log.log
            job = written.pending_sync() if self.replica.controller else None
            if job is not None:
                forcing = asyncio.get_running_loop().run_in_executor(threads, job.run)
                try:
                    await asyncio.shield(forcing)
                except asyncio.CancelledError:
                    await asyncio.wait([forcing])  # the job holds the log's files until it has run
                    written.synced(job)
                    raise
                try:
                    written.synced(job)
                except KafkaStorageError as error:
                    self.broke(error)
                    continue
            if self._raft is raft and self._failure is None:
                durable = self.log.durable_offset if self.replica.controller else self.log.end_offset
                self.feed(partial(self._synced, raft, durable))
                await self._mark_committed(threads)

    async def _mark_committed(self, threads: ThreadPoolExecutor) -> None:
        """Write down how far the metadata is committed, now and then: it need not be exact, only never too far."""
        committed, now_ms = min(self.high_watermark, self.log.durable_offset), self.now_ms()
        if not self.replica.controller or committed <= self._mark.offset or now_ms - self._marked_ms < MARK_EVERY_MS:
            return
        self._marked_ms = now_ms
        writing = asyncio.get_running_loop().run_in_executor(threads, self._mark.write, committed)
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing])
            raise
        except OSError as error:
            logger.warning("writing the committed offset of the metadata log failed: %s", error)

    def _synced(self, raft: Raft, durable: int) -> Sequence[Effect]:
        return raft.on_synced(durable, self.now_ms())

    # -- when the disk fails ----------------------------------------------------------------------------

    def broke(self, error: KafkaStorageError) -> None:
        """Do nothing more until the log is open again."""
        if self._failure is None:
            logger.error("appending to the metadata log failed: %s", error)
            self._failure = error
            self._queue.clear()
            self._failed.set()

    async def _mend_forever(self) -> None:
        """After the disk has refused, begin anew with what it surely has, as after a crash."""
        loop, last = asyncio.get_running_loop(), float("-inf")
        while True:
            await self._failed.wait()
            self._failed.clear()
            if loop.time() - last < AGAIN_SECONDS * 5:
                await asyncio.sleep(AGAIN_SECONDS)
            last = loop.time()
            error, self._failure = self._failure, None
            assert error is not None
            if self._lost:
                raise error
            self._snapshot.stop()
            self._drop_asked(error)
            self._tell().on_lost(error)
            self.log.reopen(self._clock.now_ms())
            self._begin()
            self._tell().on_leader()
            if self._failure is not None:
                raise self._failure

    def _drop_asked(self, error: KafkaError) -> None:
        for asked in self._asked:
            if not asked.answer.done():
                asked.answer.set_exception(type(error)(error.message))

    # -- sending -------------------------------------------------------------------------------------------

    def _begin_sending(self, effect: Send | FetchSnapshotFrom) -> None:
        if self._tasks is None:
            self._held.append(effect)
        elif isinstance(effect, Send):
            self.spawn(self._send(effect))
        else:
            self._snapshot.begin(effect, self.raft)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Begin what runs besides; None if everything is about to end."""
        try:
            assert self._tasks is not None
            return self._tasks.create_task(work)
        except RuntimeError:
            work.close()
            return None

    def runs(self, raft: Raft) -> bool:
        """Whether a core is the one that runs, and not one of before the log was opened anew."""
        return self._raft is raft

    def install(self, found: OffsetAndEpoch, snapshot: Snapshot, raft: Raft) -> None:
        """Go on from a snapshot that was fetched."""
        id_ = SnapshotId(*found)
        try:
            changes = self.log.start_from(id_, snapshot, self._clock.now_ms())
        except KafkaStorageError as error:
            self.broke(error)
            return
        logger.info("metadata log reset to snapshot %s", id_.file_name)
        self.feed(lambda: raft.on_snapshot_installed(found, self.now_ms(), changes))
        self._to_sync.set()

    def reach(self) -> Outbound:
        """The connections to other nodes."""
        if self._outbound is None:
            from kavka.quorum.outbound import Outbound  # a node without peers does not pay for it

            self._outbound = Outbound(self.replica, self.settings, self.log, self._connector)
        return self._outbound

    async def _send(self, effect: Send) -> None:
        raft = self._raft
        reply = await self.reach().send(effect)
        if raft is not None and self._raft is raft and self._failure is None:
            self.feed(lambda: raft.on_response(effect.request_id, reply, self.now_ms()))


def _at(effects: Sequence[Effect], number: int) -> Effect | None:
    return effects[number] if number < len(effects) else None
