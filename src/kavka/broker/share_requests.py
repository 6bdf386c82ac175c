"""What ShareFetch and ShareAcknowledge have in common: their sessions, what they acknowledge, where leaders are."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from kavka.broker.context import Context
from kavka.coordinator.share.settings import ShareGroupSettings
from kavka.metadata.image import MetadataImage
from kavka.model.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotLeaderOrFollower,
    ShareSessionLimitReached,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kavka.model.types import Uuid
from kavka.protocol.schemas.share_fetch import ShareFetchRequest
from kavka.replica.manager import ReplicaManager
from kavka.runtime.share_fetching import ShareFetchLimits
from kavka.runtime.share_leader import ShareLeader
from kavka.security.acl import Operation, ResourceType
from kavka.share.checks import check_acknowledgements
from kavka.share.partition import Acknowledgement
from kavka.share.session import INITIAL_EPOCH, SessionKey, ShareSession

Where = tuple[Uuid, int]
Outcomes = dict[Where, KafkaError | None]

NO_LEADER: Final = (0, 0)
UNKNOWN_LEADER: Final = (-1, -1)
MOVED: Final = (NotLeaderOrFollower.code, FencedLeaderEpoch.code)
"""The errors with which a client is told where the leader is."""


@contextmanager
def without_words() -> Iterator[None]:
    """Refuse by the code alone, as Kafka refuses these requests."""
    try:
        yield
    except KafkaError as error:
        raise type(error)() from error


class Rights:
    """What a client may read, by the metadata of one moment."""

    def __init__(self, ctx: Context, image: MetadataImage) -> None:
        self._ctx = ctx
        self._topics = image.topics.by_id

    def refusal(self, where: Where) -> KafkaError | None:
        """Why a partition is not for this client; None if it is."""
        topic_id, index = where
        topic = self._topics.get(topic_id)
        if topic is None:
            return UnknownTopicId()
        if not self._ctx.allows(Operation.READ, ResourceType.TOPIC, topic.name):
            return TopicAuthorizationFailed()
        return None if index in topic.partitions else UnknownTopicOrPartition()

    def knows(self, where: Where) -> bool:
        """Whether there is such a topic."""
        topic_id, _ = where
        return topic_id in self._topics


def said_in(topics: Iterable[Any]) -> dict[Where, list[Acknowledgement]]:
    """What a request says of records, by partition; nothing of those that it only names."""
    return {
        (topic.topic_id, row.partition_index): [
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types, batch.redelivery_delay_ms)
            for batch in row.acknowledgement_batches
        ]
        for topic in topics
        for row in topic.partitions
    }


class Acknowledging(NamedTuple):
    """Acknowledgements that are decided, and being written."""

    known: Outcomes
    waiting: Mapping[Where, Future[KafkaError | None]]

    async def outcomes(self) -> Outcomes:
        """What has become of them, once it is written."""
        return {**{where: await done for where, done in self.waiting.items()}, **self.known}


def acknowledge(
    leader: ShareLeader,
    key: SessionKey,
    said: Mapping[Where, list[Acknowledgement]],
    rights: Rights,
    version: int,
    is_renewal: bool,
) -> Acknowledging:
    """Decide about acknowledgements; a partition that is only named is answered for if others are acknowledged."""
    known: Outcomes = {}
    wanted: dict[Where, list[Acknowledgement]] = {}
    only_named: list[Where] = []
    for where, acknowledgements in said.items():
        error: KafkaError | None = None if rights.knows(where) else UnknownTopicId()
        if error is None:
            try:
                check_acknowledgements(acknowledgements, version, is_renewal)
                error = rights.refusal(where)
            except KafkaError as refused:
                error = type(refused)()  # as Kafka says it
        if error is not None:
            known[where] = error
        elif acknowledgements:
            wanted[where] = acknowledgements
        else:
            only_named.append(where)
    if not wanted:
        return Acknowledging(known, {})
    return Acknowledging({**known, **dict.fromkeys(only_named)}, leader.acknowledge(key, wanted))


async def session_of(
    request: ShareFetchRequest, key: SessionKey, ctx: Context, leader: ShareLeader
) -> ShareSession[Where]:
    """The session that the request opens, goes on with or ends; one that finds no room waits before it is told so."""
    named = [(topic.topic_id, row.partition_index) for topic in request.topics for row in topic.partitions]
    forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    says = any(row.acknowledgement_batches for topic in request.topics for row in topic.partitions)
    connection, epoch = ctx.connection_id, request.share_session_epoch
    try:
        session = leader.sessions.fetch(key, epoch, named, forgotten, says, connection, leader.session_limit)
    except ShareSessionLimitReached:
        await asyncio.sleep(max(0, request.max_wait_ms) / 1000)
        raise
    if epoch == INITIAL_EPOCH:
        ctx.on_close("share session", lambda: leader.disconnected(connection))
    return session


def limits_of(
    request: ShareFetchRequest, member_id: str, settings: ShareGroupSettings, most_bytes: int
) -> ShareFetchLimits:
    """What a ShareFetch wants, as far as this node lets it."""
    max_bytes = min(request.max_bytes, most_bytes)
    return ShareFetchLimits(
        member_id,
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.max_records,
        request.batch_size,
        request.share_acquire_mode,
        settings.isolation_level == "read_committed",
    )


class Leaders(NamedTuple):
    """Where the leaders of partitions are, for those who asked the wrong node."""

    replicas: ReplicaManager
    listener: str
    found: set[int]

    def of(self, where: Where, error: KafkaError | None) -> tuple[int, int]:
        """The leader and its epoch, if an error has to say so."""
        if error is None or error.code not in MOVED:
            return NO_LEADER
        leader_id, leader_epoch = self.replicas.leader_of(*where) or UNKNOWN_LEADER
        self.found.add(leader_id)
        return leader_id, leader_epoch

    def endpoints(self, make: Any) -> list[Any]:
        """Where these are reached."""
        return [
            make(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in self.replicas.endpoints(sorted(self.found), self.listener)
        ]
