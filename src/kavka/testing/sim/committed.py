"""The logs of all replicas, as they must be: without holes, producers in their order, and the same where committed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kavka.model.errors import KafkaStorageError
from kavka.quorum.driver import RaftDriver
from kavka.testing.sim.node import SimNode

READ_BYTES: Final = 1 << 20
MAX_SEQUENCE: Final = 2**31 - 1
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CONTROL: Final = 0x20


class LoggedBatch(NamedTuple):
    """A batch as all replicas must have it."""

    base_offset: int
    epoch: int
    crc: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_control: bool


def batches(data: bytes) -> Iterator[LoggedBatch]:
    """The whole batches in some bytes of a log."""
    at = 0
    while at + 61 <= len(data):
        base, length, epoch, _, crc, attributes, delta, _, _, producer_id, producer_epoch, sequence, _ = (
            _HEADER.unpack_from(data, at)
        )
        if at + 12 + length > len(data):
            return
        is_control = bool(attributes & _CONTROL)
        yield LoggedBatch(base, epoch, crc, base + delta, producer_id, producer_epoch, sequence, is_control)
        at += 12 + length


class Sequences:
    """What the producers of one log have written: each batch follows the one before it, and epochs only grow.

    As with Kafka, the first batch that a log has of a producer may have any sequence number: its state may be gone.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}
        """By producer id: its epoch and the last sequence number."""

    def follow(self, batch: LoggedBatch) -> str:
        """Take a batch into account; what is wrong with it, if anything."""
        if batch.producer_id < 0 or batch.is_control:
            return ""
        known = self._last.get(batch.producer_id)
        last = batch.base_sequence + batch.last_offset - batch.base_offset
        self._last[batch.producer_id] = (
            batch.producer_epoch,
            last if last <= MAX_SEQUENCE else last - MAX_SEQUENCE - 1,
        )
        if known is None:
            return ""
        epoch, sequence = known
        if batch.producer_epoch < epoch:
            return f"{batch} is of an older producer epoch than the one before it, {epoch}"
        expected = 0 if batch.producer_epoch > epoch or sequence == MAX_SEQUENCE else sequence + 1
        return "" if batch.base_sequence == expected else f"{batch} does not follow sequence number {sequence}"


class Committed:
    """The committed part of one log, as the first replica that knew has it."""

    def __init__(self) -> None:
        self._truth: dict[int, LoggedBatch] = {}
        self._seen: dict[tuple[int, int], int] = {}
        self._sequences = Sequences()
        self.end = 0
        """Where the part ends that is known to be committed without a gap."""
        self.newest_epoch = -1
        """The newest leader epoch that any replica knows."""

    def compare(
        self, node: SimNode, start: int, end: int, read: Callable[[int], bytes], fail: Callable[[str], None]
    ) -> None:
        """Compare a replica, up to its high watermark, with the others."""
        life = (node.id, node.lives)
        offset = max(start, self._seen.get(life, 0))
        while offset < end:
            before = offset
            for batch in batches(read(offset)):
                if batch.last_offset < offset:
                    continue
                if batch.base_offset > offset:
                    fail(f"node {node.id} has a hole from {offset} to {batch.base_offset}")
                if batch.last_offset >= end:
                    break
                self._take(node, batch, fail)
                offset = batch.last_offset + 1
            if offset == before:
                break
        self._seen[life] = offset

    def _take(self, node: SimNode, batch: LoggedBatch, fail: Callable[[str], None]) -> None:
        known = self._truth.setdefault(batch.base_offset, batch)
        if known != batch:
            fail(f"node {node.id} has {batch} committed, and another node {known}")
        if batch.base_offset == self.end:
            self.end = batch.last_offset + 1
            if wrong := self._sequences.follow(batch):
                fail(wrong)


class CommittedMetadata(Committed):
    """The metadata log, which every node has a replica of."""

    def compare_metadata(self, node: SimNode, quorum: RaftDriver, fail: Callable[[str], None]) -> None:
        """Compare a node's metadata log, up to its high watermark, with the others."""
        log = quorum.log

        def read(offset: int) -> bytes:
            part = log.read(offset, READ_BYTES)
            return part.file.read_at(part.position, part.length) if part is not None else b""

        try:
            failed = log.failed
        except KafkaStorageError:
            return  # a node that stops has closed it
        if quorum.high_watermark > 0 and failed is None:
            self.compare(node, log.start_offset, min(quorum.high_watermark, log.end_offset), read, fail)
