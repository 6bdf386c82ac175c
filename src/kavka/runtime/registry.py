"""The schema registry as a node serves it: decided where its log is led, asked for from any node.

Schemas are read and compared off the loop, one at a time: a large one keeps nobody else waiting but other schemas.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from kavka.coordinator.registry.calls import (
    AMONG_NODES,
    Call,
    RegistryError,
    Reply,
    Rest,
    body_of,
    call_of,
    reads_at_once,
    version_of,
)
from kavka.coordinator.registry.judging import Text, Verdict, formatted, judge
from kavka.coordinator.registry.machine import FORMATTED, JUDGED, Case, Registry
from kavka.coordinator.registry.naming import names_of
from kavka.coordinator.registry.reading import QUESTIONS, SUBJECTS
from kavka.coordinator.registry.schema import JSON, SchemaError
from kavka.model.clock import Clock
from kavka.model.errors import (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NetworkException,
    NotCoordinator,
    RequestTimedOut,
    error_for,
)
from kavka.model.transition import Divisible, Transition
from kavka.protocol.schemas.registry_call import QueryParameter, RegistryCallRequest, RegistryCallResponse
from kavka.runtime.shard import Shard, size_of
from kavka.runtime.shards import Shards

T = TypeVar("T")

BATCH_BYTES: Final = 128
"""More than a batch takes beside its records."""
PATIENCE_MS: Final = 15_000
FIRST_PAUSE_MS: Final = 20
LAST_PAUSE_MS: Final = 500
PASSING: Final = (
    NotCoordinator,
    CoordinatorNotAvailable,
    CoordinatorLoadInProgress,
    BrokerNotAvailable,
    NetworkException,
    RequestTimedOut,
)
NO_TEXT: Final = Text(JSON, "{}")
KEY: Final = ""
"""All of the registry is in one partition: any key will do."""


class Reach(NamedTuple):
    """How a node gets to the registry's leader."""

    node_id: int
    clock: Clock
    ask: Callable[[int, Any], Awaitable[Any]]
    """Asks another node; raises KafkaError if it does not answer."""
    create_topic: Callable[[], Awaitable[None]]
    """Has the registry's topic created unless it is there; raises CoordinatorNotAvailable."""
    off_loop: Callable[..., Awaitable[Any]]
    """Runs a function where it holds nobody up."""


