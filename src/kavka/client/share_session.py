"""One share session: what a member fetches from one node, and what it says of the records it got there.

A node takes one request of a session at a time, and each must have the next epoch; a session that the node does not
know any more begins anew, and what was to be said in the old one is lost: the records come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kavka.client.pool import Pool
from kavka.client.view import error_for
from kavka.model.errors import (
    CorruptMessage,
    InvalidShareSessionEpoch,
    KafkaError,
    ShareSessionNotFound,
)
from kavka.model.types import FileSlice, TopicPartition, Uuid
from kavka.protocol.schemas import share_acknowledge as acknowledging
from kavka.protocol.schemas import share_fetch as fetching
from kavka.records.batch import TRUNCATED, Header, record_fields, scan_prefix

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
INITIAL: Final = 0
FINAL: Final = -1
MAX_EPOCH: Final = 2**31 - 1
LOST: Final = (ShareSessionNotFound, InvalidShareSessionEpoch)

Said = dict[TopicPartition, dict[int, int]]
"""By partition and offset: what is said of a record."""
Outcomes = dict[TopicPartition, KafkaError | None]


class ShareRecord(NamedTuple):
    """One record as a member of a share group gets it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    delivery_count: int
    """How often it was delivered, with this time."""


class ShareFetchOptions(NamedTuple):
    """What every fetch asks for."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    acquire_mode: int
    check_crc: bool


class Fetched(NamedTuple):
    """What a fetch has brought."""

    records: list[ShareRecord]
    errors: dict[TopicPartition, KafkaError]
    """Why partitions gave nothing."""
    outcomes: Outcomes
    """What has become of what was said."""


class ShareSession:
    """A session with one node."""

    def __init__(self, pool: Pool, node: int, group: str, member_id: str, options: ShareFetchOptions) -> None:
        self.node = node
        self.lock = asyncio.Lock()
        self.wanted: frozenset[TopicPartition] = frozenset()
        self.said: Said = {}
        """What the next request says."""
        self.lock_ms = 30_000
        """How long a record is this member's, as the node said last."""
        self._known: frozenset[TopicPartition] = frozenset()
        self._epoch = INITIAL
        self._pool = pool
        self._lane = object()
        self._group = group
        self._member_id = member_id
        self._options = options

    def say(self, tp: TopicPartition, offsets: Iterable[int], what: int) -> None:
        """Say something of records with the next request."""
        self.said.setdefault(tp, {}).update(dict.fromkeys(offsets, what))

    async def fetch(self) -> Fetched:
        """Say what is to be said, and get more records; raises KafkaError."""
        async with self.lock:
            if self._epoch == INITIAL and not self.wanted:
                return Fetched([], {}, self._lose(ShareSessionNotFound("the share session has ended")))
            lost = self._lose(ShareSessionNotFound("the share session has ended")) if self._epoch == INITIAL else {}
            said, self.said = self.said, {}
            try:
                fetched = self._read(await self._fetch(said))
            except KafkaError as error:
                self._failed(error)
                return Fetched([], dict.fromkeys(self.wanted, error), dict.fromkeys(said, error))
            return fetched._replace(outcomes={**lost, **fetched.outcomes})

    async def acknowledge(self, *, last: bool = False, renews: Said | None = None) -> Outcomes:
        """Say what is to be said, or that records are to be kept for longer; the last time ends the session."""
        async with self.lock:
            if self._epoch == INITIAL:
                return self._lose(ShareSessionNotFound("the share session has ended"))
            said = renews
            if said is None:
                said, self.said = self.said, {}
            if not said and not last:
                return {}
            try:
                return await self._acknowledge(said, last, renews is not None)
            except KafkaError as error:
                self._failed(error)
                return dict.fromkeys(said, error)

    def close(self) -> None:
        """Hang up: what the member still has is free then."""
        self._pool.hang_up(self._lane)

    # -- requests -----------------------------------------------------------------------------------

    async def _fetch(self, said: Said) -> fetching.ShareFetchResponse:
        options, wanted = self._options, self.wanted
        new = wanted if self._epoch == INITIAL else wanted - self._known
        topics: dict[Uuid, list[fetching.FetchPartition]] = {}
        for tp in dict.fromkeys([*sorted(new), *said]):
            rows = [
                fetching.AcknowledgementBatch(first_offset=first, last_offset=end, acknowledge_types=types)
                for first, end, types in ranges(said.get(tp, {}))
            ]
            row = fetching.FetchPartition(partition_index=tp.partition, acknowledgement_batches=rows)
            topics.setdefault(self._id(tp), []).append(row)
        forgotten: dict[Uuid, list[int]] = {}
        for tp in sorted(self._known - wanted if self._epoch != INITIAL else ()):
            forgotten.setdefault(self._id(tp), []).append(tp.partition)
        request = fetching.ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=options.max_wait_ms,
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            max_records=options.max_records,
            batch_size=options.batch_size,
            share_acquire_mode=options.acquire_mode,
            topics=[fetching.FetchTopic(topic_id=id_, partitions=rows) for id_, rows in topics.items()],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=id_, partitions=indexes) for id_, indexes in forgotten.items()
            ],
        )
        connection = await self._pool.node(self.node, lane=self._lane)
        answer = await connection.request(request, fetching.ShareFetchResponse)
        if answer.error_code:
            raise error_for(answer.error_code, answer.error_message)
        self._known = wanted
        self._next()
        self.lock_ms = answer.acquisition_lock_timeout_ms or self.lock_ms
        return answer

    async def _acknowledge(self, said: Said, last: bool, renews: bool) -> Outcomes:
        topics: dict[Uuid, list[acknowledging.AcknowledgePartition]] = {}
        for tp, offsets in said.items():
            rows = [
                acknowledging.AcknowledgementBatch(first_offset=first, last_offset=end, acknowledge_types=types)
                for first, end, types in ranges(offsets)
            ]
            row = acknowledging.AcknowledgePartition(partition_index=tp.partition, acknowledgement_batches=rows)
            topics.setdefault(self._id(tp), []).append(row)
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=FINAL if last else self._epoch,
            is_renew_ack=renews,
            topics=[acknowledging.AcknowledgeTopic(topic_id=id_, partitions=rows) for id_, rows in topics.items()],
        )
        connection = await self._pool.node(self.node, lane=self._lane)
        answer = await connection.request(request, acknowledging.ShareAcknowledgeResponse)
        if answer.error_code:
            raise error_for(answer.error_code, answer.error_message)
        self._next()
        if last:
            self._epoch = INITIAL
        self.lock_ms = answer.acquisition_lock_timeout_ms or self.lock_ms
        names = self._pool.view.names
        return {
            TopicPartition(names[topic.topic_id], row.partition_index): (
                error_for(row.error_code, row.error_message) if row.error_code else None
            )
            for topic in answer.responses
            if topic.topic_id in names
            for row in topic.partitions
        }

    def _id(self, tp: TopicPartition) -> Uuid:
        return self._pool.view.topics[tp.topic].id

    def _next(self) -> None:
        self._epoch = 1 if self._epoch >= MAX_EPOCH else self._epoch + 1

    def _failed(self, error: KafkaError) -> None:
        """The node does not know the session any more, or it cannot be known whether it does: begin anew."""
        self._epoch = INITIAL
        if not isinstance(error, LOST):
            self._pool.hang_up(self._lane)

    def _lose(self, error: KafkaError) -> Outcomes:
        said, self.said = self.said, {}
        return dict.fromkeys(said, error)

    # -- answers ------------------------------------------------------------------------------------

    def _read(self, answer: fetching.ShareFetchResponse) -> Fetched:
        found = Fetched([], {}, {})
        for topic in answer.responses:
            name = self._pool.view.names.get(topic.topic_id)
            if name is None:
                continue
            for row in topic.partitions:
                tp = TopicPartition(name, row.partition_index)
                if row.error_code:
                    found.errors[tp] = error_for(row.error_code, row.error_message)
                said = row.acknowledge_error_code
                found.outcomes[tp] = error_for(said, row.acknowledge_error_message) if said else None
                if row.acquired_records:
                    found.records.extend(self._records(tp, row))
        return found

    def _records(self, tp: TopicPartition, row: fetching.PartitionData) -> list[ShareRecord]:
        """The records that were acquired; of offsets that have none the next request says so."""
        counts = {
            offset: one.delivery_count
            for one in row.acquired_records
            for offset in range(one.first_offset, one.last_offset + 1)
        }
        assert not isinstance(row.records, FileSlice)  # what was received is in memory
        data = memoryview(row.records or b"")
        batches, _, reason = scan_prefix(data, check_crc=self._options.check_crc)
        if reason not in (None, TRUNCATED):
            raise CorruptMessage(f"{tp}: {reason}")
        found = []
        for batch in batches:
            if batch.is_control:
                continue
            for offset, timestamp, key, value, headers in record_fields(data, batch):
                count = counts.pop(offset, 0)
                if count:
                    found.append(ShareRecord(*tp, offset, timestamp, key, value, headers, count))
        if counts:
            self.say(tp, counts, GAP)
        return found


def ranges(said: Mapping[int, int]) -> list[tuple[int, int, list[int]]]:
    """Neighbouring offsets as one batch: with one type if all are alike, else with one for each."""
    found: list[tuple[int, int, list[int]]] = []
    for offset in sorted(said):
        if found and found[-1][1] + 1 == offset:
            first, _, types = found[-1]
            types.append(said[offset])
            found[-1] = (first, offset, types)
        else:
            found.append((offset, offset, [said[offset]]))
    return [(first, last, types[:1] if len(set(types)) == 1 else types) for first, last, types in found]
