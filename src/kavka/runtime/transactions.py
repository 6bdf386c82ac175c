"""The transaction coordinator of a node, as the handlers ask it: each request goes to the shard of its id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.model.errors import CoordinatorLoadInProgress, InvalidRegularExpression, KafkaError, NotCoordinator
from kavka.model.pattern import Pattern, PatternError
from kavka.model.transition import Transition
from kavka.model.types import TopicPartition
from kavka.pacing.turn import Turn
from kavka.runtime.shards import LISTED_AT_ONCE, Shards

if TYPE_CHECKING:  # the machine is imported after the start, see `broker.transactions`
    from kavka.coordinator.txn.machine import TransactionCoordinator
    from kavka.coordinator.txn.requests import Init, Initialized, ProducerIdAndEpoch
    from kavka.coordinator.txn.state import Transaction

SPARES: Final = 2
"""How many producer ids are at hand for decisions that cannot wait for one."""


class SpareIds:
    """Producer ids at hand: a machine decides at once, but getting an id may take a while."""

    def __init__(self, fetch: Callable[[], Awaitable[int]]) -> None:
        self._fetch = fetch
        self._ids: list[int] = []

    async def fill(self) -> None:
        """Have some at hand; raises if there are none to be had."""
        while len(self._ids) < SPARES:
            self._ids.append(await self._fetch())

    def take(self) -> int:
        """A producer id that nobody had before; raises CoordinatorLoadInProgress if none is available."""
        if not self._ids:
            raise CoordinatorLoadInProgress("no producer id is available")
        return self._ids.pop(0)


class Transactions:
    """Every transactional id that this node coordinates."""

    def __init__(self, shards: Shards[TransactionCoordinator], ids: SpareIds) -> None:
        self._shards = shards
        self._ids = ids

    def coordinator_of(self, transactional_id: str) -> int:
        """The node that coordinates an id; -1 if none does."""
        return self._shards.leader_in(self._shards.image, transactional_id)

    async def init_producer_id(self, request: Init) -> Initialized:
        """Give a producer its id, and fence those before it."""
        shard = self._shards.of(request.transactional_id)
        await self._ids.fill()
        found = await shard.submit(lambda machine, now_ms: machine.init_producer_id(request, now_ms))
        if isinstance(found, KafkaError):
            raise found
        return found

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> None:
        """Make partitions part of a transaction."""
        shard = self._shards.of(transactional_id)
        await shard.submit(
            lambda machine, now_ms: machine.add_partitions(
                transactional_id, producer, partitions, client_version, now_ms
            )
        )

    async def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Error codes: whether partitions are part of a transaction."""
        shard = self._shards.of(transactional_id)
        return await shard.submit(
            lambda machine, _: Transition(machine.verify_partitions(transactional_id, producer, partitions))
        )

    async def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool, client_version: int
    ) -> ProducerIdAndEpoch:
        """Decide how a transaction ends; its markers are written afterwards."""
        shard = self._shards.of(transactional_id)
        await self._ids.fill()
        return await shard.submit(
            lambda machine, now_ms: machine.end(
                transactional_id, producer, commit=commit, client_version=client_version, now_ms=now_ms
            )
        )

    async def describe(self, transactional_id: str) -> Transaction:
        """The last transaction of an id."""
        shard = self._shards.of(transactional_id)
        return await shard.submit(lambda machine, _: Transition(machine.describe(transactional_id)))

    async def list(self, wanted: Callable[[str, Transaction], bool]) -> list[tuple[str, Transaction]]:
        """The transactional ids of this node, as far as they are wanted; raises while some are being loaded."""
        found: list[tuple[str, Transaction]] = []
        turn = Turn()
        for shard in self._shards:
            try:
                ids = await shard.submit(lambda machine, _: Transition(list(machine.state.transactions)))
                for first in range(0, len(ids), LISTED_AT_ONCE):
                    part = partial(_listed, wanted, ids[first : first + LISTED_AT_ONCE])
                    rows: list[tuple[str, Transaction]] = await shard.submit(part)
                    found += rows
                    await turn.breathe()
            except NotCoordinator:
                continue
        return found


def _listed(
    wanted: Callable[[str, Transaction], bool], ids: Iterable[str], machine: TransactionCoordinator, _: int
) -> Transition[list[tuple[str, Transaction]]]:
    return Transition(machine.list(wanted, ids))


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text matches a client's pattern as a whole; raises InvalidRegularExpression."""
    try:
        compiled = Pattern(pattern)
    except PatternError as error:
        raise InvalidRegularExpression(f"{pattern[:100]!r} is no RE2 pattern: {error}") from None

    def matches(text: str) -> bool:
        if compiled.is_too_long(text):
            raise InvalidRegularExpression(f"{pattern[:100]!r} is too large to match ids as long as are there")
        return compiled.matches(text)

    return matches
