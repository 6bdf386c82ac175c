"""What share groups need of others: states begun, moved and deleted by the share coordinators, and how far they lag.

The kind of group decides (`coordinator/share`); here it is carried out, and the group is told how that went.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.coordinator.share.kind import ShareKind
from kavka.coordinator.share.states import DeleteStates, InitializeStates, PartitionSets
from kavka.coordinator.share_state.machine import UNKNOWN_COUNT, StateSummary
from kavka.metadata.image.metadata import MetadataImage
from kavka.model.errors import KafkaError, LeaderNotAvailable, OffsetNotAvailable
from kavka.model.share import NO_START_OFFSET, SharePartitionKey
from kavka.model.transition import Transition
from kavka.model.types import Uuid
from kavka.replica.manager import ReplicaManager
from kavka.runtime.groups import Groups
from kavka.runtime.listed_offset import LATEST, listed_offset
from kavka.runtime.shard import Shard
from kavka.runtime.share_persister import SharePersister

logger = logging.getLogger(__name__)

UNKNOWN_LAG: Final = -1

Outcomes = Mapping[Uuid, Mapping[int, KafkaError | None]]
"""What became of partitions: None is success."""


class SharePosition(NamedTuple):
    """Where a group stands in a partition."""

    start_offset: int
    leader_epoch: int
    lag: int
    error: KafkaError | None = None


NO_POSITION: Final = SharePosition(NO_START_OFFSET, 0, UNKNOWN_LAG)


class ShareGroups:
    """The share groups that this node coordinates."""

    def __init__(
        self,
        groups: Groups,
        persister: SharePersister,
        replicas: ReplicaManager,
        ask: Callable[[int, Any], Awaitable[Any]],
    ) -> None:
        self._groups = groups
        self._persister = persister
        self._replicas = replicas
        self._ask = ask
        self._wanted: asyncio.Queue[InitializeStates] = asyncio.Queue()

    # -- states of new partitions -------------------------------------------------------------------

    def hear(self, shard: Shard[Any], news: Any) -> None:
        """A group wants states: they are initialized after its member was answered, as in Kafka."""
        if isinstance(news, InitializeStates):
            self._wanted.put_nowait(news)

    async def run(self) -> None:
        """Have states initialized until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._initialize_wanted(await self._wanted.get()))

    async def _initialize_wanted(self, wanted: InitializeStates) -> None:
        try:
            await self._initialize(wanted, failures_too=True)
        except KafkaError as error:  # the group has another coordinator by now, which asks again
            logger.info(
                "share group state of %s initialized, but not recorded in the group: %s", wanted.group_id, error
            )
        except Exception:  # nothing of one group may end the others
            logger.exception("initializing share group state of %s failed", wanted.group_id)

    async def _initialize(self, wanted: InitializeStates, *, failures_too: bool) -> Outcomes:
        group_id = wanted.group_id
        outcomes = await self._of_each(
            group_id,
            wanted.partitions,
            lambda key: self._persister.initialize(
                key, wanted.state_epoch, wanted.start_offsets[key.topic_id][key.partition]
            ),
        )
        done, failed = divided(outcomes)
        if done:
            await self._groups.ask(ShareKind, group_id, lambda kind, now_ms: kind.initialized(group_id, done, now_ms))
        if failed and failures_too:
            logger.warning("initializing share group state of %s failed, retrying: %s", group_id, first_error(outcomes))
            await self._groups.ask(
                ShareKind, group_id, lambda kind, now_ms: kind.not_initialized(group_id, failed, now_ms)
            )
        return outcomes

    async def _of_each(
        self, group_id: str, partitions: PartitionSets, ask: Callable[[SharePartitionKey], Awaitable[None]]
    ) -> Outcomes:
        """Ask the share coordinators for every partition at once."""

        async def ask_for(topic_id: Uuid, index: int) -> tuple[Uuid, int, KafkaError | None]:
            try:
                await ask(SharePartitionKey(group_id, topic_id, index))
            except KafkaError as error:
                return topic_id, index, error
            return topic_id, index, None

        asked = [ask_for(topic_id, index) for topic_id, indexes in partitions.items() for index in sorted(indexes)]
        found: dict[Uuid, dict[int, KafkaError | None]] = {}
        for topic_id, index, error in await asyncio.gather(*asked):
            found.setdefault(topic_id, {})[index] = error
        return found

    # -- offsets ----------------------------------------------------------------------------------

    async def alter_offsets(self, group_id: str, offsets: Mapping[str, Mapping[int, int]]) -> Outcomes:
        """Begin at other offsets; partitions that the outcome leaves out are not there. Raises what refuses all."""
        wanted: InitializeStates = await self._groups.ask(
            ShareKind, group_id, lambda kind, now_ms: kind.alter_offsets(group_id, offsets, now_ms)
        )
        return await self._initialize(wanted, failures_too=False) if wanted.start_offsets else {}

    async def delete_offsets(
        self, group_id: str, topics: Sequence[str]
    ) -> tuple[Mapping[Uuid, KafkaError | None], list[str]]:
        """Forget where a group is in topics; by topic id what became of it, and the topics that have nothing."""
        to_delete, unknown = await self._groups.ask(
            ShareKind, group_id, lambda kind, now_ms: kind.delete_offsets(group_id, topics, now_ms)
        )
        outcomes = await self._delete(to_delete)
        by_topic = {topic_id: first_of(rows) for topic_id, rows in outcomes.items()}
        gone = [topic_id for topic_id, error in by_topic.items() if error is None]
        if gone:
            await self._groups.ask(
                ShareKind, group_id, lambda kind, now_ms: kind.offsets_deleted(group_id, gone, now_ms)
            )
        return by_topic, unknown

    async def delete_states(self, group_ids: Iterable[str]) -> Mapping[str, KafkaError]:
        """What DeleteGroups does first: the share groups among these lose their states, or must stay."""
        refused: dict[str, KafkaError] = {}
        for group_id in group_ids:
            try:
                error = await self._delete_states(group_id)
            except KafkaError as caught:
                error = caught
            if error is not None:
                refused[group_id] = error
        return refused

    async def _delete_states(self, group_id: str) -> KafkaError | None:
        found = await self._groups.ask(ShareKind, group_id, lambda kind, now_ms: kind.delete_states([group_id], now_ms))
        wanted = found.get(group_id)
        if wanted is None or isinstance(wanted, KafkaError):
            return wanted
        return first_error(await self._delete(wanted))

    async def _delete(self, to_delete: DeleteStates) -> Outcomes:
        return await self._of_each(to_delete.group_id, to_delete.partitions, self._persister.delete)

    # -- where groups stand -------------------------------------------------------------------------

    async def initialized(self, group_id: str) -> PartitionSets:
        """The partitions that a group has states of; raises KafkaError."""
        return await self._groups.ask(
            ShareKind, group_id, lambda kind, _: Transition(kind.initialized_partitions(group_id))
        )

    async def positions(
        self, group_id: str, partitions: Mapping[Uuid, Sequence[int]]
    ) -> Mapping[Uuid, list[SharePosition]]:
        """Where a group stands in partitions, in their order; what cannot be read counts as no position."""

        async def position_of(topic_id: Uuid, index: int) -> SharePosition:
            key = SharePartitionKey(group_id, topic_id, index)
            try:
                summary = await self._persister.summary(key)
            except KafkaError:
                return NO_POSITION  # as in Kafka, the absence of data is no error
            return await self._position(key, summary)

        return {
            topic_id: list(await asyncio.gather(*(position_of(topic_id, index) for index in indexes)))
            for topic_id, indexes in partitions.items()
        }

    async def _position(self, key: SharePartitionKey, summary: StateSummary) -> SharePosition:
        start, done = summary.start_offset, summary.delivery_complete_count
        if start == NO_START_OFFSET or done == UNKNOWN_COUNT:
            return SharePosition(start, summary.leader_epoch, UNKNOWN_LAG)
        try:
            end = await self._end_offset(key)
        except KafkaError as error:
            return SharePosition(0, 0, UNKNOWN_LAG, error)
        return SharePosition(start, summary.leader_epoch, end - start - done)

    async def _end_offset(self, key: SharePartitionKey) -> int:
        """The high watermark of a partition, asked of its leader."""
        partition = self._replicas.held(key.topic_id, key.partition)
        if partition is not None and partition.leads:
            if partition.behind_epoch_start:
                raise OffsetNotAvailable(f"{partition.topic_partition} has a new leader that has not caught up yet")
            return partition.high_watermark
        topic = self._image.topics.by_id.get(key.topic_id)
        image = None if topic is None else topic.partitions.get(key.partition)
        if topic is None or image is None or image.leader < 0:
            raise LeaderNotAvailable(f"partition {key.partition} of {key.topic_id} has no leader")
        return await listed_offset(self._ask, image.leader, topic.name, key.partition, LATEST)

    @property
    def _image(self) -> MetadataImage:
        return self._replicas.image


def divided(outcomes: Outcomes) -> tuple[PartitionSets, PartitionSets]:
    """The partitions that went well, and the others."""
    done: dict[Uuid, frozenset[int]] = {}
    failed: dict[Uuid, frozenset[int]] = {}
    for topic_id, rows in outcomes.items():
        good = frozenset(index for index, error in rows.items() if error is None)
        if good:
            done[topic_id] = good
        if len(good) < len(rows):
            failed[topic_id] = frozenset(rows) - good
    return done, failed


def first_of(rows: Mapping[int, KafkaError | None]) -> KafkaError | None:
    """The first error of a topic's partitions, if there is one."""
    return next((error for error in rows.values() if error is not None), None)


def first_error(outcomes: Outcomes) -> KafkaError | None:
    """The first error of all."""
    return next((error for rows in outcomes.values() if (error := first_of(rows)) is not None), None)
