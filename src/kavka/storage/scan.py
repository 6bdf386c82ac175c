"""Reading a segment's batches in order, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from kavka.kernels.batches import LOG_OVERHEAD, TRUNCATED, BatchInfo, scan_prefix
from kavka.records.batch import records
from kavka.records.control import parse_txn_marker
from kavka.storage.disk import DiskFile
from kavka.storage.producer_state import EndTransactionMarker

_CHUNK_BYTES = 1 << 20
_LENGTH = Struct(">i")


class BatchScan:
    """Iterates over (position of the chunk, chunk, batches in it) of a file's sound batches from start to end.

    Afterwards `position` is where the sound batches end and `reason` what is wrong there, None if nothing is.
    """

    __slots__ = ("_check_crc", "_chunk_bytes", "_end", "_file", "position", "reason")

    def __init__(
        self, file: DiskFile, start: int, end: int, *, check_crc: bool = False, chunk_bytes: int = _CHUNK_BYTES
    ) -> None:
        self._file = file
        self._end = end
        self._check_crc = check_crc
        self._chunk_bytes = chunk_bytes
        self.position = start
        self.reason: str | None = None

    def __iter__(self) -> Iterator[tuple[int, bytes, list[BatchInfo]]]:
        want = self._chunk_bytes
        while self.position < self._end:
            start = self.position
            asked = min(want, self._end - start)
            chunk = self._file.read_at(start, asked)
            infos, valid, reason = scan_prefix(chunk, 0, -1, self._check_crc)
            want = self._chunk_bytes
            if infos:
                self.position = start + valid
                yield start, chunk, infos
            elif reason == TRUNCATED and len(chunk) == asked:
                want = self._whole_batch(chunk)
                if start + want > self._end or want <= asked:
                    self.reason = TRUNCATED
                    return
            else:
                self.reason = reason or TRUNCATED
                return
            if reason is not None and reason != TRUNCATED:
                self.reason = reason
                return

    @staticmethod
    def _whole_batch(chunk: bytes) -> int:
        """How many bytes the first batch needs, as its header says."""
        if len(chunk) < LOG_OVERHEAD:
            return LOG_OVERHEAD
        length: int = _LENGTH.unpack_from(chunk, 8)[0]
        return length + LOG_OVERHEAD


def read_marker(data: bytes | bytearray | memoryview, batch: BatchInfo) -> EndTransactionMarker | None:
    """The transaction marker of a control batch; None if compaction has emptied it."""
    for record in records(data, batch):
        marker = parse_txn_marker(record)
        return EndTransactionMarker(marker.commit, marker.coordinator_epoch, record.timestamp) if marker else None
    return None
