"""The audit log of a node: what clients did and tried, written before they are answered.

Administrative requests are read with their answers, item by item. Of all others the decisions of the gate are written:
the first of its kind at once, repetitions as one entry with their count when an interval is over. Not imported by a
node without `kavka.audit.enable`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kavka.broker.audited import ADMINISTRATIVE, Audited, Item, Outcome, items, outcomes
from kavka.broker.context import Context
from kavka.broker.forwarding import SENT_ON, Handler
from kavka.client.connector import Connector
from kavka.client.pool import Pool
from kavka.controller.topics import NewTopic
from kavka.metadata.names import AUDIT, AUDIT_CLIENT
from kavka.model.clock import Clock
from kavka.model.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    UnknownServerError,
    error_for,
)
from kavka.model.settings import SettingError, Values, audit
from kavka.model.types import Endpoint
from kavka.net.session import Guard, Session
from kavka.protocol.registry import API, ApiKey
from kavka.quorum.internal_topics import create, replication
from kavka.quorum.topic_creation import TopicCreation
from kavka.security.acl import CLUSTER_NAME, Operation, ResourceType
from kavka.storage.disk import Disk
from kavka.storage.spool import Spool, Syncing
from kavka.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from kavka.runtime.audit_topic import AuditTopic, Reached

logger = logging.getLogger(__name__)

T = TypeVar("T")

FOLDER: Final = "kavka-audit"
FORWARDED: Final = "forwarded.json"
LONGEST: Final = 512
"""Characters of a text from a client that are kept."""
AT_ONCE: Final = 100
"""Entries that are written before others have their turn."""
MOST_COUNTED: Final = 1000
"""How many kinds of decisions are told apart in an interval; of more the names are not told, only how many."""
MOST_LOGINS: Final = 300
"""The same of log-ins, which anybody can fail at in many ways: they must not crowd out what clients are denied."""
MOST_UNWRITTEN: Final = 10_000
"""How many entries are kept while they cannot be written."""
RETRY_MS: Final = 1000
COMPLAINT_MS: Final = 60_000
ANY: Final = "*"
"""Stands for what is not told apart."""
LOGIN: Final = "LOGIN"
"""What is done by logging in, for which there is no operation of ACLs."""
NOT_ANSWERED: Final = "NOT_ANSWERED"
"""The outcome of a request whose client went before the answer was there."""

DATA: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
WORDS: Final = {
    "admin": frozenset(ADMINISTRATIVE),
    "data": DATA,
    "other": frozenset(API) - frozenset(ADMINISTRATIVE) - DATA,
    "all": frozenset(API),
}
"""What the settings call the APIs, beside their names."""


class Selection(NamedTuple):
    """What is written."""

    allowed: frozenset[int]
    denied: frozenset[int]
    kinds: frozenset[int] | None
    """None for all."""
    logins: frozenset[str] = frozenset()
    """`succeeded`, `failed`."""

    def wants(self, api_key: int, kind: int, allowed: bool) -> bool:
        """Whether something is written."""
        chosen = self.allowed if allowed else self.denied
        return api_key in chosen and (self.kinds is None or kind in self.kinds)

    def wants_admin(self, kind: int) -> bool:
        """Whether all that is administrative is written when it was allowed."""
        return WORDS["admin"] <= self.allowed and (self.kinds is None or kind in self.kinds)


def selection_of(values: Values) -> Selection:
    """What the settings want written; raises SettingError for a word that is neither a group nor an API."""
    kinds = [ResourceType[name.upper()] for name in values[audit.KAVKA_AUDIT_RESOURCES]]
    return Selection(
        _apis(audit.KAVKA_AUDIT_ALLOWED.name, values[audit.KAVKA_AUDIT_ALLOWED]),
        _apis(audit.KAVKA_AUDIT_DENIED.name, values[audit.KAVKA_AUDIT_DENIED]),
        frozenset(map(int, kinds)) if kinds else None,
        frozenset(values[audit.KAVKA_AUDIT_LOGINS]) if not kinds or ResourceType.USER in kinds else frozenset(),
    )


def _apis(setting: str, words: Iterable[str]) -> frozenset[int]:
    named = {api.name: frozenset({key}) for key, api in API.items()}
    found: set[int] = set()
    for word in words:
        keys = WORDS.get(word) or named.get(word)
        if keys is None:
            raise SettingError(f"{setting}: {word!r} is neither {', '.join(WORDS)} nor the name of an API")
        found |= keys
    return frozenset(found)


class Asked(NamedTuple):
    """Who asks."""

    principal: str
    host: str
    listener: str
    client_id: str


class Decided(NamedTuple):
    """One kind of decision of the gate."""

    asked: Asked
    api_key: int
    operation: int
    kind: int
    name: str
    allowed: bool
    detail: str = ""
    code: int = 0
    """The error that a log-in was refused with."""


class Audit:
    """Writes the audit log."""

    def __init__(
        self,
        values: Values,
        disk: Disk,
        folder: str,
        clock: Clock,
        new_id: Callable[[], object],
        node_id: int,
        *,
        forwards: bool,
    ) -> None:
        """`forwards` says that entries stay until the topic has them. Raises SettingError or OSError."""
        self.selection = selection_of(values)
        self._values = values
        self._disk = disk
        self._folder = folder
        self._clock = clock
        self._interval_s = values[audit.KAVKA_AUDIT_INTERVAL_MS] / 1000
        self._fsync = values[audit.KAVKA_AUDIT_FSYNC]
        self._forwards = forwards
        self.spool = Spool(
            disk, folder, values[audit.KAVKA_AUDIT_SEGMENT_BYTES], values[audit.KAVKA_AUDIT_RETENTION_BYTES]
        )
        self.spool.open(lambda: str(new_id()))
        self._node_id = node_id
        self._own_id: str | None = None
        """The transactional id of who writes the entries to the topic."""
        self.topic: AuditTopic | None = None
        """Who writes the entries to the topic, if somebody does."""
        self.entries = 0
        self.failures = 0
        """Entries that could not be written."""
        self._counted: dict[Decided, int] = {}
        self._told_apart = [0, 0]
        """How many of those, and of log-ins, had an entry of their own in this interval."""
        self._to_tell: list[tuple[Decided, int]] = []
        self._unwritten: list[bytes] = []
        self._failed_ms: int | None = None
        self._complained_ms: int | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._syncing: asyncio.Future[None] | None = None
        self._synced = self.spool.next - 1

    @property
    def watches(self) -> frozenset[int]:
        """The APIs of which the gate's decisions are written."""
        return (self.selection.allowed | self.selection.denied) - frozenset(ADMINISTRATIVE)

    # -- administrative requests ---------------------------------------------------------------------

    def wrap(self, key: int, handler: Handler) -> Handler:
        """The handler of an API: what it does is in the log before it is answered."""
        audited = ADMINISTRATIVE.get(key)
        if audited is None or key not in self.selection.allowed | self.selection.denied:
            return handler

        async def noted(request: Any, ctx: Context) -> Any:
            if ctx.forwarded or ctx.connection_id < 0:  # the node that the client asked writes it
                return await handler(request, ctx)
            self.require()
            try:
                response = await handler(request, ctx)
            except Exception as error:
                known = error if isinstance(error, KafkaError) else UnknownServerError()
                await self._note(audited, request, ctx, known.code)
                raise
            except BaseException:  # nobody is answered, but something may have been done
                lines = [
                    self._administrative(audited, ctx, Outcome(item, 0), NOT_ANSWERED)
                    for item in items(audited, request)
                    if self.selection.wants(ctx.api_key, item.kind, True)
                ]
                self._attempt(lines)
                raise
            await self._note(audited, request, ctx, response)
            return response

        return noted

    async def _note(self, audited: Audited, request: Any, ctx: Context, response: Any) -> None:
        """Write what came of a request; raises KafkaStorageError if that cannot be done: then it is not answered."""
        key, wants = ctx.api_key, self.selection.wants
        lines = (
            self._administrative(audited, ctx, outcome)
            for outcome in outcomes(audited, request, response)
            if wants(key, outcome.item.kind, outcome.allowed)
        )
        try:
            while some := list(islice(lines, AT_ONCE)):
                self.write(some)
                if len(some) == AT_ONCE:
                    await asyncio.sleep(0)
        except BaseException:  # the client hung up, the node stops or the disk is full: it was done all the same
            self._attempt(list(lines))
            raise
        if self._fsync:
            await self.forced()

    def _administrative(self, audited: Audited, ctx: Context, outcome: Outcome, answer: str | None = None) -> bytes:
        asked = Asked(ctx.principal, ctx.client_host, ctx.listener, ctx.client_id)
        row = self._row(asked, ctx.api_key, audited.operation, outcome.item, outcome.allowed)
        row["version"], row["correlation_id"] = ctx.api_version, ctx.correlation_id
        row["error_code"] = outcome.code
        row["outcome"] = answer or outcome_name(outcome.code)
        return line_of(row)

    async def other_change(
        self,
        session: Session,
        api_key: int,
        operation: Operation,
        item: Item,
        outcome: Callable[[], Awaitable[tuple[int, str, T]]],
    ) -> T:
        """Do what a client asked for that is administrative, but no request of Kafka's protocol; what came of it is
        in the log before it is answered. Raises KafkaStorageError.
        """
        if not self.selection.wants(api_key, item.kind, True) and not self.selection.wants_admin(item.kind):
            return (await outcome())[2]
        asked = Asked(session.principal, session.client_host, session.listener, session.client_id)
        self.require()
        row = self._row(asked, api_key, operation, item, True)
        try:
            row["error_code"], row["outcome"], result = await outcome()
        except BaseException:
            self._attempt([line_of({**row, "error_code": 0, "outcome": NOT_ANSWERED})])
            raise
        self.write([line_of(row)])
        if self._fsync:
            await self.forced()
        return result

    # -- decisions of the gate -------------------------------------------------------------------------

    def watch(self, session: Session) -> None:
        """Have the decisions about a session told; those of other nodes too."""
        session.guard = WatchedGuard(self, session, session.guard)

    def decided(self, session: Session, api_key: int, operation: int, kind: int, name: str, allowed: bool) -> None:
        """The gate has decided; the first time at once, then as a count."""
        if name == self._own_id and allowed:
            return  # entries about the writing of entries would have no end
        asked = Asked(session.principal, session.client_host, session.listener, session.client_id)
        self._count(Decided(asked, api_key, operation, kind, name[:LONGEST], allowed))

    def decided_by_controller(self, response: Any, ctx: Context) -> None:
        """The controller has answered what was sent on to it; of what is administrative there is an entry anyhow."""
        key = ctx.api_key
        if ctx.connection_id < 0 or key not in SENT_ON - ADMINISTRATIVE.keys():
            return
        allowed = response.error_code != ClusterAuthorizationFailed.code
        if self.selection.wants(key, ResourceType.CLUSTER, allowed):
            self.decided(ctx.session, key, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, allowed)

    def logged_in(self, session: Session, mechanism: str, refused: KafkaError | None, why: str) -> None:
        """Somebody has logged in, or tried to in vain; also counted when it is repeated."""
        if ("succeeded" if refused is None else "failed") not in self.selection.logins:
            return
        asked = Asked(session.principal, session.client_host, session.listener, session.client_id)
        detail = " ".join(filter(None, (mechanism, why)))[:LONGEST]
        name = session.principal.removeprefix("User:") if refused is None else ""
        code = 0 if refused is None else refused.code
        kind, key = int(ResourceType.USER), int(ApiKey.SASL_AUTHENTICATE)
        self._count(Decided(asked, key, int(Operation.ANY), kind, name, refused is None, detail, code))

    def _count(self, decision: Decided) -> None:
        seen, logs_in = self._counted.get(decision), decision.api_key == ApiKey.SASL_AUTHENTICATE
        if seen is not None:
            self._counted[decision] = seen + 1
        elif self._told_apart[logs_in] < (MOST_LOGINS if logs_in else MOST_COUNTED):
            self._told_apart[logs_in] += 1
            self._counted[decision] = 0
            self._attempt([self._decision(decision, 1)])
        else:
            self._count_folded(decision)

    def _count_folded(self, decision: Decided) -> None:
        """Count what there are too many kinds of, without the names that a client can change as it likes."""
        folded = decision._replace(asked=decision.asked._replace(client_id=ANY), name=ANY, detail="")
        if folded not in self._counted and len(self._counted) >= 2 * MOST_COUNTED:
            folded = folded._replace(asked=Asked(ANY, ANY, ANY, ANY))
        self._counted[folded] = self._counted.get(folded, 0) + 1

    def tell_counts(self) -> None:
        """Write what was repeated, and begin to count anew."""
        self._begin_anew()
        while self._tell_some():
            pass

    def _begin_anew(self) -> None:
        self._to_tell += [(decision, count) for decision, count in self._counted.items() if count]
        self._counted, self._told_apart = {}, [0, 0]

    def _tell_some(self) -> bool:
        """Write some of what was repeated; whether there is more."""
        some, self._to_tell = self._to_tell[:AT_ONCE], self._to_tell[AT_ONCE:]
        self._attempt([self._decision(decision, count) for decision, count in some])
        return bool(self._to_tell)

    def _decision(self, decision: Decided, count: int) -> bytes:
        item = Item(None, ResourceType(decision.kind), decision.name, decision.detail)
        row = self._row(decision.asked, decision.api_key, Operation(decision.operation), item, decision.allowed)
        if decision.api_key == ApiKey.SASL_AUTHENTICATE:
            row["operation"], row["error_code"], row["outcome"] = LOGIN, decision.code, outcome_name(decision.code)
        row["count"] = count
        return line_of(row)

    # -- writing ---------------------------------------------------------------------------------------

    def _row(self, asked: Asked, api_key: int, operation: Operation, item: Item, allowed: bool) -> dict[str, Any]:
        row: dict[str, Any] = {
            "time": timestamp(self._clock.now_ms()),
            "node": self._node_id,
            "spool": self.spool.id,
            "principal": asked.principal[:LONGEST],
            "host": asked.host,
            "listener": asked.listener,
            "client_id": asked.client_id[:LONGEST],
            "api": API[api_key].name,
            "operation": operation.name,
            "resource_type": item.kind.name,
            "resource": item.name[:LONGEST],
            "allowed": allowed,
        }
        if item.detail:
            row["detail"] = item.detail[:LONGEST]
        return row

    def require(self) -> None:
        """Raise KafkaStorageError while the log cannot be written: nothing is changed that could not be told."""
        if self._unwritten:
            self.write([])

    def write(self, lines: list[bytes]) -> None:
        """Append entries, after those that could not be written before; raises KafkaStorageError.

        After a failure they are only kept, and a second later all are tried again.
        """
        if not lines and not self._unwritten:
            return
        now_ms = self._clock.monotonic_ms()
        if self._failed_ms is not None and now_ms - self._failed_ms < RETRY_MS:
            self._unwritten += lines[: MOST_UNWRITTEN - len(self._unwritten)]
            raise KafkaStorageError("the audit log cannot be written: it could not a moment ago")
        lines = [*self._unwritten, *lines]
        try:
            self.spool.append(lines)
        except OSError as error:
            self._unwritten, self._failed_ms = lines[:MOST_UNWRITTEN], now_ms
            self.failures += 1
            if self._complained_ms is None or now_ms - self._complained_ms >= COMPLAINT_MS:
                self._complained_ms = now_ms
                logger.error("the audit log cannot be written, administrative requests are refused: %s", error)
            raise KafkaStorageError(f"the audit log cannot be written: {error.strerror or error}") from None
        self._unwritten, self._failed_ms, self._complained_ms = [], None, None
        self.entries += len(lines)
        if self.topic is not None:
            self.topic.wake()

    def _attempt(self, lines: list[bytes]) -> None:
        """Append entries that nobody waits for; what fails is kept, and tried again with the next."""
        if lines or self._unwritten:
            try:
                self.write(lines)
            except KafkaStorageError:
                return  # it was logged, and is tried again

    async def forced(self) -> None:
        """Wait until everything written so far is forced to disk; those who come meanwhile share the next time."""
        mine = self.spool.next - 1
        while self._synced < mine:
            try:
                await asyncio.shield(self._syncing or self._begin_forcing())
            except OSError as error:
                self.failures += 1
                raise KafkaStorageError(f"the audit log cannot be forced to disk: {error}") from None

    def _begin_forcing(self) -> asyncio.Future[None]:
        self._thread = self._thread or ThreadPoolExecutor(1, "kavka-audit")
        until, syncing = self.spool.next - 1, self.spool.syncing()
        self._syncing = asyncio.get_running_loop().run_in_executor(self._thread, syncing.job)
        self._syncing.add_done_callback(partial(self._was_forced, until, syncing))
        return self._syncing

    def _was_forced(self, until: int, syncing: Syncing, future: asyncio.Future[None]) -> None:
        self._syncing = None
        if future.cancelled() or future.exception() is not None:
            self.spool.failed(syncing)
        else:
            self.spool.succeeded(syncing)
            self._synced = max(self._synced, until)

    # -- living ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write counts and let old files go, now and then, until cancelled."""
        try:
            while True:
                await asyncio.sleep(self._interval_s)
                self._begin_anew()
                more = True
                while more:
                    more = self._tell_some()
                    await asyncio.sleep(0)
                self._expire()
        finally:
            self._failed_ms = None  # the last chance
            self.tell_counts()

    def _expire(self) -> None:
        done = self.spool.next - 1
        if self._forwards:
            done = 0 if self.topic is None else self.topic.done
        try:
            self.spool.expire(done)
        except OSError as error:
            logger.warning("an old file of the audit log cannot be removed: %s", error)

    def join(self, topics: TopicCreation, connector: Connector, endpoints: Sequence[Endpoint]) -> AuditTopic:
        """Who writes the entries to the topic; `endpoints` are where this broker is reached by others like it."""
        from kavka.runtime.audit_topic import AuditTopic, transactional_id

        pool = Pool(
            [f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints],
            client_id=f"{AUDIT_CLIENT}{self._node_id}",
            connector=connector,
        )
        self._own_id = transactional_id(self._node_id)
        opening = partial(open_topic, topics, self._values)
        reached, remember = self._read_reached(), self._remember
        self.topic = AuditTopic(self.spool, pool, self._node_id, reached, self.forced, remember, opening, self._clock)
        return self.topic

    def _read_reached(self) -> Reached:
        """How far the topic was written when that was last noted."""
        from kavka.runtime.audit_topic import Reached

        path = f"{self._folder}/{FORWARDED}"
        try:
            found = json.loads(self._disk.read_file(path))
            return Reached(int(found["seq"]), int(found["offset"]))
        except FileNotFoundError:
            return Reached(0, 0)
        except (ValueError, KeyError, TypeError):
            logger.warning("%s cannot be read: all of the topic is", path)
            return Reached(0, 0)

    async def _remember(self, reached: Reached) -> None:
        data = json.dumps(reached._asdict()).encode()
        path = f"{self._folder}/{FORWARDED}"
        await asyncio.get_running_loop().run_in_executor(None, self._disk.replace_file, path, data)

    def close(self) -> None:
        """Let go of the thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)

    def show(self, metrics: Metrics) -> None:
        """What an operator may want to watch."""
        metrics.count("kavka_audit_entries", "Entries written to the audit log.", lambda: self.entries)
        metrics.count("kavka_audit_failures", "Times the audit log could not be written.", lambda: self.failures)
        metrics.gauge("kavka_audit_bytes", "Bytes of the audit log on disk.", lambda: self.spool.size)
        if self._forwards:
            metrics.gauge("kavka_audit_waiting_entries", "Entries that the topic does not have yet.", self._waiting)

    def _waiting(self) -> int:
        return self.spool.next - 1 - (0 if self.topic is None else self.topic.done)


class WatchedGuard:
    """A guard that tells what it decides; without one behind it everything is allowed."""

    __slots__ = ("_audit", "_guard", "_session", "_watches")

    def __init__(self, audit: Audit, session: Session, guard: Guard | None) -> None:
        self._audit = audit
        self._session = session
        self._guard = guard
        self._watches = audit.watches

    def allows(self, operation: int, resource_type: int, name: str, api_key: int, asked: bool = True, /) -> bool:
        """Whether it may do this with a resource, as a request of an API asks; else only whether it might."""
        allowed = self._guard is None or self._guard.allows(operation, resource_type, name, api_key, asked)
        if asked and api_key in self._watches and self._audit.selection.wants(api_key, resource_type, allowed):
            self._audit.decided(self._session, api_key, operation, resource_type, name, allowed)
        return allowed

    def allows_any(self, operation: int, resource_type: int, /) -> bool:
        """Whether it may do this with at least one resource of a type."""
        return self._guard is None or self._guard.allows_any(operation, resource_type)


async def open_topic(topics: TopicCreation, values: Values) -> int:
    """How many partitions the topic has, once it is there; raises CoordinatorNotAvailable while it is not."""
    found = topics.image.topics.by_name.get(AUDIT)
    if found is None:
        replicas = replication(topics.image, values, audit.KAVKA_AUDIT_TOPIC_REPLICATION_FACTOR)
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": str(values[audit.KAVKA_AUDIT_TOPIC_RETENTION_MS]),
            "min.insync.replicas": str(min(2, replicas)),
        }
        partitions = values[audit.KAVKA_AUDIT_TOPIC_NUM_PARTITIONS]
        await create(topics, NewTopic(AUDIT, partitions, replicas, configs=configs))
        found = topics.image.topics.by_name.get(AUDIT)
    if found is None:
        raise CoordinatorNotAvailable(f"{AUDIT} was created, but is not known here yet")
    return len(found.partitions)


def line_of(row: dict[str, Any]) -> bytes:
    """An entry as the spool wants it: JSON without the first brace."""
    return json.dumps(row, separators=(",", ":")).encode()[1:]


def outcome_name(code: int) -> str:
    """Kafka's name of an error code."""
    if not code:
        return "NONE"
    name = type(error_for(code)).__name__
    return "".join(f"_{letter}" if letter.isupper() and index else letter for index, letter in enumerate(name)).upper()


def timestamp(now_ms: int) -> str:
    """A time as people and JSON write it, in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
