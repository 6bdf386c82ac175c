"""Replaying a shard's log into its machine, in slices, so that the loop is never held.

What cannot be read is passed over with a warning: a record of a kind or version that this version does not know, or
damaged bytes, must not keep the groups beside it from working.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from kavka.coordinator.record import Unknown
from kavka.model.errors import CorruptMessage, KafkaError
from kavka.pacing.turn import Turn
from kavka.records.batch import TRUNCATED, BatchInfo, Record, record_fields, scan_prefix
from kavka.records.control import parse_txn_marker
from kavka.runtime.shard import Port, RecordCodec, StateMachine

logger = logging.getLogger(__name__)

LOOK_EVERY: Final = 32
"""The time is checked once in so many records."""
READ_BYTES: Final = 256 * 1024
WARNINGS: Final = 10
"""So many of a log's bad records are told of one by one."""


@dataclass(slots=True)
class Loaded:
    """What loading found."""

    records: int = 0
    passed_over: int = 0


class Loader:
    """Loads one machine from one partition."""

    def __init__(self, port: Port, machine: StateMachine, codec: RecordCodec) -> None:
        self._port = port
        self._machine = machine
        self._codec = codec
        self._found = Loaded()
        self._turn = Turn()

    async def run(self) -> Loaded:
        """Replay the whole log; raises KafkaError if it cannot be read on."""
        port = self._port
        offset = port.log_start_offset
        while offset < port.log_end_offset:
            data = port.read_own(offset, READ_BYTES)
            if not data:
                break
            offset = await self._replay(data, offset)
        if self._found.passed_over > WARNINGS:
            logger.warning("%s: skipped %d records that cannot be read", port.topic_partition, self._found.passed_over)
        return self._found

    async def _replay(self, data: bytes, offset: int) -> int:
        """Replay the batches that some bytes begin with; the offset to go on at."""
        batches, valid, reason = scan_prefix(data)
        for batch in batches:
            if batch.last_offset >= offset:
                await self._replay_batch(data, batch)
                offset = batch.last_offset + 1
        if reason is None or (reason == TRUNCATED and batches):
            return offset
        return self._after_damage(data, valid, reason)

    def _after_damage(self, data: bytes, position: int, reason: str) -> int:
        """Where to go on behind a damaged batch, if it can at least be seen where it ends."""
        headers, _, _ = scan_prefix(data, position, check_crc=False)
        if not headers:
            raise CorruptMessage(f"{self._port.topic_partition} has bytes that are no batch: {reason}")
        self._pass_over(f"the batch at offset {headers[0].base_offset} is damaged: {reason}")
        return headers[0].last_offset + 1

    async def _replay_batch(self, data: bytes, batch: BatchInfo) -> None:
        try:
            fields = record_fields(data, batch)
        except KafkaError as error:
            self._pass_over(f"the batch at offset {batch.base_offset} cannot be read: {error}")
            return
        for number, each in enumerate(fields):
            if batch.is_control:
                self._end_transaction(Record._make(each), batch)
            else:
                self._replay_record(each, batch.producer_id if batch.is_transactional else -1)
            if number % LOOK_EVERY == 0:
                await self._turn.breathe()

    def _replay_record(self, fields: tuple[Any, ...], producer_id: int) -> None:
        offset, _, key, value, _ = fields
        record = self._codec.decode(key, value)
        if isinstance(record, Unknown):
            self._pass_over(f"{record.reason} at offset {offset}")
            return
        try:
            self._machine.replay(record, offset, producer_id)
        except Exception as error:
            # A record that was read and makes no sense is one record's fault: the others beside it count.
            self._pass_over(f"the record at offset {offset} cannot be taken in: {error!r}")
            return
        self._found.records += 1

    def _end_transaction(self, record: Record, batch: BatchInfo) -> None:
        try:
            marker = parse_txn_marker(record)
        except KafkaError as error:
            self._pass_over(f"a control record at offset {record.offset} cannot be read: {error}")
            return
        if marker is not None:
            self._machine.replay_end_transaction(batch.producer_id, committed=marker.commit)

    def _pass_over(self, what: str) -> None:
        self._found.passed_over += 1
        if self._found.passed_over <= WARNINGS:
            logger.warning("%s: skipping a record: %s", self._port.topic_partition, what)
