"""The share partitions of the partitions that this node leads, and the sessions of those who fetch from them.

Share partitions are loaded when they are first asked for, and dropped when another node becomes the leader, when
their state belongs to another, or when their group has no session here any more. What a session acquired is released
when its connection ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kavka.coordinator.share.settings import ShareGroupSettings, ShareSettings
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.features import SHARE_VERSION
from kavka.metadata.image import ConfigResource, ResourceType
from kavka.metadata.image.metadata import MetadataImage
from kavka.model.clock import Clock
from kavka.model.errors import KafkaError, NotLeaderOrFollower, UnknownTopicOrPartition
from kavka.model.settings.values import Values
from kavka.model.share import SharePartitionKey
from kavka.replica.manager import ReplicaManager
from kavka.replica.waiting import Purgatory
from kavka.runtime.dead_letters import DeadLetters
from kavka.runtime.led_share import LedShare, LedShares, ShareCounts
from kavka.runtime.share_fetching import FetchedShare, ShareFetchAttempt, ShareFetchLimits
from kavka.runtime.share_interest import ShareInterest, Where
from kavka.runtime.share_persister import SharePersister
from kavka.runtime.timers import Timers
from kavka.share.partition import Acknowledgement
from kavka.share.session import SessionKey, ShareSession, ShareSessions

Said = Mapping[Where, Sequence[Acknowledgement]]


class LeaderHost(NamedTuple):
    """The node of a share leader, as far as it needs to know it."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers
    replicas: ReplicaManager
    values: Values


