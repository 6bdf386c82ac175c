"""What is committed of a log, as all replicas must have it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kavka.quorum.driver import RaftDriver
from kavka.testing.sim.node import SimNode

READ_BYTES: Final = 1 << 20
_HEADER: Final = struct.Struct(">qiibIhi")


class Batch(NamedTuple):
    """A batch as all replicas must have it."""

    base_offset: int
    epoch: int
    crc: int
    last_offset: int


def batches(data: bytes) -> Iterator[Batch]:
    """The whole batches in some bytes of a log."""
    at = 0
    while at + 61 <= len(data):
        base, length, epoch, _, crc, _, delta = _HEADER.unpack_from(data, at)
        if at + 12 + length > len(data):
            return
        yield Batch(base, epoch, crc, base + delta)
        at += 12 + length


class Committed:
    """What is committed of one log, as the first replica that knew has it."""

    def __init__(self) -> None:
        self._truth: dict[int, Batch] = {}
        self._seen: dict[tuple[int, int], int] = {}

    def compare(
        self, node: SimNode, start: int, end: int, read: Callable[[int], bytes], fail: Callable[[str], None]
    ) -> None:
        """Hold what a replica takes for committed against what others do."""
        life = (node.id, node.lives)
        offset = max(start, self._seen.get(life, 0))
        while offset < end:
            data = read(offset)
            before = offset
            for batch in batches(data):
                if batch.last_offset >= end:
                    break
                if batch.last_offset >= offset:
                    known = self._truth.setdefault(batch.base_offset, batch)
                    if known != batch:
                        fail(f"node {node.id} has {batch} committed, and another node {known}")
                    offset = batch.last_offset + 1
            if offset == before:
                break
        self._seen[life] = offset


class CommittedMetadata(Committed):
    """The metadata log, which every node has a replica of."""

    def look(self, node: SimNode, quorum: RaftDriver, fail: Callable[[str], None]) -> None:
        """Hold what a node takes for committed against what others do."""
        log = quorum.log

        def read(offset: int) -> bytes:
            part = log.read(offset, READ_BYTES)
            return part.file.read_at(part.position, part.length) if part is not None else b""

        if quorum.high_watermark > 0 and log.failed is None:
            self.compare(node, log.start_offset, min(quorum.high_watermark, log.end_offset), read, fail)
