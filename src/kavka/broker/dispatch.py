"""From a frame to a handler and back to bytes; the only place that makes a response of an error.

Produce and Fetch are served by `hot` handlers that read the frame themselves. The others are async
functions; each is stepped once right here, and becomes a task only if it really has to wait. Large requests are read,
and late answers written, in slices; so is the work of handlers that give way while they have much to do.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from time import monotonic, perf_counter_ns
from typing import Any, Final, Protocol, get_type_hints

from kavka.broker.context import BROKER, Context, ListenerKind
from kavka.broker.handlers import latest_version, load, modules
from kavka.broker.handlers.marks import Right, needs_of, parts_of, request_of
from kavka.broker.holding import Holding
from kavka.broker.parts import served_in_parts
from kavka.broker.quotas import Quotas
from kavka.broker.slots import ResponseSlot, Slots
from kavka.broker.throttling import PERCENT_PER_NANOSECOND, Throttled, limited, limited_later
from kavka.kernels.frames import parse_header
from kavka.metadata.live import LiveSettings
from kavka.model.clock import Clock
from kavka.model.errors import KafkaError, MalformedMessage, UnknownServerError, UnsupportedVersion
from kavka.model.types import Piece
from kavka.net.connection import Connection
from kavka.net.responses import PENDING, Reply
from kavka.net.session import LONGEST_KEPT
from kavka.pacing.lane import Lane, LaneClass
from kavka.protocol.compiler import decode, decode_steps
from kavka.protocol.frame_caps import FrameCaps
from kavka.protocol.header import encode_response, encode_response_steps
from kavka.protocol.primitives import STEP_ITEMS
from kavka.protocol.refusal import refusal, refusal_steps
from kavka.protocol.registry import API, Api, ApiKey
from kavka.protocol.schema import declared, replace
from kavka.security.quota.rate import Rate
from kavka.telemetry.metrics import Histogram

logger = logging.getLogger(__name__)

Handler = Callable[[Any, Context], Coroutine[Any, Any, Any]]

AT_ONCE_BYTES: Final = 8 * 1024
"""Up to here a request is decoded in one go, which takes a few milliseconds at most."""
ASKED_FIRST: Final = frozenset(
    {ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
)
"""What clients ask right after the start: loaded before that."""
LARGE_BYTES: Final = 64 * 1024
"""From here on the time is taken that even Produce and Fetch hold the loop."""


class LateServices(Protocol):
    """Services that are not there at the start."""

    @property
    def loaded(self) -> bool:
        """Whether they are there."""

    async def load(self) -> None:
        """Load them, a little at a time, if they are not."""

    def __iter__(self) -> Iterator[object]:
        """The services; loads them at once if they are not there."""


class HotHandler(Protocol):
    """Serves one API straight from the frame."""

    def __call__(
        self,
        connection: Slots,
        buffer: memoryview,
        pos: int,
        end: int,
        version: int,
        correlation_id: int,
        client_id: str,
    ) -> Reply:
        """Answer now, never, or later through a slot of the connection."""


Asker = Connection | Throttled
"""Where a request came from, and its answer goes."""


class Dispatcher:
    """Routes the frames of one kind of listener to the handlers that serve it."""

    def __init__(
        self,
        stems: Iterable[str],
        services: Iterable[object],
        hot: Mapping[int, HotHandler],
        tasks: asyncio.TaskGroup,
        clock: Clock,
        load: Callable[[str], Callable[..., Any]] = load,
        kind: ListenerKind = BROKER,
        wrap: Callable[[int, Handler], Handler] | None = None,
        late: LateServices | None = None,
        caps: FrameCaps = FrameCaps(),  # noqa: B008  (it cannot change)
        lane: Lane | None = None,
    ) -> None:
        """Services that are `late` are loaded after the start; only a request that needs one waits for that."""
        self._caps = caps
        self.lane = lane or Lane()
        """Where long requests wait for their turns: one for all dispatchers of a node."""
        self.lane.beside(self.served)
        self.holding = Holding()
        self._services = (*services, self)
        self._late = late
        self._tasks = tasks
        self._clock = clock
        self._load = load
        self._kind = kind
        self._wrap = wrap
        self._quotas: Quotas | None = None
        self._modules = modules(kind, stems)
        self._handlers: dict[int, Handler] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self.requests: dict[int, int] = dict.fromkeys([*self._modules, *hot], 0)
        self.unsupported = 0
        """Requests of an API or a version that is not served here."""
        self.times = {key: Histogram() for key in self.requests}
        """By API key: nanoseconds from a request's arrival to its answer, waiting included."""
        settings = next((service for service in self._services if isinstance(service, LiveSettings)), None)
        values = None if settings is None else settings.values
        # Bound methods: calling an object by way of its class costs a twentieth of a tiny Produce.
        calls = {key: serve.__call__ for key, serve in hot.items()}
        self._versions = {
            key: (API[key].min_version, latest_version(API[key], values), calls.get(key), self.times[key])
            for key in self.requests
        }

    def served(self) -> int:
        """How many requests have come in."""
        return sum(self.requests.values())

    def busy(self) -> bool:
        """Whether long requests are under way."""
        return self.lane.busy

    def hold_against(self, quotas: Quotas) -> None:
        """Count what clients use, as long as any has a quota."""
        self._quotas = quotas if quotas.limits_clients else None

    async def load_first(self) -> None:
        """Load what is asked first, beside what is being done."""
        for key in ASKED_FIRST & self._modules.keys():
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._load, self._modules[key])
                self._handler(key)
            except Exception:  # as below: its first request tries again
                logger.exception("loading what serves %s failed", API[key].name)

    async def serve(self, request: Any, context: Context) -> Any:
        """Serve a request of this node itself, or one that came in an envelope; raises KafkaError."""
        key = declared(type(request)).key
        if key not in self._modules:
            raise UnsupportedVersion(f"{API[key].name} is not served here")
        await self._prepare(key)
        try:
            return await self._handler(key)(request, context)
        except KafkaError as error:
            return refusal(request, context.api_version, error)

    def __call__(self, connection: Connection, buffer: memoryview, start: int, end: int) -> Reply:
        """Serve one frame; raises MalformedMessage when the connection must be closed."""
        key, version, correlation_id, client_id, pos = parse_header(buffer, start, end)
        began_ns = perf_counter_ns()
        try:
            lowest, highest, hot, times = self._versions[key]
        except KeyError:
            self.unsupported += 1
            raise MalformedMessage(f"no API has key {key} here") from None
        self.requests[key] += 1
        reply: Reply
        if not lowest <= version <= highest:
            self.unsupported += 1
            if key == ApiKey.API_VERSIONS:
                # Answered in the oldest form, which every client can read (KIP-511).
                return self._unsupported_api_versions(connection, correlation_id, client_id)
            raise UnsupportedVersion(f"{API[key].name} has no version {version}")
        counted: Throttled | None = None
        rate: Rate | None = None
        if (quotas := self._quotas) is not None and not connection.together:
            found = limited(quotas, connection, key, version, client_id, end - start)
            if isinstance(found, Throttled):
                counted = found
            elif found is not None:
                rate, connection.together = found, True
        if counted is not None:
            if hot is not None:
                reply = counted.settle(hot(counted, buffer, pos, end, version, correlation_id, client_id))
            else:
                reply = counted.settle(self._begin(counted, key, buffer[:end], pos, version, correlation_id, client_id))
        elif hot is None:
            reply = self._begin(connection, key, buffer[:end], pos, version, correlation_id, client_id)
        elif end - pos < LARGE_BYTES:
            reply = hot(connection, buffer, pos, end, version, correlation_id, client_id)
        else:
            began = monotonic()
            reply = hot(connection, buffer, pos, end, version, correlation_id, client_id)
            self.holding.note(key, version, client_id, connection.session, began)
        taken_ns = perf_counter_ns() - began_ns
        if rate is not None and quotas is not None:
            connection.together = False
            if reply is not None:  # acks=0 is exempt
                rate.record(taken_ns * PERCENT_PER_NANOSECOND, quotas.now_ms())
        if reply is PENDING:
            connection.when_answered(partial(_answered, times, began_ns))
        else:  # as `observe` does: a call less for each request
            times.counts[taken_ns.bit_length()] += 1
            times.total += taken_ns
        return reply

    def _begin(
        self, asker: Asker, key: int, frame: memoryview, pos: int, version: int, correlation_id: int, client_id: str
    ) -> Reply:
        began = monotonic()
        context = self._context(asker, key, version, client_id, correlation_id)
        if len(frame) - pos > AT_ONCE_BYTES or self._unprepared(key):
            asker = self._counted_alone(asker, context)
            slot = asker.open_slot(exclusive=True)
            asker.serve_large(len(frame) - pos)
            counted = asker if type(asker) is Throttled else None
            self._spawn(asker, self._read(slot, API[key], correlation_id, bytes(frame[pos:]), context, counted))
            return PENDING
        api = API[key]
        request = decode(api.request(), frame, version, pos)
        reply = self._step(asker, api, correlation_id, request, context)
        self.holding.note(key, version, client_id, asker.session, began)
        return reply

    def _unsupported_api_versions(self, connection: Connection, correlation_id: int, client_id: str) -> list[Piece]:
        api = API[ApiKey.API_VERSIONS]
        context = self._context(connection, api.key, 0, client_id, correlation_id)
        request = api.request()(client_software_name="", client_software_version="")
        answer = self._step(connection, api, correlation_id, request, context, True)
        assert isinstance(answer, list)
        return answer

    def _context(self, asker: Asker, key: int, version: int, client_id: str, correlation_id: int) -> Context:
        asker.session.client_id = client_id[:LONGEST_KEPT]
        return Context(
            api_key=key,
            api_version=version,
            client_id=client_id,
            session=asker.session,
            now_ms=self._clock.now_ms(),
            kind=self._kind,
            correlation_id=correlation_id,
            on_close=asker.when_closed,
        )

    # -- running a handler ----------------------------------------------------------------

    def _step(
        self,
        asker: Asker,
        api: Api,
        correlation_id: int,
        request: Any,
        context: Context,
        unsupported: bool = False,
    ) -> Reply:
        work = self._handler(api.key)(request, context)
        try:
            try:
                waits_for = work.send(None)
            except StopIteration as stop:
                response = stop.value
                if unsupported:
                    # Only the versions of ApiVersions itself: the client asks again with one of them.
                    keys = [row for row in response.api_keys if row.api_key == api.key]
                    response = replace(response, error_code=UnsupportedVersion.code, api_keys=keys)
                if type(asker) is Throttled:
                    asker.told_ms = getattr(response, "throttle_time_ms", 0)
                return encode_response(api.key, context.api_version, correlation_id, response)
        except Exception as error:
            return self._refuse(api, request, context.api_version, correlation_id, error)
        asker = self._counted_alone(asker, context)
        slot = asker.open_slot(exclusive=True)
        counted = asker if type(asker) is Throttled else None
        rest = Resumed(work, waits_for, self.lane, LaneClass.SMALL, self.holding, context, slot, counted)
        if not self._spawn(asker, self._finish(slot, api, correlation_id, request, context.api_version, rest)):
            work.close()
        return PENDING

    def _counted_alone(self, asker: Asker, context: Context) -> Asker:
        """Whom a late answer goes to: what it takes from here on is not counted with the other requests of its read."""
        if self._quotas is None or isinstance(asker, Throttled) or not asker.together:
            return asker
        key, version, client_id = context.api_key, context.api_version, context.client_id
        return limited_later(self._quotas, asker, key, version, client_id) or asker

    def _spawn(self, asker: Asker, finishing: Coroutine[Any, Any, None]) -> bool:
        """Go on in a task of its own; False if the node has stopped, and nobody would."""
        try:
            task = self._tasks.create_task(finishing)
        except RuntimeError:
            finishing.close()
            asker.close()
            return False
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return True

    async def _read(
        self,
        slot: ResponseSlot,
        api: Api,
        correlation_id: int,
        body: bytes,
        context: Context,
        counted: Throttled | None,
    ) -> None:
        """Serve a large request, or one whose handler is not loaded: decode it in slices, as one of a few at a time."""
        try:
            await self._prepare(api.key)
        except Exception:  # there may be too many open files, say: the next that asks for it tries again
            logger.exception("loading what serves %s failed", api.name)
            slot.abort()
            return
        kind = LaneClass.of(len(body))
        room = await self.lane.enter(kind)
        try:
            await self.lane.turn(kind)
            if slot.left:
                slot.abort()
                return
            version, limit = context.api_version, self._caps.items_of(api.key) // STEP_ITEMS
            try:
                request = await self.lane.run(decode_steps(api.request(), body, version), kind, limit)
            except KafkaError as error:
                logger.info(
                    "closing a connection of client %r at %s, whose %s cannot be read: %s",
                    context.client_id,
                    context.client_host,
                    api.name,
                    error,
                )
                slot.abort()
                return
            work = self._handler(api.key)(request, context)
            rest = Resumed(work, None, self.lane, kind, self.holding, context, slot, counted, room.leave)
            await self._finish(slot, api, correlation_id, request, version, rest)
        except Exception:
            logger.exception(
                "decoding a %s request failed", api.name
            )  # as in `_finish`: it is this request's fault alone
            slot.abort()
        finally:
            room.leave()

    def give_up(self) -> None:
        """Answer nobody who still waits: the node stops."""
        for task in list(self._waiting):
            task.cancel()

    async def _finish(
        self, slot: ResponseSlot, api: Api, correlation_id: int, request: Any, version: int, work: Resumed
    ) -> None:
        try:
            try:
                response = await work
                if work.counted is not None:
                    work.counted.told_ms = getattr(response, "throttle_time_ms", 0)
                steps = encode_response_steps(api.key, version, correlation_id, response)
                pieces = await self.lane.run(steps, work.kind)
            except Exception as error:
                steps = self._refuse_steps(api, request, version, correlation_id, error)
                pieces = await self.lane.run(steps, work.kind)
            slot.answer(pieces)
        except Exception:
            # Nothing of one request may reach the group of tasks, which would end the node.
            logger.exception("%s failed, and so did its error response", api.name)
            slot.abort()

    def _refuse(self, api: Api, request: Any, version: int, correlation_id: int, error: Exception) -> list[Piece]:
        """A whole-request error as that API's response."""
        return encode_response(api.key, version, correlation_id, refusal(request, version, self._told(api, error)))

    def _refuse_steps(
        self, api: Api, request: Any, version: int, correlation_id: int, error: Exception
    ) -> Generator[None, None, list[Piece]]:
        """The same, in steps."""
        response = yield from refusal_steps(request, version, self._told(api, error))
        return (yield from encode_response_steps(api.key, version, correlation_id, response))

    def _told(self, api: Api, error: Exception) -> KafkaError:
        """What the client is told of an error; the log has the words of those that are ours."""
        if isinstance(error, KafkaError):
            return error
        logger.error("%s failed", api.name, exc_info=error)
        return UnknownServerError()

    # -- binding ----------------------------------------------------------------------------

    def _unprepared(self, key: int) -> bool:
        """Whether a handler may have to wait for what is not loaded yet."""
        return self._late is not None and key not in self._handlers

    async def _prepare(self, key: int) -> None:
        """Load a handler, and the services that it needs, beside what is being done."""
        if key not in self._handlers:
            function = await asyncio.get_running_loop().run_in_executor(None, self._load, self._modules[key])
            if self._late is not None and lacks(function, self._services):
                await self._late.load()
        self._handler(key)

    def _handler(self, key: int) -> Handler:
        handler = self._handlers.get(key)
        if handler is None:
            handler = bind(self._load(self._modules[key]), self._services, self._late or ())
            if self._wrap is not None:
                handler = self._wrap(key, handler)
            self._handlers[key] = handler
        return handler