class ShareLeader:
    """Serves ShareFetch and ShareAcknowledge."""

    def __init__(self, host: LeaderHost, persister: SharePersister, dead_letters: DeadLetters) -> None:
        self._replicas = host.replicas
        self._clock = host.clock
        self._loop = host.loop
        self._purgatory = Purgatory(host.loop)
        self._settings = ShareSettings(host.values)
        self._image: MetadataImage = host.replicas.image
        self._moment = object()
        """Another one whenever metadata or settings are others."""
        self._settings_of: dict[str, ShareGroupSettings] = {}
        """What groups that have settings of their own go by at this moment."""
        self._led: dict[SharePartitionKey, LedShare] = {}
        self._finishing: dict[SharePartitionKey, LedShare] = {}
        """Those that are dropped, and still write."""
        self._parked: dict[int, set[ShareFetchAttempt]] = {}
        self._interests: dict[SessionKey, ShareInterest] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._early: list[Coroutine[Any, Any, None]] = []
        self.sessions: ShareSessions[Where] = ShareSessions()
        self.counts = ShareCounts()
        self._around = LedShares(
            host.clock,
            host.timers,
            persister,
            self.settings_of,
            self._spawn,
            self._dropped,
            self.counts,
            dead_letters,
        )

    # -- the node's life ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Load and write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            early, self._early = self._early, []
            for work in early:
                tasks.create_task(work)
            await self._loop.create_future()  # for ever

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        tasks = self._tasks
        if tasks is None:
            self._early.append(work)
        else:
            try:
                tasks.create_task(work)
            except RuntimeError:
                work.close()  # the node stops: what is not written is released by whoever leads next

    def configure(self, values: Values) -> None:
        """Go by other settings of the node."""
        self._settings = ShareSettings(values)
        self._begin_moment()

    def start(self, image: MetadataImage) -> None:
        """Go by an image of the metadata."""
        self._image = image
        self._begin_moment()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have: drop what is not led any more."""
        self._image = image
        self._begin_moment()
        if not self._led:
            return
        changed = {*delta.deleted_topics, *delta.changed_partitions}
        off = image.features.levels.get(SHARE_VERSION, 0) < 1
        for led in list(self._led.values()):
            if off or (led.key.topic_id in changed and not led.is_led):
                led.drop(NotLeaderOrFollower(f"the leader of {led.partition.topic_partition} is another node now"))
                yield
        if off:
            self.sessions.clear()
            for interest in self._interests.values():
                interest.close()
            self._interests.clear()

    def _begin_moment(self) -> None:
        self._moment = object()
        self._settings_of = {}

    def close(self) -> None:
        """Serve nobody any more."""
        for led in list(self._led.values()):
            led.drop(NotLeaderOrFollower("the node stops"))
        for work in self._early:
            work.close()
        self._early.clear()

    @property
    def session_limit(self) -> int:
        """How many sessions there may be on this node."""
        return self._settings.max_share_sessions

    def settings_of(self, group_id: str) -> ShareGroupSettings:
        """A group's settings, as they are now."""
        texts = self._image.configs.of(ConfigResource(ResourceType.GROUP, group_id))
        if not texts:
            return self._settings.of_group(texts)
        found = self._settings_of.get(group_id)
        if found is None:
            found = self._settings_of[group_id] = self._settings.of_group(texts)
        return found

    # -- share partitions -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[LedShare]:
        return iter(list(self._led.values()))

    def _find(self, key: SharePartitionKey) -> LedShare:
        """A share partition, which begins to be loaded if it was not; raises KafkaError."""
        led = self._led.get(key)
        if led is not None:
            if led.is_led:
                led.retiring = False
                return led
            led.drop(NotLeaderOrFollower(f"the leader of {led.partition.topic_partition} is another node now"))
        partition = self._replicas.find(key.topic_id, key.partition)
        partition.require_leader()
        led = self._led[key] = LedShare(key, partition, self._around, self._finishing.pop(key, None))
        return led

    def _dropped(self, led: LedShare) -> None:
        if self._led.get(led.key) is led:
            del self._led[led.key]
        if led.finished.is_set():
            self._finishing.pop(led.key, None)
        else:
            self._finishing[led.key] = led

    # -- fetching -------------------------------------------------------------------------------------

    def interest(
        self, session: ShareSession[Where], named: Iterable[Where], forgotten: Iterable[Where], epoch: int
    ) -> ShareInterest:
        """What a request of a session is to look at."""
        found = self._interests.get(session.key)
        if found is None or found.session is not session:
            if found is not None:
                found.close()
            found = self._interests[session.key] = ShareInterest(session)
        found.begin(self._moment, named, forgotten, epoch)
        return found

    def fetch(
        self,
        connection: int,
        interest: ShareInterest,
        refused: Collection[Where],
        limits: ShareFetchLimits,
        max_wait_ms: int,
    ) -> Awaitable[Mapping[Where, FetchedShare]]:
        """Acquire records, now or when there are some; what a connection that has closed waited for is nothing."""
        answer: asyncio.Future[Mapping[Where, FetchedShare]] = self._loop.create_future()
        if limits.max_records <= 0 or limits.max_bytes <= 0:
            answer.set_result({})
            return answer
        attempt = ShareFetchAttempt(self._finder(), interest, refused, limits, self._clock.monotonic_ms)
        parked = self._parked.setdefault(connection, set())
        parked.add(attempt)

        def look(last: bool) -> bool:
            try:
                if attempt in parked and not attempt.look(last):
                    return False
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
            parked.discard(attempt)
            if not parked and self._parked.get(connection) is parked:
                del self._parked[connection]
            attempt.leave()
            interest.wake = None
            if not answer.done():
                answer.set_result(attempt.answer)
            return True

        if not look(last=max_wait_ms <= 0):
            attempt.wake = interest.wake = self._purgatory.park(max_wait_ms, look).wake
        return answer

    def _finder(self) -> Callable[[SharePartitionKey], LedShare]:
        """Finds share partitions for one fetch: one that failed while it waited stays failed for it."""
        seen: dict[SharePartitionKey, LedShare] = {}

        def find(key: SharePartitionKey) -> LedShare:
            led = seen.get(key)
            if led is None:
                led = seen[key] = self._find(key)
            if led.failure is not None:
                raise led.failure
            if not led.is_led:
                led.drop(NotLeaderOrFollower(f"the leader of {led.partition.topic_partition} is another node now"))
                raise NotLeaderOrFollower(f"the leader of {led.partition.topic_partition} is another node now")
            return led

        return find

    # -- giving back ----------------------------------------------------------------------------------

    def acknowledge(self, key: SessionKey, said: Said) -> Mapping[Where, asyncio.Future[KafkaError | None]]:
        """Take a member's word on records of partitions: each is answered when it is written, all of it or nothing."""
        waiting: dict[Where, asyncio.Future[KafkaError | None]] = {}
        for where, acknowledgements in said.items():
            done: asyncio.Future[KafkaError | None] = self._loop.create_future()
            waiting[where] = done
            led = self._led.get(SharePartitionKey(key.group_id, *where))
            if led is None:
                done.set_result(UnknownTopicOrPartition("the group has acquired no records of it on this node"))
            else:
                led.acknowledge(key.member_id, acknowledgements, settling(done))
        return waiting

    def end_session(self, key: SessionKey) -> None:
        """A member is done: take back what it has."""
        self._uninterested(key)
        self._release(key, self.sessions.remove(key))

    def _uninterested(self, key: SessionKey) -> None:
        interest = self._interests.pop(key, None)
        if interest is not None:
            interest.close()

    def disconnected(self, connection: int) -> None:
        """A connection has closed: its session ends, nobody waits on it, and what it held is released."""
        parked = self._parked.pop(connection, set())
        abandoned = list(parked)
        parked.clear()  # those who look now acquire nothing
        for attempt in abandoned:
            attempt.news()
        closed = self.sessions.disconnected(connection)
        if closed.released is not None:
            self._uninterested(closed.released)
            self._release(closed.released, closed.partitions)
        if closed.empty_group is not None:
            self._forget_group(closed.empty_group)

    def _release(self, key: SessionKey, partitions: Iterable[Where]) -> None:
        for where in partitions:
            led = self._led.get(SharePartitionKey(key.group_id, *where))
            if led is not None:
                led.release(key.member_id)

    def _forget_group(self, group_id: str) -> None:
        """Nobody of a group is here any more: what was released is written first, and then nothing is kept."""
        for led in list(self._led.values()):
            if led.key.group_id == group_id:
                led.retire()


def settling(done: asyncio.Future[KafkaError | None]) -> Callable[[KafkaError | None], None]:
    """How a future is told."""

    def settle(error: KafkaError | None) -> None:
        if not done.done():
            done.set_result(error)

    return settle
