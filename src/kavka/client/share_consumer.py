"""The share consumer (KIP-932): takes records from topics as from a queue, together with the others of its group."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Final, Literal, Self

from kavka.client.background import Background
from kavka.client.group_link import GroupLink
from kavka.client.pool import Pool
from kavka.client.share_membership import ShareMembership
from kavka.client.share_session import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Outcomes,
    Said,
    ShareFetchOptions,
    ShareRecord,
    ShareSession,
)
from kavka.model.errors import CorruptMessage, GroupAuthorizationFailed, KafkaError, TopicAuthorizationFailed
from kavka.model.types import TopicPartition, Uuid

GOODBYE_SECONDS: Final = 5.0
NO_PARTITIONS_SECONDS: Final = 0.2
NOTHING_TO_RENEW_SECONDS: Final = 0.2
TOLD: Final = (CorruptMessage, GroupAuthorizationFailed, TopicAuthorizationFailed)
"""Errors of a fetch that `read` raises, once each; after the others it is tried again."""

Acknowledgement = Literal["accept", "release", "reject"]
TYPES: Final[Mapping[str, int]] = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT}


class ShareConsumer:
    """Takes records from topics as a member of a share group.

    ```python
    async with ShareConsumer("127.0.0.1:9092", group="workers", topics=["jobs"]) as consumer:
        async for record in consumer:
            await do(record)
    ```

    A record is this member's for as long as the group's lock lasts (30 seconds unless configured), and is delivered
    again to somebody unless it is accepted by then. Implicitly, asking for the next record accepts the one before, and
    leaving the block in order accepts the last one; an exception that ends the block releases it. With
    `acknowledgement="explicit"` each record is accepted, released or rejected by calling so; what is not said by the
    end of the block is released. `renew=True` keeps locking records that were given out until they are acknowledged.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | Pool,
        *,
        group: str,
        topics: Iterable[str],
        acknowledgement: Literal["implicit", "explicit"] = "implicit",
        renew: bool = False,
        max_records: int = 500,
        strict_limit: bool = False,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 52_428_800,
        check_crc: bool = True,
        rack: str | None = None,
        client_id: str = "kavka-share-consumer",
    ) -> None:
        if isinstance(topics, str):
            raise TypeError(f"topics are a list of names: topics=[{topics!r}]")
        self._topics = tuple(dict.fromkeys(topics))
        if not group or not self._topics:
            raise ValueError("a member of a share group has a group and topics")
        if acknowledgement not in ("implicit", "explicit"):
            raise ValueError(f"acknowledgement is 'implicit' or 'explicit', not {acknowledgement!r}")
        self._own_pool = not isinstance(bootstrap, Pool)
        self._pool = bootstrap if isinstance(bootstrap, Pool) else Pool(bootstrap, client_id=client_id)
        self._group = group
        self._explicit = acknowledgement == "explicit"
        self._renew = renew
        self._rack = rack
        self._options = ShareFetchOptions(
            max_wait_ms, min_bytes, max_bytes, max_records, max_records, int(strict_limit), check_crc
        )
        self._background = Background()
        self._sessions: dict[int, ShareSession] = {}
        self._fetching: set[int] = set()
        self._buffer: deque[ShareRecord] = deque()
        self._given: dict[TopicPartition, dict[int, ShareRecord]] = {}
        """Records that were acquired and given out, and are not acknowledged."""
        self._holder: dict[TopicPartition, ShareSession] = {}
        """The session in which a partition was last read."""
        self._failed: dict[TopicPartition, KafkaError] = {}
        self._failure: KafkaError | None = None
        self._news = asyncio.Event()
        self._looking = False
        """Whether it is being waited for partitions that have a leader."""
        self._member: ShareMembership | None = None

    async def __aenter__(self) -> Self:
        if self._own_pool:
            await self._pool.__aenter__()
        await self._pool.refresh(self._topics)
        link = GroupLink(self._pool, self._group, object())
        member_id = str(Uuid(os.urandom(16)))
        self._link = link
        self._member = ShareMembership(link, self._pool, self._topics, member_id, self._rack, self._news.set)
        await self._background.__aenter__()
        self._background.start(self._member.run())
        if self._renew:
            self._background.start(self._renew_forever())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        member = self._joined()
        try:
            await self._background.__aexit__(kind, error, trace)
        finally:
            try:
                with contextlib.suppress(TimeoutError, KafkaError):
                    async with asyncio.timeout(GOODBYE_SECONDS):
                        if kind is None and not self._explicit:
                            self._accept_given()
                        await self._send_all(last=True)
                        await member.leave()
            finally:
                for session in self._sessions.values():
                    session.close()
                self._link.hang_up()
                self._member = None
                if self._own_pool:
                    await self._pool.close()

    async def start(self) -> Self:
        """Join, for whoever has no `async with` block; the same task calls `stop` at the end."""
        return await self.__aenter__()

    async def stop(self) -> None:
        """Leave, as the end in order of an `async with` block does."""
        await self.__aexit__(None, None, None)

    # -- reading ------------------------------------------------------------------------------------

    @property
    def member_id(self) -> str:
        """The member id."""
        return self._joined().member_id

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions assigned to this member; other members may have them too."""
        return sorted(self._joined().assigned)

    async def read(self, wait_ms: int | None = None, *, at_most: int | None = None) -> list[ShareRecord]:
        """The next records, or none when the time is up; without explicit acknowledgement this accepts those before."""
        if not self._explicit:
            self._accept_given()
        loop = asyncio.get_running_loop()
        deadline = None if wait_ms is None else loop.time() + wait_ms / 1000
        while not self._buffer:
            self._raise_failure()
            self._news.clear()
            self._fetch_everywhere()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                break
        count = len(self._buffer) if at_most is None else min(at_most, len(self._buffer))
        records = [self._buffer.popleft() for _ in range(count)]
        for record in records:
            self._given.setdefault(TopicPartition(record.topic, record.partition), {})[record.offset] = record
        return records

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        while True:
            for record in await self.read(at_most=1):
                yield record

    # -- acknowledging --------------------------------------------------------------------------------

    def accept(self, record: ShareRecord) -> None:
        """Acknowledge a record as accepted: it is dealt with."""
        self.acknowledge(record, "accept")

    def release(self, record: ShareRecord, *, delay_ms: int | None = None) -> None:
        """Acknowledge a record as released: it is available to other members again.

        With a delay only after that, as far as the group's `kavka.share.redelivery.delay.max.ms` allows.
        """
        self._say(record, RELEASE, -1 if delay_ms is None else delay_ms)

    def reject(self, record: ShareRecord) -> None:
        """Acknowledge a record as rejected: it is archived, and not delivered again."""
        self.acknowledge(record, "reject")

    def acknowledge(self, record: ShareRecord, how: Acknowledgement) -> None:
        """Acknowledge an acquired record; that is sent with the next request, or by `commit`."""
        self._say(record, TYPES[how])

    def _say(self, record: ShareRecord, what: int, delay_ms: int = -1) -> None:
        tp = TopicPartition(record.topic, record.partition)
        if self._given.get(tp, {}).pop(record.offset, None) is None:
            raise ValueError(f"{tp} at offset {record.offset} was not acquired, or is acknowledged already")
        self._holder[tp].say(tp, [record.offset], what, delay_ms)

    async def renew(self) -> None:
        """Renew the acquisition locks of all records that are not acknowledged yet; raises KafkaError."""
        await self._renew_given()
        self._raise_failed()

    async def commit(self) -> None:
        """Send the acknowledgements and wait until they are written; raises KafkaError if one is refused.

        Without explicit acknowledgement all records that were given out are accepted.
        """
        if not self._explicit:
            self._accept_given()
        await self._send_all()
        self._raise_failed()

    def _accept_given(self) -> None:
        for tp, records in self._given.items():
            self._holder[tp].say(tp, records, ACCEPT)
        self._given.clear()

    async def _send_all(self, *, last: bool = False) -> None:
        for outcomes in await asyncio.gather(*(session.acknowledge(last=last) for session in self._sessions.values())):
            self._note(outcomes)

    async def _renew_given(self) -> None:
        by_session: dict[ShareSession, Said] = {}
        for tp, records in self._given.items():
            if records:
                by_session.setdefault(self._holder[tp], {})[tp] = dict.fromkeys(records, RENEW)
        for session, said in by_session.items():
            self._note(await session.acknowledge(renews=said))

    async def _renew_forever(self) -> None:
        while True:
            if not any(self._given.values()):
                await asyncio.sleep(NOTHING_TO_RENEW_SECONDS)
                continue
            await self._renew_given()
            await asyncio.sleep(min(session.lock_ms for session in self._sessions.values()) / 3000)

    def _note(self, outcomes: Outcomes) -> None:
        self._failed |= {tp: error for tp, error in outcomes.items() if error is not None}

    def _raise_failed(self) -> None:
        failed, self._failed = self._failed, {}
        for tp, error in failed.items():
            raise type(error)(f"{tp}: {error.message or 'acknowledgements were refused'}")

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure or self._joined().failure, None
        if failure is not None:
            raise failure

    # -- fetching -----------------------------------------------------------------------------------

    def _fetch_everywhere(self) -> None:
        """Fetch from every leader of an assigned partition that no fetch is in flight to."""
        wanted: dict[int, set[TopicPartition]] = {}
        assigned, view = self._joined().assigned, self._pool.view
        for tp in assigned:
            leader = view.leader(*tp)
            if leader >= 0:
                wanted.setdefault(leader, set()).add(tp)
        for node in {*wanted, *self._sessions}:
            session = self._sessions.get(node)
            if session is None:
                session = self._sessions[node] = ShareSession(
                    self._pool, node, self._group, self._joined().member_id, self._options
                )
            session.wanted = frozenset(wanted.get(node, ()))
            if node not in self._fetching and (session.wanted or session.said):
                self._fetching.add(node)
                self._background.start(self._fetch(session))
        if (not wanted or view.missing(assigned)) and not self._looking:
            self._looking = True
            self._background.start(self._look_again())

    async def _look_again(self) -> None:
        try:
            await asyncio.sleep(NO_PARTITIONS_SECONDS)
            if self._pool.view.missing(self._joined().assigned):
                await self._refresh()
        finally:
            self._looking = False
            self._news.set()

    async def _fetch(self, session: ShareSession) -> None:
        try:
            fetched = await session.fetch()
            self._note(fetched.outcomes)
            for record in fetched.records:
                self._holder[TopicPartition(record.topic, record.partition)] = session
            self._buffer.extend(fetched.records)
            if fetched.errors:
                told = (error for error in fetched.errors.values() if isinstance(error, TOLD))
                self._failure = next(told, self._failure)
                await asyncio.sleep(self._pool.retry_delay(1))
                await self._refresh()
        except KafkaError as error:
            self._failure = error
        finally:
            self._fetching.discard(session.node)
            self._news.set()

    async def _refresh(self) -> None:
        with contextlib.suppress(KafkaError):  # the next fetch says what is wrong
            await self._pool.refresh(self._topics)

    def _joined(self) -> ShareMembership:
        if self._member is None:
            raise RuntimeError("the share consumer is used in an `async with` block")
        return self._member
