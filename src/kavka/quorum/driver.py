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
from kavka.model.types import Endpoint, FileSlice
from kavka.protocol.schemas.control_records import LeaderChangeMessage, LeaderChangeVoter
from kavka.quorum.metadata_log import MetadataLog
from kavka.quorum.settings import Member, QuorumSettings
from kavka.quorum.snapshots import BOOTSTRAP_ID, SnapshotId
from kavka.quorum.state import QuorumState, read_quorum_state, write_quorum_state
from kavka.quorum.status import QuorumStatus, ReplicaStatus
from kavka.quorum.voters import ControlState, kraft_version_record, voters_record
from kavka.raft.core import Raft, RaftError, ReplicaProgress
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
    RemoveVoter,
    ReplyMessage,
    Request,
    SnapshotReply,
    UpdateVoter,
    Vote,
    VoterChangeReply,
    VoteReply,
)
from kavka.raft.voters import NOBODY, ReplicaKey
from kavka.records.control import QuorumMessage
from kavka.storage.disk import Disk
from kavka.storage.loader import LoadReport

if TYPE_CHECKING:  # only a node that has peers needs them
    from kavka.client.connector import Connector
    from kavka.protocol.schemas.fetch_snapshot import RequestPartitionSnapshot
    from kavka.quorum.outbound import Outbound
    from kavka.quorum.wire import SnapshotWindow

log = logging.getLogger(__name__)

MAX_FETCH_BYTES: Final = 8 << 20
"""The most that is given at once, whatever is asked for; a larger first batch is given as a whole."""
RESIGN_SECONDS: Final = 1.0
"""How long a leader that stops waits for another to be elected."""
AGAIN_SECONDS: Final = 1.0
"""How long a node whose disk has failed twice waits before it tries it again."""


class Follows(Protocol):
    """Who is told what the quorum does: the controller."""

    def on_commit(self, high_watermark: int) -> None:
        """What is before an offset is committed."""

    def on_leading(self, epoch: int, start_offset: int) -> None:
        """This node leads, from an offset on."""

    def on_lost(self, error: KafkaError) -> None:
        """This node leads no more, and what it wrote may never be committed."""

    def on_leader(self) -> None:
        """Another leads, or nobody is known to."""


class _Asked:
    """A request that is not answered yet; the core's token for it."""

    __slots__ = ("answer", "max_bytes", "request")

    def __init__(self, request: Request, max_bytes: int, answer: asyncio.Future[ReplyMessage]) -> None:
        self.request = request
        self.max_bytes = max_bytes
        self.answer = answer


