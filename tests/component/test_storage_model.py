"""Any sequence of appends, rolls, cuts and restarts leaves a log that equals a simple model of it."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kavka.kernels.batches import scan, scan_prefix
from kavka.model.types import TopicPartition, Uuid
from kavka.records.batch import records
from kavka.records.builder import BatchBuilder
from kavka.records.control import txn_marker_batch
from kavka.storage.config import LogConfig
from kavka.storage.disk import RealDisk
from kavka.storage.loader import load_log
from kavka.storage.log import AppendOrigin, Log
from kavka.storage.segment import Search, TimestampOffset

TP = TopicPartition("model", 0)
NOW = 1_700_000_000_000


@dataclass
class Batch:
    base: int
    count: int
    epoch: int
    timestamp: int
    pid: int = -1
    seq: int = -1
    txn: bool = False
    marker: bool | None = None  # commit or abort

    @property
    def last(self) -> int:
        return self.base + self.count - 1


@dataclass
class Producer:
    last_sequence: int = -1
    last_offset: int = -1
    txn_first: int = -1


@dataclass
class Model:
    start: int = 0
    end: int = 0
    batches: list[Batch] = field(default_factory=list)

    def offsets(self) -> list[int]:
        return [o for b in self.batches for o in range(b.base, b.last + 1) if o >= self.start]

    def cut(self, start: int, end: int) -> Model:
        """What is left if it is cut at both ends."""
        kept = [batch for batch in self.batches if batch.last < end]
        whole = len(kept) == len(self.batches) or self.batches[len(kept)].base == end
        return Model(start, end if whole else self.batches[len(kept)].base, kept)

    def makes_sense(self) -> bool:
        """Whether every open transaction's first record is there."""
        return all(
            producer.txn_first >= self.start for producer in self.producers()[0].values() if producer.txn_first >= 0
        )

    def producers(self) -> tuple[dict[int, Producer], list[tuple[int, int, int]]]:
        """Producer states and aborted transactions, by reading all batches in order."""
        found: dict[int, Producer] = {}
        aborted = []
        for batch in self.batches:
            if batch.pid < 0:
                continue
            state = found.setdefault(batch.pid, Producer())
            if batch.marker is None:
                state.last_sequence = batch.seq + batch.count - 1
                state.last_offset = batch.last
                if batch.txn and state.txn_first < 0:
                    state.txn_first = batch.base
            else:
                if state.txn_first >= 0 and not batch.marker:
                    aborted.append((batch.pid, state.txn_first, batch.base))
                state.txn_first = -1
        return found, aborted


