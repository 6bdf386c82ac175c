"""Being a member of a classic group: join, sync, heartbeat, and assign the partitions as group leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final

from kavka.client.assignors import ASSIGNORS, COOPERATIVE, Subscriber
from kavka.client.group_link import GroupLink
from kavka.client.membership import PASSING, BaseMembership, Partitions, Subscription
from kavka.client.pool import Pool
from kavka.client.view import error_for
from kavka.model.errors import (
    IllegalGeneration,
    KafkaError,
    MalformedMessage,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from kavka.model.types import TopicPartition
from kavka.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.protocol.schemas.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kavka.protocol.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

NOBODY: Final = ""
NO_GENERATION: Final = -1
SUBSCRIPTION_VERSION: Final = 3
JOIN_MARGIN_MS: Final = 5_000
"""How much later than the rebalance timeout the answer to a JoinGroup may come."""


class ClassicMembership(BaseMembership):
    """A member by the classic protocol; cooperative if the assignor is."""

    def __init__(self, link: GroupLink, pool: Pool, subscription: Subscription, wake: Callable[[], None]) -> None:
        super().__init__(link, pool, subscription, wake)
        unknown = [name for name in subscription.assignors if name not in ASSIGNORS]
        if unknown:
            raise ValueError(f"the assignors of classic groups are {', '.join(ASSIGNORS)}, not {', '.join(unknown)}")
        self._assignors = subscription.assignors or ("range", "cooperative-sticky")
        self._cooperative = all(name in COOPERATIVE for name in self._assignors)
        self._previous: Partitions = frozenset()
        self._counts: dict[str, int] = {}

    async def run(self) -> None:
        """Join, and rejoin at every rebalance, until cancelled."""
        attempt = 0
        while True:
            try:
                await self._gather()
                attempt = 0
                await self._stay()
            except (RebalanceInProgress, MemberIdRequired):
                attempt = 0
            except (UnknownMemberId, IllegalGeneration) as error:
                if isinstance(error, UnknownMemberId):
                    self.member_id = NOBODY
                self.epoch = NO_GENERATION
                self._lose()
                await self._until_asked()
            except PASSING:
                attempt += 1
                await asyncio.sleep(self._pool.retry_delay(attempt))
            except KafkaError as error:
                self._fail(error)
                return

    async def leave(self) -> None:
        """Leave the group; a static member keeps its assignment."""
        if self.member_id and self._subscription.instance_id is None:
            request = LeaveGroupRequest(
                group_id=self._link.group_id, members=[MemberIdentity(member_id=self.member_id)]
            )
            self.member_id, self.epoch = NOBODY, NO_GENERATION
            await self._link.ask(request, LeaveGroupResponse, timeout_ms=self._subscription.heartbeat_interval_ms)

    # -- one generation -------------------------------------------------------------------------------

    async def _gather(self) -> None:
        """Join and sync, and have the user take the assignment."""
        if not self._cooperative and self._owned:
            await self._hand_over(frozenset())
        joined = await self._join()
        self.member_id, self.epoch = joined.member_id, joined.generation_id
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        given = await self._share_out(joined.protocol_name or "", joined.members) if leads else []
        wanted = await self._sync(joined, given)
        self._previous = wanted
        gives_back = bool(self._owned - wanted)
        await self._hand_over(wanted)
        if self._cooperative and gives_back:
            raise RebalanceInProgress("what was given back is to be shared out")

    async def _join(self) -> JoinGroupResponse:
        for _ in count():
            wish = self._subscription
            request = JoinGroupRequest(
                group_id=self._link.group_id,
                session_timeout_ms=wish.session_timeout_ms,
                rebalance_timeout_ms=wish.rebalance_timeout_ms,
                member_id=self.member_id,
                group_instance_id=wish.instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=name, metadata=self._embedded()) for name in self._assignors],
            )
            answer = await self._link.ask(
                request, JoinGroupResponse, answer_ms=wish.rebalance_timeout_ms + JOIN_MARGIN_MS
            )
            if answer.error_code != MemberIdRequired.code:
                if answer.error_code:
                    raise error_for(answer.error_code)
                return answer
            self.member_id = answer.member_id  # KIP-394: the same again, with the id
        raise AssertionError("unreachable")

    def _embedded(self) -> bytes:
        owned = self._owned if self._cooperative else self._previous
        by_topic: dict[str, list[int]] = {}
        for tp in sorted(owned):
            by_topic.setdefault(tp.topic, []).append(tp.partition)
        subscription = ConsumerProtocolSubscription(
            topics=sorted(self._subscription.topics),
            owned_partitions=[
                OwnedPartitions(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()
            ],
            generation_id=self.epoch,
            rack_id=self._subscription.rack,
        )
        return write_subscription(subscription, SUBSCRIPTION_VERSION)

    async def _share_out(
        self, assignor: str, members: list[JoinGroupResponseMember]
    ) -> list[SyncGroupRequestAssignment]:
        """The assignments of all members, which their leader works out."""
        subscribers = {}
        for member in members:
            said = read_subscription(member.metadata)
            owned = frozenset(
                TopicPartition(topic.topic, index) for topic in said.owned_partitions for index in topic.partitions
            )
            subscribers[member.member_id] = Subscriber(frozenset(said.topics), owned, said.generation_id)
        wanted = {topic for member in subscribers.values() for topic in member.topics}
        self._counts = await self._count_partitions(wanted)
        assign = ASSIGNORS.get(assignor)
        if assign is None:
            raise MalformedMessage(f"the group has chosen {assignor}, which this member did not offer")
        found = assign(subscribers, self._counts)
        return [
            SyncGroupRequestAssignment(member_id=id_, assignment=write_assignment(by_topic(partitions), 1))
            for id_, partitions in found.items()
        ]

    async def _count_partitions(self, topics: set[str]) -> dict[str, int]:
        view = await self._pool.refresh(topics)
        known = {topic: view.topics.get(topic) for topic in topics}
        return {topic: len(found.partitions) for topic, found in known.items() if found is not None and not found.error}

    async def _sync(self, joined: JoinGroupResponse, given: list[SyncGroupRequestAssignment]) -> Partitions:
        request = SyncGroupRequest(
            group_id=self._link.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._subscription.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=given,
        )
        answer = await self._link.ask(
            request, SyncGroupResponse, answer_ms=self._subscription.rebalance_timeout_ms + JOIN_MARGIN_MS
        )
        if answer.error_code:
            raise error_for(answer.error_code)
        if not answer.assignment:
            return frozenset()
        assigned = read_assignment(answer.assignment).assigned_partitions
        await self._pool.refresh(topic.topic for topic in assigned)
        return frozenset(TopicPartition(topic.topic, index) for topic in assigned for index in topic.partitions)

    # -- between rebalances -----------------------------------------------------------------------------

    async def _hand_over(self, wanted: Partitions) -> None:
        """Have the user take what it shall have; the group hears of us meanwhile."""
        if wanted == self._owned:
            self.offer = None
            return
        self._propose(wanted)
        while self.offer is not None:
            await self._pause(self._subscription.heartbeat_interval_ms / 1000)
            if self.offer is not None and self.epoch != NO_GENERATION:
                await self._beat(while_joining=True)

    async def _stay(self) -> None:
        """Send heartbeats until there is a reason to join again."""
        while True:
            await self._pause(self._subscription.heartbeat_interval_ms / 1000)
            if self._is_silent():
                await self.leave()
                raise UnknownMemberId("the user has not asked for records for too long")
            await self._beat()
            if self._counts and self._pool.stale and await self._count_partitions(set(self._counts)) != self._counts:
                raise RebalanceInProgress("topics have changed")

    async def _beat(self, *, while_joining: bool = False) -> None:
        request = HeartbeatRequest(
            group_id=self._link.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self._subscription.instance_id,
        )
        code = (await self._link.ask(request, HeartbeatResponse)).error_code
        if code and not (while_joining and code == RebalanceInProgress.code):
            raise error_for(code)


def by_topic(partitions: set[TopicPartition]) -> dict[str, list[int]]:
    """Partitions by the names of their topics."""
    found: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        found.setdefault(tp.topic, []).append(tp.partition)
    return found
