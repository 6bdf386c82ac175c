"""Being a member of a group: what the two group protocols share, and the newer one (KIP-848).

Membership runs beside its user and only offers what the member shall have. The user takes the offer when it next asks
for records (then it has dealt with those it was given), and says what it owns now.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kavka.client.group_link import GroupLink
from kavka.client.pool import Pool
from kavka.client.view import error_for
from kavka.model.errors import (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    KafkaError,
    NetworkException,
    NotCoordinator,
    RequestTimedOut,
    UnknownMemberId,
)
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataResponse

Partitions = frozenset[TopicPartition]

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_SEAT: Final = -2
PASSING: Final = (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NetworkException,
    NotCoordinator,
    RequestTimedOut,
)
"""After these a member tries again for as long as it lives."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member wants, and how it is known."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignors: tuple[str, ...] = ()
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000


class Member(Protocol):
    """A membership as the consumer sees it."""

    offer: Partitions | None
    lost: bool
    failure: KafkaError | None
    member_id: str
    epoch: int

    @property
    def owned(self) -> Partitions:
        """The partitions the member owns."""

    async def run(self) -> None:
        """Be a member until cancelled."""

    def take(self) -> Partitions:
        """What is offered, which the user takes from now on until it settles."""

    def settle(self, owned: Partitions) -> None:
        """The user has taken an offer, or noted a loss: this is what it has now."""

    def asked(self) -> None:
        """The user asks for records, so it is alive."""

    async def leave(self) -> None:
        """Leave the group."""


class BaseMembership:
    """The offers to the user, and how long it may be silent."""

    def __init__(self, link: GroupLink, pool: Pool, subscription: Subscription, wake: Callable[[], None]) -> None:
        self.offer: Partitions | None = None
        """What the member shall have, when the user has not taken it yet."""
        self.lost = False
        """Whether this member was fenced: the partitions it owned are lost."""
        self.failure: KafkaError | None = None
        """Why this member cannot be in the group."""
        self.member_id = ""
        self.epoch = -1
        self._owned: Partitions = frozenset()
        self._taking = False
        self._link = link
        self._pool = pool
        self._subscription = subscription
        self._wake_user = wake
        self._loop = asyncio.get_running_loop()
        self._asked_at = self._loop.time()
        self._changed = asyncio.Event()

    @property
    def owned(self) -> Partitions:
        """The partitions the member owns."""
        return self._owned

    def take(self) -> Partitions:
        """What is offered, which the user takes from now on until it settles."""
        assert self.offer is not None
        self._taking = True
        return self.offer

    def settle(self, owned: Partitions) -> None:
        """The user has taken an offer, or noted a loss: this is what it has now."""
        self._taking = False
        if self.lost:
            self.lost = False
        elif self.offer == owned:
            self.offer = None
        self._owned = owned
        self._changed.set()

    def asked(self) -> None:
        """The user asks for records, so it is alive."""
        if self._is_silent():
            self._changed.set()
        self._asked_at = self._loop.time()

    def _is_silent(self) -> bool:
        return self._loop.time() - self._asked_at > self._subscription.rebalance_timeout_ms / 1000

    def _propose(self, wanted: Partitions) -> None:
        self.offer = wanted
        self._wake_user()

    def _lose(self) -> None:
        self.offer = None
        self.lost = self._taking or bool(self._owned)
        self._wake_user()

    def _fail(self, error: KafkaError) -> None:
        self.failure = error
        self._lose()

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until the user has something to say."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    async def _until_asked(self) -> None:
        """A user that takes too long is out of the group until it asks for records again."""
        while self._is_silent() or self.lost:
            await self._changed.wait()
            self._changed.clear()


