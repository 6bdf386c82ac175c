"""From the bytes of a fetch to the records a consumer sees: no I/O, one record batch at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from kavka.model.errors import CorruptMessage, MessageTooLarge
from kavka.model.types import TopicPartition
from kavka.records.batch import TRUNCATED, BatchInfo, Header, record_fields, scan_prefix
from kavka.records.control import ControlType, control_type


class ConsumerRecord(NamedTuple):
    """One record as a consumer gets it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class AbortedTransaction(NamedTuple):
    """A producer's transaction that was aborted, and where it began in the partition."""

    producer_id: int
    first_offset: int


_make: Final = partial(tuple.__new__, ConsumerRecord)


class FetchedPartition:
    """What one fetch returned for one partition.

    `next_offset` is where the next fetch begins: after the last whole batch, whether or not the consumer
    may see its records. A batch cut off at the end is left for that fetch.
    """

    __slots__ = ("_aborted", "_batches", "_data", "_fault", "_position", "next_offset", "size", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        position: int,
        data: memoryview,
        *,
        aborted: Sequence[AbortedTransaction] | None = None,
        check_crc: bool = True,
    ) -> None:
        self.topic_partition = topic_partition
        self.size = len(data)
        self._data = data
        self._position = position
        self._aborted = aborted
        self._batches, _, reason = scan_prefix(data, check_crc=check_crc)
        self._fault = reason if reason != TRUNCATED else None
        self.next_offset = self._batches[-1].last_offset + 1 if self._batches else position
        if reason == TRUNCATED and not self._batches:
            raise MessageTooLarge(f"{topic_partition}: the batch at offset {position} is larger than a fetch may be")

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last whole batch."""
        return self._batches[-1].leader_epoch if self._batches else -1

    def batches(self) -> Iterator[tuple[list[ConsumerRecord], int]]:
        """For each batch the records the consumer may see, perhaps none, and the offset after the batch.

        Raises CorruptMessage where the data is damaged, after what comes before.
        """
        hidden = Hidden(self._aborted) if self._aborted is not None else None
        position = self._position
        for info in self._batches:
            after = info.last_offset + 1
            if after <= position:
                continue
            seen: list[ConsumerRecord] = []
            if not info.is_control and not (hidden is not None and hidden.batch(info)):
                seen = self._records(info, position)
            elif info.is_control and hidden is not None:
                hidden.control(info, self._data)
            position = after
            yield seen, after
        if self._fault is not None:
            raise CorruptMessage(f"{self.topic_partition} at offset {position}: {self._fault}")

    def _records(self, info: BatchInfo, position: int) -> list[ConsumerRecord]:
        fields = record_fields(self._data, info)
        if info.base_offset < position:  # a fetch begins with the batch that holds its offset
            fields = [record for record in fields if record[0] >= position]
        return list(map(_make, map(self.topic_partition.__add__, fields)))


class Hidden:
    """Which batches belong to aborted transactions, as the consumer passes over them in order."""

    __slots__ = ("_active", "_ahead")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._ahead = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._active: set[int] = set()

    def batch(self, info: BatchInfo) -> bool:
        """Whether a data batch is part of an aborted transaction."""
        self._pass(info)
        return info.is_transactional and info.producer_id in self._active

    def control(self, info: BatchInfo, data: memoryview) -> None:
        """An abort marker ends its producer's transaction."""
        self._pass(info)
        for _, _, key, _, _ in record_fields(data, info):
            if control_type(key) is ControlType.ABORT:
                self._active.discard(info.producer_id)

    def _pass(self, info: BatchInfo) -> None:
        while self._ahead and self._ahead[0].first_offset <= info.last_offset:
            self._active.add(self._ahead.popleft().producer_id)