class RaftDriver:
    """One replica of the metadata log."""

    def __init__(
        self,
        disk: Disk,
        metadata_dir: str,
        member: Member,
        settings: QuorumSettings,
        clock: Clock,
        connector: Connector,
        *,
        draw: Callable[[int, int], int] = random.randrange,
    ) -> None:
        self.member = member
        self.settings = settings
        self.log = MetadataLog(disk, metadata_dir, settings.log)
        self._clock = clock
        self._connector = connector
        self._draw = draw
        self._follower: Follows | None = None
        self._raft: Raft | None = None
        self._queue: deque[Callable[[], Sequence[Effect]]] = deque()
        self._pumping = False
        self._asked: set[_Asked] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._held: list[Send | FetchSnapshotFrom] = []  # what was asked for before `run` began
        self._snapshot: tuple[FetchSnapshotFrom, asyncio.Task[None]] | None = None
        self._to_sync = asyncio.Event()
        self._failed = asyncio.Event()
        self._failure: KafkaStorageError | None = None
        self._lost = False  # whether no new beginning can help
        self._outbound: Outbound | None = None

    # -- what others see ------------------------------------------------------------------------------

    @property
    def raft(self) -> Raft:
        """The core."""
        if self._raft is None:
            raise KafkaStorageError("the quorum is not open")
        return self._raft

    @property
    def leader_id(self) -> int:
        """Who leads; -1 if that is not known."""
        return NOBODY if self._raft is None else self._raft.leader_id

    @property
    def leader_epoch(self) -> int:
        """The newest epoch that this node knows."""
        return 0 if self._raft is None else self._raft.epoch

    @property
    def is_leader(self) -> bool:
        """Whether this node leads."""
        return self._raft is not None and self._raft.is_leader

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader's controller listener is."""
        if self._raft is None or self._raft.leader_id < 0:
            return None
        known = self._raft.leader_endpoints
        return next((one for one in known if one.listener == self.settings.listener), known[0] if known else None)

    @property
    def kraft_version(self) -> int:
        """The version of the quorum's protocol."""
        return 0 if self._raft is None else self._raft.kraft_version

    @property
    def high_watermark(self) -> int:
        """What is before this offset is committed; -1 if that is not known."""
        return -1 if self._raft is None else self._raft.high_watermark

    def control_at(self, offset: int) -> ControlState:
        """What the control records before an offset say: a snapshot there says it too."""
        version, voters = self.raft.history.at(offset - 1)
        return ControlState(version, tuple(voters)) if version else ControlState()

    def status(self) -> QuorumStatus:
        """Who leads, who votes, and as the leader how far each is."""
        raft = self.raft
        now_ms = self._clock.monotonic_ms()
        shift = self._clock.now_ms() - now_ms
        voters, observers = raft.progress(now_ms)
        return QuorumStatus(
            raft.leader_id,
            raft.epoch,
            raft.high_watermark,
            tuple(_status(one, shift) for one in voters),
            tuple(_status(one, shift) for one in observers),
            tuple(raft.voters),
        )

    # -- starting and stopping -------------------------------------------------------------------------

    def open(self, follower: Follows, *, clean: bool = False) -> LoadReport:
        """Open the log and begin; a sole voter leads at once. Raises KafkaStorageError. Once, before `run`."""
        self._follower = follower
        report = self.log.open(self._clock.now_ms(), clean=clean)
        self._begin()
        if self._failure is not None:
            raise self._failure
        return report

    def _begin(self) -> None:
        history = self.log.history(self.settings.voters)
        if self.member.controller and self.log.durable_offset < self.log.end_offset:
            self.log.log.sync()  # what this node votes and fetches by must be on the disk
        if not history.voters and not self.settings.bootstrap:
            raise KafkaStorageError(f"{self.log.path} names no voter: the directory is not formatted for this node")
        self._raft = Raft(
            self.member.voter,
            self.log,
            history,
            self._draw,
            state=self._read_state(),
            config=self.settings.raft,
            bootstrap=self.settings.bootstrap,
            can_become_voter=self.member.controller,
        )
        raft = self._raft
        self._feed(lambda: raft.start(self._now()))

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
        """Before the end: let another be elected if this node leads, for as long as that may take."""
        if self._raft is None or self._tasks is None:
            return
        raft = self._raft
        self._feed(lambda: raft.shutdown(self._now()))
        deadline = asyncio.get_running_loop().time() + RESIGN_SECONDS
        while not raft.has_shut_down and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110  (rare)
            await asyncio.sleep(0.005)

    def close(self) -> None:
        """After `run` has ended: force everything to the disk and let go of it."""
        self._raft = None
        self._drop_asked(NotController("this node is stopping"))
        self.log.close()

    # -- events --------------------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes], epoch: int, now_ms: int) -> int:
        """As the leader of an epoch: write encoded records as one batch; the offset of the last.

        Raises NotController, or KafkaStorageError if the disk does not take them, and then nothing was written.
        """
        raft = self.raft
        if not raft.is_leader or raft.epoch != epoch:
            raise NotController(f"this node does not lead epoch {epoch}")
        try:
            last = self.log.append(values, epoch, now_ms)
        except KafkaStorageError as error:
            if self.log.failed is not None:
                self._broke(error)
            raise
        self._feed(lambda: raft.on_appended(self._now()))
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
        self._asked.add(asked)
        try:
            self._feed(lambda: raft.on_request(request, self._now(), asked))
            return asked.answer.result() if asked.answer.done() else await asked.answer
        finally:
            self._asked.discard(asked)

    def _answer(self, asked: _Asked, reply: ReplyMessage) -> None:
        if asked.answer.done():
            return
        if isinstance(reply, FetchReply) and reply.read and isinstance(asked.request, Fetch):
            # Read now: a little later this node may lead no more, and its log may have been cut.
            limit = min(asked.max_bytes, MAX_FETCH_BYTES)
            reply = reply._replace(records=self.log.read(asked.request.offset, limit))
        asked.answer.set_result(reply)

    def leads(self, epoch: int) -> bool:
        """Whether this node leads an epoch."""
        return self._raft is not None and self._raft.is_leader and self._raft.epoch == epoch

    def change_refused(self, error: KafkaError) -> VoterChangeReply:
        """The answer to a change of the voters that makes no sense."""
        raft = self.raft
        return VoterChangeReply(error.code, error.message, raft.epoch, raft.leader_id, raft.leader_endpoints)

    def snapshot_window(self, replica_id: int, asked: RequestPartitionSnapshot, max_bytes: int) -> SnapshotWindow:
        """A piece of one of this node's snapshots, for a replica that follows it."""
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
        self._feed(lambda: raft.on_snapshot_served(replica, self._now()))
        piece = FileSlice(self.log.disk.file(self.log.path_of(id_)), asked.position, length)
        return SnapshotWindow(head, id_, size, asked.position, piece)

    def upgrade_kraft_version(self, version: int, *, validate_only: bool = False) -> None:
        """As the leader: raise the version of the quorum's protocol; raises InvalidUpdateVersion or NotController."""
        raft = self.raft
        try:
            effects = raft.upgrade_kraft_version(version, self._now(), validate_only=validate_only)
        except NotLeaderOrFollower as error:
            raise NotController(str(error)) from None
        self._feed(lambda: effects)

    def resign(self) -> None:
        """Let another lead, if this node does."""
        raft = self.raft
        self._feed(lambda: raft.resign(raft.epoch, self._now()))

    def _now(self) -> int:
        return self._clock.monotonic_ms()

    def _feed(self, event: Callable[[], Sequence[Effect]]) -> None:
        """Give the core an event, after those that wait, and run what it asks for."""
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
            self._broke(KafkaStorageError(f"the quorum contradicts itself: {error}"))
        except (KafkaStorageError, OSError) as error:
            self._broke(error if isinstance(error, KafkaStorageError) else KafkaStorageError(str(error)))
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
        wait = max(self._raft.next_deadline_ms() - self._now(), 1) / 1000
        self._timer = asyncio.get_running_loop().call_later(min(wait, 3600.0), self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._raft is not None:
            raft = self._raft
            self._feed(lambda: raft.tick(self._now()))

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
                log.info("node %d no longer leads epoch %d of the quorum", self.member.node_id, epoch)
                self._tell().on_lost(NotController("another node leads the quorum now"))
            case LeaderChanged(leader_id, epoch, _):
                log.info(
                    "the quorum is led by %s in epoch %d", f"node {leader_id}" if leader_id >= 0 else "nobody", epoch
                )
                self._tell().on_leader()
            case HighWatermark(offset):
                self._tell().on_commit(offset)
            case StopSnapshot():
                self._stop_snapshot()

    def _tell(self) -> Follows:
        assert self._follower is not None, "the driver is open"
        return self._follower

    def _persist(self, state: ElectionState) -> None:
        voted = state.voted or ReplicaKey(NOBODY)
        written = QuorumState(state.epoch, state.leader_id, voted.id, voted.directory_id)
        write_quorum_state(self.log.disk, self.log.path, written)

    def _become_leader(self, effect: BecomeLeader) -> None:
        log.info("node %d leads epoch %d of the quorum", self.member.node_id, effect.epoch)
        change = LeaderChangeMessage(
            version=0,
            leader_id=self.member.node_id,
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
        self._queue.append(lambda: raft.on_appended(self._now(), changes))
        self._to_sync.set()

    def _append_fetched(self, records: Any, epoch: int) -> None:
        raft = self.raft
        changes = self.log.append_fetched(records, epoch, self._clock.now_ms())
        self._queue.append(lambda: raft.on_appended(self._now(), changes))
        self._to_sync.set()

    def _truncate(self, offset: int) -> None:
        raft = self.raft
        log.info("the metadata log is cut off at %d, as its leader has it", offset)
        self.log.cut_from(offset, self._clock.now_ms())
        self._queue.append(lambda: raft.on_truncated(self._now()))

    # -- forcing to the disk ---------------------------------------------------------------------------

    async def _sync_forever(self, threads: ThreadPoolExecutor) -> None:
        while True:
            await self._to_sync.wait()
            self._to_sync.clear()
            if self._failure is not None or self._raft is None:
                continue
            raft, written = self._raft, self.log.log
            job = written.pending_sync() if self.member.controller else None
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
                    self._broke(error)
                    continue
            if self._raft is raft and self._failure is None:
                durable = self.log.durable_offset if self.member.controller else self.log.end_offset
                self._feed(partial(self._synced, raft, durable))

    def _synced(self, raft: Raft, durable: int) -> Sequence[Effect]:
        return raft.on_synced(durable, self._now())

    # -- when the disk fails ----------------------------------------------------------------------------

    def _broke(self, error: KafkaStorageError) -> None:
        """Do nothing more until the log is open again."""
        if self._failure is None:
            log.error("the metadata log could not be written: %s", error)
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
            self._stop_snapshot()
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
            self._spawn(self._send(effect))
        else:
            self._stop_snapshot()
            task = self._spawn(self._fetch_snapshot(effect))
            self._snapshot = (effect, task) if task is not None else None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Begin what runs besides; None if everything is about to end."""
        try:
            assert self._tasks is not None
            return self._tasks.create_task(work)
        except RuntimeError:
            work.close()
            return None

    def _reach(self) -> Outbound:
        if self._outbound is None:
            from kavka.quorum.outbound import Outbound  # a node without peers does not pay for it

            self._outbound = Outbound(self.member, self.settings, self.log, self._connector)
        return self._outbound

    async def _send(self, effect: Send) -> None:
        raft = self._raft
        reply = await self._reach().send(effect)
        if raft is not None and self._raft is raft and self._failure is None:
            self._feed(lambda: raft.on_response(effect.request_id, reply, self._now()))

    # -- fetching a snapshot ------------------------------------------------------------------------------

    def _stop_snapshot(self) -> None:
        if self._snapshot is not None:
            _, task = self._snapshot
            self._snapshot = None
            if task is not asyncio.current_task():
                task.cancel()

    async def _fetch_snapshot(self, effect: FetchSnapshotFrom) -> None:
        raft, id_ = self.raft, SnapshotId(*effect.snapshot)

        def wanted() -> bool:
            return self._snapshot is not None and self._snapshot[0] is effect and self._raft is raft

        def heard(head: SnapshotReply) -> bool:
            self._feed(lambda: raft.on_snapshot_reply(head, self._now()))
            return wanted()

        log.info("fetching snapshot %s from node %d", id_.file_name, effect.leader_id)
        try:
            snapshot = await self._reach().fetch_snapshot(effect, heard)
        except (KafkaError, TimeoutError, OSError) as error:
            log.warning("snapshot %s could not be fetched: %s", id_.file_name, error or type(error).__name__)
            # It will be fetched from its beginning: not at once, again and again, if it is damaged at the leader.
            await asyncio.sleep(self.settings.raft.fetch_timeout_ms / 4000)
            if wanted():
                self._snapshot = None
                self._feed(lambda: raft.on_snapshot_failed(effect.snapshot, self._now()))
            return
        if snapshot is None or not wanted():
            return
        self._snapshot = None
        try:
            changes = self.log.start_from(id_, snapshot, self._clock.now_ms())
        except KafkaStorageError as error:
            self._broke(error)
            return
        log.info("the metadata log goes on from snapshot %s", id_.file_name)
        self._feed(lambda: raft.on_snapshot_installed(effect.snapshot, self._now(), changes))
        self._to_sync.set()


def _status(one: ReplicaProgress, shift: int) -> ReplicaStatus:
    fetched = one.last_fetch_ms + shift if one.last_fetch_ms >= 0 else -1
    caught_up = one.last_caught_up_ms + shift if one.last_caught_up_ms >= 0 else -1
    return ReplicaStatus(one.key.id, one.key.directory_id, one.end_offset, fetched, caught_up)


def _at(effects: Sequence[Effect], number: int) -> Effect | None:
    return effects[number] if number < len(effects) else None