class ConsumerMembership(BaseMembership):
    """A member by the consumer protocol: heartbeats say what it has, and hear what it shall have."""

    def __init__(
        self,
        link: GroupLink,
        pool: Pool,
        subscription: Subscription,
        wake: Callable[[], None],
        new_id: Callable[[], Uuid],
    ) -> None:
        super().__init__(link, pool, subscription, wake)
        self.member_id = str(new_id())
        self.epoch = JOINING
        self._settled = 0
        """How often there was something to say about what we have."""
        self._said = -1
        """The last of these times that the coordinator knows of."""
        self._whole = True
        self._interval_ms = subscription.heartbeat_interval_ms

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        failed = 0
        while True:
            if self._is_silent():
                await self.leave()
                self._lose()
                await self._until_asked()
                self._rejoin()
            try:
                await self._beat()
            except (FencedMemberEpoch, UnknownMemberId):
                self._rejoin()
                self._lose()
                await self._until_asked()
                continue
            except PASSING:
                failed += 1
                self._whole = True
                await asyncio.sleep(self._pool.retry_delay(failed))
                continue
            except KafkaError as error:
                self._fail(error)
                return
            failed = 0
            if self._said == self._settled or self._taking:
                await self._pause(self._interval_ms / 1000)

    def settle(self, owned: Partitions) -> None:
        """The user has taken an offer, or noted a loss: this is what it has now.

        The coordinator waits to hear of it even if all is as before, when it took back what the user never had.
        """
        super().settle(owned)
        self._settled += 1

    async def leave(self) -> None:
        """Leave the group; a static member keeps its assignment."""
        if self.epoch > JOINING:
            epoch = LEAVING if self._subscription.instance_id is None else LEAVING_SEAT
            request = ConsumerGroupHeartbeatRequest(
                group_id=self._link.group_id,
                member_id=self.member_id,
                member_epoch=epoch,
                instance_id=self._subscription.instance_id,
            )
            self.epoch = JOINING
            await self._link.ask(request, ConsumerGroupHeartbeatResponse, timeout_ms=self._interval_ms)

    def _rejoin(self) -> None:
        self.epoch = JOINING
        self._whole = True
        self._said = -1

    async def _beat(self) -> None:
        settled, request = self._settled, self._heartbeat(joins=self.epoch == JOINING)
        said = request.topic_partitions is not None
        withheld = self.offer if said else None
        if said:
            # Once we say that we have not got what is offered it may be given to somebody else.
            self.offer = None
        answer = await self._link.ask(request, ConsumerGroupHeartbeatResponse, once=True)
        if answer.error_code:
            raise error_for(answer.error_code, answer.error_message)
        self.member_id = answer.member_id or self.member_id
        self.epoch = answer.member_epoch
        self._interval_ms = answer.heartbeat_interval_ms
        if said:
            self._said = settled
            self._whole = False
        if answer.assignment is not None:
            wanted = await named(self._pool, answer.assignment.topic_partitions)
            if wanted != self._owned or self.offer is not None:
                self._propose(wanted)
            elif not said:
                self._settled += 1
        elif withheld is not None:
            self._propose(withheld)

    def _heartbeat(self, *, joins: bool) -> ConsumerGroupHeartbeatRequest:
        """What has changed since the last heartbeat that was answered; everything to a coordinator that may be new.

        While the user takes something nothing is said of what we have.
        """
        wish = self._subscription
        whole = self._whole or joins
        news = (whole or self._said != self._settled) and not self._taking
        said = self._by_id(self._owned) if news else None
        return ConsumerGroupHeartbeatRequest(
            group_id=self._link.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=wish.instance_id,
            rack_id=wish.rack if whole else None,
            rebalance_timeout_ms=wish.rebalance_timeout_ms if whole else -1,
            subscribed_topic_names=list(wish.topics) if whole and wish.pattern is None else None,
            subscribed_topic_regex=wish.pattern if whole else None,
            server_assignor=next(iter(wish.assignors), None) if whole else None,
            topic_partitions=[] if joins else said,
        )

    def _by_id(self, partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
        by_topic: defaultdict[Uuid, list[int]] = defaultdict(list)
        for tp in sorted(partitions):
            topic = self._pool.view.topics.get(tp.topic)
            if topic is not None:  # else it was deleted, and the coordinator knows
                by_topic[topic.id].append(tp.partition)
        return [TopicPartitions(topic_id=id_, partitions=indexes) for id_, indexes in by_topic.items()]


class AssignedTopic(Protocol):
    """Partitions of a topic that a coordinator has assigned."""

    @property
    def topic_id(self) -> Uuid:
        """The topic."""

    @property
    def partitions(self) -> list[int]:
        """Its partitions."""


async def named(pool: Pool, assigned: Sequence[AssignedTopic]) -> Partitions:
    """An assignment by the names of its topics; one that is not known here is asked for."""
    ids = {topic.topic_id for topic in assigned}
    if not ids <= pool.view.names.keys():
        answer = await pool.request(MetadataRequest(topics=None), MetadataResponse)
        await pool.refresh(topic.name for topic in answer.topics if topic.topic_id in ids and topic.name)
    names = pool.view.names
    return frozenset(
        TopicPartition(names[topic.topic_id], index)
        for topic in assigned
        if topic.topic_id in names
        for index in topic.partitions
    )
