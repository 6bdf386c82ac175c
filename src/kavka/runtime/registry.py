"""The schema registry as a node serves it: decided where its log is led, asked for from any node.

Schemas are read and compared off the loop, one at a time: a large one keeps nobody else waiting but other schemas.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from kavka.coordinator.registry.calls import Call, RegistryError, Reply, Rest, body_of, call_of, reads_at_once
from kavka.coordinator.registry.judging import Verdict, formatted, judge
from kavka.coordinator.registry.machine import FORMATTED, JUDGED, Case, Registry
from kavka.coordinator.registry.reading import QUESTIONS
from kavka.coordinator.registry.schema import SchemaError
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
            throttle_time_ms=0,
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
            text = await shard.submit(lambda machine, _: Transition(machine.text(call)))
            try:
                schema = await self._off_loop(formatted, text, wanted)
            except SchemaError as error:
                raise RegistryError(42201, f"Invalid schema: {error}") from None
            reply = await shard.submit(lambda machine, _: Transition(machine.answer(call)))
            return Reply(reply.status, {**reply.body, "schema": schema})
        if call.name in QUESTIONS:
            return await shard.submit(lambda machine, _: Transition(machine.answer(call)))
        if call.name not in JUDGED:
            return await shard.submit(lambda machine, _: _writable(shard, machine.change(call)))
        while True:
            case = await shard.submit(lambda machine, _: Transition(machine.case(call)))
            verdict = await self._off_loop(judge, case.work)
            decided = await shard.submit(
                lambda machine, _: _writable(shard, _decided(machine, call, case, verdict))  # noqa: B023
            )
            if decided is not None:
                return decided

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
            said = f"it takes {size} bytes, max.message.bytes of {shard.port.topic_partition.topic} allows less"
            raise RegistryError(42201, f"Too large: {said}")
    return decided


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
