"""One share session: what a member fetches from one node, and how it acknowledges the records it got there.

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
from kavka.records.batch import BatchInfo, Header, record_fields, scan, scan_prefix

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
INITIAL: Final = 0
FINAL: Final = -1
MAX_EPOCH: Final = 2**31 - 1
LOST: Final = (ShareSessionNotFound, InvalidShareSessionEpoch)

Said = dict[TopicPartition, dict[int, int]]
"""By partition and offset: the acknowledgement of a record."""
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
    """Its delivery count, this delivery included."""


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
    """By partition: the error of the fetch."""
    outcomes: Outcomes
    """By partition: the outcome of its acknowledgements."""


class ShareSession:
    """A session with one node."""

    def __init__(self, pool: Pool, node: int, group: str, member_id: str, options: ShareFetchOptions) -> None:
        self.node = node
        self.lock = asyncio.Lock()
        self.wanted: frozenset[TopicPartition] = frozenset()
        self.said: Said = {}
        """The acknowledgements that the next request carries."""
        self._delays: dict[TopicPartition, dict[int, int]] = {}
        """How long those of them that are released shall wait, where that was said."""
        self.lock_ms = 30_000
        """The duration of an acquisition lock, as the node said last."""
        self._known: dict[TopicPartition, Uuid] = {}
        """The partitions of the session, and the ids that their topics had."""
        self._names: dict[Uuid, str] = {}
        self._epoch = INITIAL
        self._pool = pool
        self._lane = object()
        self._group = group
        self._member_id = member_id
        self._options = options

    def say(self, tp: TopicPartition, offsets: Iterable[int], what: int, delay_ms: int = -1) -> None:
        """Acknowledge records with the next request; those that are released may be told how long to wait."""
        for offset in offsets:
            self.said.setdefault(tp, {})[offset] = what
            if delay_ms >= 0:
                self._delays.setdefault(tp, {})[offset] = delay_ms

    async def fetch(self) -> Fetched:
        """Send the acknowledgements, and fetch more records; raises KafkaError."""
        async with self.lock:
            if self._epoch == INITIAL and not self.wanted:
                return Fetched([], {}, self._lose(ShareSessionNotFound("the share session has ended")))
            lost = self._lose(ShareSessionNotFound("the share session has ended")) if self._epoch == INITIAL else {}
            said, self.said = self.said, {}
            try:
                fetched = self._read(await self._fetch(said))
            except KafkaError as error:
                self._failed(error)
                return Fetched([], dict.fromkeys(self.wanted, error), {**lost, **dict.fromkeys(said, error)})
            return fetched._replace(outcomes={**lost, **fetched.outcomes})

    async def acknowledge(self, *, last: bool = False, renews: Said | None = None) -> Outcomes:
        """Send the acknowledgements, renewals among them; the last time ends the session."""
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
        """Close the connection: records that are still acquired are released then."""
        self._pool.hang_up(self._lane)

    # -- requests -----------------------------------------------------------------------------------

    async def _fetch(self, said: Said) -> fetching.ShareFetchResponse:
        options, known = self._options, self._known if self._epoch != INITIAL else {}
        wanted = {tp: self._id(tp) for tp in self.wanted}
        ids = {**wanted, **{tp: known.get(tp) or self._id(tp) for tp in said}}
        topics: dict[Uuid, list[fetching.FetchPartition]] = {}
        for tp in dict.fromkeys([*sorted(tp for tp, id_ in wanted.items() if known.get(tp) != id_), *said]):
            rows = [
                fetching.AcknowledgementBatch(
                    first_offset=first, last_offset=end, acknowledge_types=types, redelivery_delay_ms=delay_ms
                )
                for first, end, types, delay_ms in self._ranges(tp, said.get(tp, {}))
            ]
            row = fetching.FetchPartition(partition_index=tp.partition, acknowledgement_batches=rows)
            topics.setdefault(ids[tp], []).append(row)
        forgotten: dict[Uuid, list[int]] = {}
        for tp in sorted(known):
            if wanted.get(tp) != known[tp]:
                forgotten.setdefault(known[tp], []).append(tp.partition)
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
        self._names |= {id_: tp.topic for tp, id_ in ids.items()}
        self._next()
        self.lock_ms = answer.acquisition_lock_timeout_ms or self.lock_ms
        return answer

    async def _acknowledge(self, said: Said, last: bool, renews: bool) -> Outcomes:
        topics: dict[Uuid, list[acknowledging.AcknowledgePartition]] = {}
        for tp, offsets in said.items():
            rows = [
                acknowledging.AcknowledgementBatch(
                    first_offset=first, last_offset=end, acknowledge_types=types, redelivery_delay_ms=delay_ms
                )
                for first, end, types, delay_ms in self._ranges(tp, offsets)
            ]
            row = acknowledging.AcknowledgePartition(partition_index=tp.partition, acknowledgement_batches=rows)
            topics.setdefault(self._known.get(tp) or self._id(tp), []).append(row)
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
        names = self._names
        return {
            TopicPartition(names[topic.topic_id], row.partition_index): (
                error_for(row.error_code, row.error_message) if row.error_code else None
            )
            for topic in answer.responses
            if topic.topic_id in names
            for row in topic.partitions
        }

    def _ranges(self, tp: TopicPartition, said: Mapping[int, int]) -> list[tuple[int, int, list[int], int]]:
        delays = self._delays.get(tp, {})
        return ranges(said, {offset: delays.pop(offset) for offset in said if offset in delays})

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
        self._delays.clear()
        return dict.fromkeys(said, error)

    # -- answers ------------------------------------------------------------------------------------

    def _read(self, answer: fetching.ShareFetchResponse) -> Fetched:
        found = Fetched([], {}, {})
        for topic in answer.responses:
            name = self._names.get(topic.topic_id)
            if name is None:
                continue
            for row in topic.partitions:
                tp = TopicPartition(name, row.partition_index)
                if row.error_code:
                    found.errors[tp] = error_for(row.error_code, row.error_message)
                said = row.acknowledge_error_code
                found.outcomes[tp] = error_for(said, row.acknowledge_error_message) if said else None
                if row.acquired_records:
                    self._take(found, tp, row)
        return found

    def _take(self, found: Fetched, tp: TopicPartition, row: fetching.PartitionData) -> None:
        """The records that were acquired; offsets without one are acknowledged as gaps by the next request.

        As Kafka's client does it, records of a damaged batch are rejected. Where a batch cannot even be told from the
        next one, what is left is released: it is not delivered for ever, because deliveries are counted.
        """
        counts = {
            offset: acquired.delivery_count
            for acquired in row.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        }
        assert not isinstance(row.records, FileSlice)  # what was received is in memory
        data = memoryview(row.records or b"")
        batches, _, cut = scan_prefix(data, check_crc=False)
        for batch in batches:
            try:
                fields = self._fields(data, batch)
            except KafkaError as error:
                found.errors[tp] = CorruptMessage(f"{tp} at offset {batch.base_offset}: {error}")
                bad = [offset for offset in counts if batch.base_offset <= offset <= batch.last_offset]
                self.say(tp, bad, REJECT)
                for offset in bad:
                    del counts[offset]
                continue
            for offset, timestamp, key, value, headers in fields:
                count = counts.pop(offset, 0)
                if count:
                    found.records.append(ShareRecord(*tp, offset, timestamp, key, value, headers, count))
        if cut is not None:
            found.errors[tp] = CorruptMessage(f"{tp}: {cut}")
        if counts:
            self.say(tp, counts, GAP if cut is None else RELEASE)

    def _fields(
        self, data: memoryview, batch: BatchInfo
    ) -> list[tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]]:
        """The records of a batch; raises KafkaError if it is damaged."""
        if self._options.check_crc:
            scan(data, batch.position, batch.position + batch.size)
        return [] if batch.is_control else record_fields(data, batch)


def ranges(said: Mapping[int, int], delays: Mapping[int, int]) -> list[tuple[int, int, list[int], int]]:
    """Neighbouring offsets with one delay as one batch: with one type if all are alike, else with one for each."""
    found: list[tuple[int, int, list[int], int]] = []
    for offset in sorted(said):
        delay_ms = delays.get(offset, -1)
        if found and found[-1][1] + 1 == offset and found[-1][3] == delay_ms:
            first, _, types, _ = found[-1]
            types.append(said[offset])
            found[-1] = (first, offset, types, delay_ms)
        else:
            found.append((offset, offset, [said[offset]], delay_ms))
    return [(first, last, types[:1] if len(set(types)) == 1 else types, delay) for first, last, types, delay in found]