class RegistryService:
    """Answers the requests of the registry's clients."""

    def __init__(self, shards: Shards[Registry], reach: Reach) -> None:
        self._shards = shards
        self._reach = reach
        self._judging = asyncio.Lock()

    async def answer(self, rest: Rest) -> Reply:
        """The answer to a request, from whichever node has it; errors are answers too."""
        clock = self._reach.clock
        until_ms, pause_ms = clock.monotonic_ms() + PATIENCE_MS, FIRST_PAUSE_MS
        while True:
            try:
                return await self._once(rest)
            except RegistryError as error:
                return _refused(error)
            except KafkaError as error:
                if not isinstance(error, PASSING) or clock.monotonic_ms() + pause_ms > until_ms:
                    return Reply(500, {"error_code": 50003, "message": f"the registry cannot be reached: {error}"})
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(pause_ms * 2, LAST_PAUSE_MS)

    async def _once(self, rest: Rest) -> Reply:
        call = call_of(rest)
        leader = self._shards.leader_in(self._shards.image, KEY)
        if leader < 0:
            if self._shards.topic in self._shards.image.topics.by_name:
                raise CoordinatorNotAvailable(f"{self._shards.topic} has no leader")
            await self._reach.create_topic()
            raise CoordinatorNotAvailable(f"{self._shards.topic} is being created")
        if leader != self._reach.node_id:
            return _read(await self._reach.ask(leader, _written(rest)))
        return await self.decide(call)

    async def handed_on(self, request: RegistryCallRequest) -> RegistryCallResponse:
        """The answer to a request that another node was asked; raises KafkaError if this one does not lead the log."""
        try:
            reply = await self.decide(call_of(await self._rest(request)))
        except RegistryError as error:
            reply = _refused(error)
        return RegistryCallResponse(
            error_code=0,
            error_message=None,
            status=reply.status,
            body=json.dumps(reply.body).encode(),
        )

    async def body(self, data: bytes) -> Any:
        """What the body of a request says; raises RegistryError."""
        return body_of(data) if reads_at_once(data) else await self._off_loop(body_of, data)

    async def _rest(self, request: RegistryCallRequest) -> Rest:
        query: Mapping[str, str] = {each.name: each.value for each in request.query}
        body = None if request.body is None else await self.body(request.body)
        return Rest(request.method, request.path, query, body, request.body)

    async def decide(self, call: Call) -> Reply:
        """Answer a request on the node that leads the log; raises RegistryError, or KafkaError if another one does."""
        shard = self._shards.of(KEY)
        wanted = call.query.get("format", "")
        if call.name in FORMATTED and wanted:
            reply = await shard.submit(lambda machine, _: Transition(machine.answer(call)))
            return await self._in_form(shard, reply, call, wanted)
        if call.name in QUESTIONS:
            asked = await self._subjects(shard, call) if call.name in AMONG_NODES else call
            return await shard.submit(lambda machine, _: Transition(machine.answer(asked)))
        if call.name not in JUDGED:
            return await shard.submit(lambda machine, _: _writable(shard, machine.change(call)))
        while True:
            case = await shard.submit(lambda machine, _: Transition(machine.case(call)))
            if (size := len(case.candidate.schema)) > shard.port.max_batch_bytes:
                raise _too_large(shard, size)
            verdict = await self._off_loop(judge, case.work)
            decided = await shard.submit(
                lambda machine, _: _writable(shard, _decided(machine, call, case, verdict))  # noqa: B023
            )
            if decided is not None:
                if call.name == "look_up" and wanted:
                    return await self._in_form(shard, decided, version_of(decided.body), wanted)
                return decided

    async def _in_form(self, shard: Shard[Registry], reply: Reply, call: Call, wanted: str) -> Reply:
        """An answer with its schema, which a call names, in another form; raises RegistryError."""
        text = await shard.submit(lambda machine, _: Transition(machine.text(call)))
        try:
            schema = await self._off_loop(formatted, text, wanted)
        except SchemaError as error:
            raise RegistryError(42201, f"Invalid schema: {error}") from None
        return Reply(reply.status, schema if isinstance(reply.body, str) else {**reply.body, "schema": schema})

    async def registered(self, name: bytes, topic: str, part: str, strategy: str) -> bool:
        """Whether a schema that a record names is registered for a topic; raises KafkaError if that cannot be told."""
        query = {"topic": topic, "part": part, "strategy": strategy}
        reply = await self.answer(Rest("GET", f"/kavka/registered/{name.hex()}", query))
        if reply.status != 200:
            raise CoordinatorNotAvailable(str(reply.body))
        return bool(reply.body)

    async def _subjects(self, shard: Shard[Registry], call: Call) -> Call:
        """The same with the subjects under which the schema that a record names may be registered."""
        topic, strategy = call.query.get("topic", ""), call.query.get("strategy")
        subjects = [f"{topic}-{call.query.get('part', '')}"]
        if strategy != "TopicNameStrategy":
            try:
                text = await shard.submit(lambda machine, _: Transition(machine.text(call)))
            except RegistryError:  # there is no such schema
                text = NO_TEXT
            names = await self._off_loop(names_of, text)
            subjects = [name if strategy == "RecordNameStrategy" else f"{topic}-{name}" for name in names]
        return call._replace(query={**call.query, SUBJECTS: json.dumps(subjects)})

    async def _off_loop(self, function: Callable[..., Any], *arguments: Any) -> Any:
        async with self._judging:
            return await self._reach.off_loop(function, *arguments)


def _refused(error: RegistryError) -> Reply:
    return Reply(error.status, {"error_code": error.code, "message": error.message})


def _writable(shard: Shard[Registry], decided: Transition[T]) -> Transition[T]:
    """A decision that the log can take; raises RegistryError for one that it cannot, before anything is written."""
    if not isinstance(decided.records, Divisible):
        size = sum(size_of(*shard.codec.encode(record)) for record in decided.records)
        if size > shard.port.max_batch_bytes - BATCH_BYTES:
            raise _too_large(shard, size)
    return decided


def _too_large(shard: Shard[Registry], size: int) -> RegistryError:
    said = f"it takes {size} bytes, max.message.bytes of {shard.port.topic_partition.topic} allows less"
    return RegistryError(42209, f"Too large: {said}")


def _decided(machine: Registry, call: Call, case: Case, verdict: Verdict) -> Transition[Reply | None]:
    decided = machine.decided(call, case, verdict)
    return Transition(None) if decided is None else Transition(decided.reply, decided.records)


def _written(rest: Rest) -> RegistryCallRequest:
    return RegistryCallRequest(
        method=rest.method,
        path=rest.path,
        query=[QueryParameter(name=name, value=value) for name, value in rest.query.items()],
        body=rest.data,
    )


def _read(response: RegistryCallResponse) -> Reply:
    if response.error_code:
        raise error_for(response.error_code, response.error_message)
    return Reply(response.status, json.loads(response.body))
