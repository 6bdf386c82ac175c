from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kavka.kernels.batches import BatchInfo, scan
from kavka.model.types import TopicPartition, Uuid
from kavka.records.batch import Record, records
from kavka.records.builder import BatchBuilder
from kavka.records.control import txn_marker_batch
from kavka.storage.config import LogConfig
from kavka.storage.disk import Disk, RealDisk
from kavka.storage.loader import LoadReport, load_log
from kavka.storage.log import AppendInfo, Log
from kavka.storage.producer_state import AppendOrigin
from kavka.storage.segment import Search, TimestampOffset

TP = TopicPartition("orders", 3)
TOPIC_ID = Uuid(bytes(range(16)))
NOW = 1_700_000_000_000


class Kit:
    """A log in a temporary directory, and short ways to write to it."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self.root = root
        self.disk = disk
        self.path = str(root / "orders-3")
        self.config = LogConfig(segment_bytes=1 << 20)
        self.now = NOW

    def create(self, **config: object) -> Log:
        self.config = replace(self.config, **config)  # type: ignore[arg-type]
        self.log = Log.create(self.disk, self.path, TP, TOPIC_ID, self.config, self.now)
        return self.log

    def load(self, *, clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0) -> LoadReport:
        self.log, report = load_log(
            self.disk,
            self.path,
            TP,
            self.config,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=self.now,
        )
        return report

    def first_at(self, timestamp: int) -> TimestampOffset | None:
        return self.result_of(self.log.search_timestamp(timestamp))

    def newest(self) -> TimestampOffset | None:
        return self.result_of(self.log.search_max_timestamp())

    @staticmethod
    def result_of(search: Search) -> TimestampOffset | None:
        while True:
            try:
                next(search)
            except StopIteration as end:
                return end.value

    def batch(
        self,
        count: int = 1,
        *,
        key: bytes | None = b"k",
        value: bytes | None = b"v",
        timestamp: int = NOW,
        base_offset: int = 0,
        epoch: int = -1,
        pid: int = -1,
        pepoch: int = 0,
        seq: int = 0,
        txn: bool = False,
        codec: int = 0,
    ) -> bytes:
        builder = BatchBuilder(
            base_offset=base_offset,
            leader_epoch=epoch,
            producer_id=pid,
            producer_epoch=pepoch if pid >= 0 else -1,
            base_sequence=seq if pid >= 0 else -1,
            transactional=txn,
            codec=codec,
        )
        for number in range(count):
            builder.append(key, value, timestamp + number)
        return builder.build()

    def append(self, data: bytes | None = None, *, epoch: int = 0, **batch: object) -> AppendInfo:
        data = self.batch(**batch) if data is None else data  # type: ignore[arg-type]
        return self.log.append_as_leader(data, scan(data), epoch, self.now)

    def follow(self, *batches: bytes, leader_epoch: int = 10) -> AppendInfo | None:
        data = b"".join(batches)
        return self.log.append_as_follower(data, scan(data), leader_epoch, self.now)

    def end_txn(self, pid: int, pepoch: int = 0, *, commit: bool, coordinator: int = 0, version: int = 0) -> AppendInfo:
        data = txn_marker_batch(
            commit=commit, producer_id=pid, producer_epoch=pepoch, coordinator_epoch=coordinator, timestamp=self.now
        )
        epoch = max(self.log.epochs.latest, 0)
        return self.log.append_as_leader(data, scan(data), epoch, self.now, AppendOrigin.COORDINATOR, version)

    def batches(self) -> list[BatchInfo]:
        return [info for segment in self.log.segments for info in self.infos(segment.file.path)]

    def infos(self, path: str) -> list[BatchInfo]:
        return scan(Path(path).read_bytes())

    def records(self) -> list[Record]:
        """Everything a consumer that starts at the beginning gets."""
        found: list[Record] = []
        offset = self.log.log_start_offset
        while (piece := self.log.read(offset, 1 << 20, self.log.log_end_offset)) is not None:
            data = piece.file.read_at(piece.position, piece.length)  # type: ignore[attr-defined]
            infos = scan(data)
            found += [record for info in infos for record in records(data, info)]
            offset = infos[-1].last_offset + 1
        return [record for record in found if record.offset >= self.log.log_start_offset]

    def offsets(self) -> list[int]:
        return [record.offset for record in self.records()]

    def names(self) -> set[str]:
        return {path.name for path in Path(self.path).iterdir()}

    def bases(self) -> Sequence[int]:
        return [segment.base_offset for segment in self.log.segments]


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk(max_open=16)


@pytest.fixture
def kit(tmp_path: Path, disk: RealDisk) -> Kit:
    return Kit(tmp_path, disk)