class LogMachine(RuleBasedStateMachine):
    """The log, the model, and what both are told."""

    @initialize(
        segment_bytes=st.sampled_from([150, 400, 5000]),
        interval=st.sampled_from([0, 100, 4096]),
        preallocate=st.booleans(),
        max_open=st.sampled_from([2, 64]),
    )
    def start(self, segment_bytes: int, interval: int, preallocate: bool, max_open: int) -> None:
        self.root = tempfile.mkdtemp(prefix="kavka-model-")
        self.disk = RealDisk(max_open=max_open)
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, preallocate=preallocate, retention_ms=-1
        )
        self.log = Log.create(self.disk, f"{self.root}/model-0", TP, Uuid(b"m" * 16), self.config, NOW)
        self.model = Model()
        self.epoch = 0
        self.clock = NOW
        self.aborted_known = True

    def teardown(self) -> None:
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    @rule(
        count=st.integers(1, 3), pid=st.integers(-1, 2), step=st.integers(-5, 50), txn=st.booleans(), new=st.booleans()
    )
    def append(self, count: int, pid: int, step: int, txn: bool, new: bool) -> None:
        self.epoch += new
        self.clock += step
        entry = self.log.producers.get(pid)
        sequence = entry.next_sequence if entry else 0
        transactional = pid >= 0 and (txn or (entry is not None and entry.txn_first_offset >= 0))
        builder = BatchBuilder(
            producer_id=pid,
            producer_epoch=0 if pid >= 0 else -1,
            base_sequence=sequence if pid >= 0 else -1,
            transactional=transactional,
        )
        for _ in range(count):
            builder.append(b"k", b"v" * 10, self.clock)
        data = builder.build()
        info = self.log.append_as_leader(data, scan(data), self.epoch, NOW)
        assert (info.duplicate, info.first_offset, info.last_offset) == (
            False,
            self.model.end,
            self.model.end + count - 1,
        )
        self.model.batches.append(
            Batch(self.model.end, count, self.epoch, self.clock, pid, sequence if pid >= 0 else -1, transactional)
        )
        self.model.end += count

    @rule(pid=st.integers(0, 2), commit=st.booleans())
    def end_transaction(self, pid: int, commit: bool) -> None:
        data = txn_marker_batch(
            commit=commit, producer_id=pid, producer_epoch=0, coordinator_epoch=0, timestamp=self.clock
        )
        self.log.append_as_leader(data, scan(data), self.epoch, NOW, AppendOrigin.COORDINATOR)
        self.model.batches.append(Batch(self.model.end, 1, self.epoch, self.clock, pid, txn=True, marker=commit))
        self.model.end += 1

    @rule(pid=st.integers(0, 2))
    def retry_the_last_batch(self, pid: int) -> None:
        entry = self.log.producers.get(pid)
        if entry is None or not entry.batches or entry.txn_first_offset >= 0:
            return
        known = entry.batches[-1]
        builder = BatchBuilder(producer_id=pid, producer_epoch=0, base_sequence=known.first_sequence)
        for _ in range(known.last_offset - known.first_offset + 1):
            builder.append(b"k", b"v", self.clock)
        data = builder.build()
        info = self.log.append_as_leader(data, scan(data), self.epoch, NOW)
        assert (info.duplicate, info.first_offset, info.last_offset) == (True, known.first_offset, known.last_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule()
    def sync(self) -> None:
        self.log.sync()
        assert self.log.recovery_point == self.model.end

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        model = self.model
        cuts = {end: model.cut(model.start, end) for end in range(model.start, model.end + 1)}
        targets = [end for end, left in cuts.items() if left.makes_sense() and left.end >= model.start]
        target = data.draw(st.sampled_from(targets))
        self.log.truncate_to(target, NOW)
        self.model = model.cut(model.start, target)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        model = self.model
        targets = [start for start in range(model.start, model.end + 1) if model.cut(start, model.end).makes_sense()]
        target = data.draw(st.sampled_from(targets))
        self.log.advance_log_start_offset(target, self.model.end)
        self.model.start = target

    @rule()
    def retention(self) -> None:
        self.log.delete_old_segments(NOW, self.model.end)
        first = self.log.segments[0].base_offset
        if any(batch.last < first for batch in self.model.batches):
            self.aborted_known = False  # what began in a removed segment is only known to the snapshots
        self.log.purge(NOW + 10**9)

    @rule()
    def restart_cleanly(self) -> None:
        self.log.close()
        self.load(clean=True)

    @rule()
    def restart_after_a_kill(self) -> None:
        self.load(clean=False)

    def load(self, clean: bool) -> None:
        self.log, report = load_log(
            self.disk,
            f"{self.root}/model-0",
            TP,
            self.config,
            clean=clean,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.model.start,
            now_ms=NOW,
        )
        assert report.notes == [] if clean else report.cut_bytes == 0 or self.config.preallocate

    @invariant()
    @precondition(lambda self: hasattr(self, "log"))
    def offsets_are_equal(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.model.start, self.model.end)
        assert self.read_all() == self.model.offsets()

    def read_all(self) -> list[int]:
        found = []
        offset = self.model.start
        while (piece := self.log.read(offset, 200, self.model.end)) is not None:
            data = piece.file.read_at(piece.position, piece.length)  # type: ignore[attr-defined]
            infos, _, _ = scan_prefix(data)
            found += [record.offset for info in infos for record in records(data, info)]
            offset = infos[-1].last_offset + 1
        return [number for number in found if number >= self.model.start]

    @invariant()
    @precondition(lambda self: hasattr(self, "log"))
    def epochs_are_equal(self) -> None:
        for batch in self.model.batches:
            if batch.last >= self.model.start:
                assert self.log.epochs.epoch_for(max(batch.base, self.model.start)) == batch.epoch

    @invariant()
    @precondition(lambda self: hasattr(self, "log"))
    def producers_are_equal(self) -> None:
        expected, aborted = self.model.producers()
        for pid, producer in expected.items():
            entry = self.log.producers.get(pid)
            assert (entry.txn_first_offset if entry else -1) == producer.txn_first
            if producer.last_offset >= self.model.start:
                assert entry is not None
                assert (entry.last_sequence, entry.last_offset) == (producer.last_sequence, producer.last_offset)
            # Kafka drops snapshots before the log start, so a restart may forget who wrote nothing since.
        if self.aborted_known:
            first = self.log.segments[0].base_offset
            found = [
                (txn.producer_id, txn.first_offset, txn.last_offset)
                for txn in self.log.aborted_transactions(0, 1 << 40)
            ]
            assert found == [txn for txn in aborted if txn[2] >= first]

    @staticmethod
    def found(search: Search) -> TimestampOffset | None:
        while True:
            try:
                next(search)
            except StopIteration as end:
                return end.value

    @invariant()
    @precondition(lambda self: hasattr(self, "log"))
    def times_are_found(self) -> None:
        wanted = self.clock - 20
        answer = self.found(self.log.search_timestamp(wanted))
        later = [b for b in self.model.batches if b.timestamp >= wanted and b.last >= self.model.start]
        if answer is not None:
            assert later
            assert answer.offset >= self.model.start
            assert any(b.base <= answer.offset <= b.last for b in later)


LogMachine.TestCase.settings = settings(
    max_examples=120, stateful_step_count=30, deadline=None, report_multiple_bugs=False
)
TestLogAgainstModel = LogMachine.TestCase