def _answered(times: Histogram, began_ns: int) -> None:
    """A request that had to wait has its answer."""
    times.observe(perf_counter_ns() - began_ns)


class Resumed:
    """The rest of a coroutine that was stepped once and then had to wait; one that gives way has turns in the lane."""

    __slots__ = ("_context", "_first", "_holding", "_lane", "_slot", "_waits", "_work", "counted", "kind")

    def __init__(
        self,
        work: Coroutine[Any, Any, Any],
        first: Any,
        lane: Lane,
        kind: LaneClass,
        holding: Holding,
        context: Context,
        slot: ResponseSlot,
        counted: Throttled | None,
        waits: Callable[[], None] | None = None,
    ) -> None:
        """`waits` is called when it waits for something else than its turn."""
        self._slot = slot
        self._work = work
        self._first = first
        self._lane = lane
        self.kind = kind
        self._holding = holding
        self._context = context
        self._waits = waits
        self.counted = counted
        """The request, if somebody wants to know how long it keeps the loop busy."""

    def __await__(self) -> Generator[Any, Any, Any]:
        work, waits_for, context = self._work, self._first, self._context
        began = monotonic()
        try:
            while True:
                sent = None
                try:
                    if waits_for is None:  # what `asyncio.sleep(0)` waits for
                        yield from self._lane.turn(self.kind).__await__()
                        if self._slot.left:
                            self._slot.abort()
                            raise asyncio.CancelledError  # nobody waits for the rest
                    else:
                        if self._waits is not None:
                            self._waits()
                        sent = yield waits_for
                except BaseException as error:
                    began = monotonic()
                    waits_for = work.throw(error)
                else:
                    began = monotonic()
                    waits_for = work.send(sent) if self.counted is None else self._timed(self.counted, sent)
                self._holding.note(context.api_key, context.api_version, context.client_id, context.session, began)
        except StopIteration as stop:
            self._holding.note(context.api_key, context.api_version, context.client_id, context.session, began)
            return stop.value
        except BaseException:
            self._holding.note(context.api_key, context.api_version, context.client_id, context.session, began)
            raise

    def _timed(self, counted: Throttled, sent: Any) -> Any:
        began_ns = perf_counter_ns()
        try:
            return self._work.send(sent)
        finally:
            counted.spent_ns += perf_counter_ns() - began_ns


