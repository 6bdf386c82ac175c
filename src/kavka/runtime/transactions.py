"""The transaction coordinator of a node, as the handlers ask it: each request goes to the shard of its id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from kavka.model.errors import CoordinatorLoadInProgress, InvalidRegularExpression, KafkaError, NotCoordinator
from kavka.model.transition import Transition
from kavka.model.types import TopicPartition
from kavka.runtime.shards import Shards

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
        for shard in self._shards:
            try:
                found += await shard.submit(lambda machine, _: Transition(machine.list(wanted)))
            except NotCoordinator:
                continue
        return found


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text matches a client's pattern as a whole; raises InvalidRegularExpression."""
    import re2  # not at start-up: few ask by pattern

    options: Any = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidRegularExpression(f"{pattern!r} is no RE2 pattern: {error}") from None
    return lambda text: compiled.fullmatch(text) is not None