def lacks(function: Callable[..., Any], services: Sequence[object]) -> bool:
    """Whether a handler needs a service that is not among these."""
    wanted = services_of(function).values()
    return not all(any(isinstance(service, each) for service in services) for each in wanted)


@cache
def services_of(function: Callable[..., Any]) -> Mapping[str, type]:
    """The services that the signature of a handler names, by parameter."""
    hints = get_type_hints(function)
    return {name: hints[name] for name in list(inspect.signature(function).parameters)[2:]}


def bind(
    function: Callable[..., Coroutine[Any, Any, Any]], services: Iterable[object], late: Iterable[object] = ()
) -> Handler:
    """Give a handler the services that its signature names by type; TypeError if one is missing."""
    request_of(function)  # refuses a function that is not marked as a handler
    chosen: dict[str, object] = {}
    for name, wanted in services_of(function).items():
        service = next((service for service in chain(services, late) if isinstance(service, wanted)), None)
        if service is None:
            raise TypeError(f"handler {function.__name__} needs {wanted.__name__}, which this node does not have")
        chosen[name] = service

    def bound(request: Any, context: Context) -> Coroutine[Any, Any, Any]:
        return function(request, context, **chosen)

    needs, parts = needs_of(function), parts_of(function)
    whole = served_in_parts(bound, parts) if parts else bound
    return whole if not isinstance(needs, Right) else _guarded(whole, needs)


def _guarded(handler: Handler, right: Right) -> Handler:
    """The handler of a request that needs a right as a whole."""

    async def guarded(request: Any, context: Context) -> Any:
        if context.session.guard is not None:
            context.require(right.operation, right.resource_type, right.resource(request))
        return await handler(request, context)

    return guarded
