"""Opening a log that is on disk: at once after a clean stop, by checking what may be torn after any other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter

from kavka.model.errors import KafkaStorageError
from kavka.model.types import TopicPartition, Uuid
from kavka.storage import files
from kavka.storage.checkpoint import read_epochs
from kavka.storage.config import LogConfig
from kavka.storage.dirs import read_partition_metadata
from kavka.storage.disk import Disk
from kavka.storage.epochs import LeaderEpochs
from kavka.storage.log import Log
from kavka.storage.producer_state import ProducerStates
from kavka.storage.recovery import Recovered, next_offset_of, recover_segment, scan_epochs
from kavka.storage.replay import drop_snapshots, load_snapshot, replay_segments, snapshot_path, write_snapshot
from kavka.storage.segment import Segment, jitter
from kavka.storage.swap import finish_interrupted


@dataclass(slots=True)
class LoadReport:
    """What loading a log had to do; nothing at all after a clean stop."""

    cut_bytes: int = 0
    removed_segments: int = 0
    recovered_segments: int = 0
    notes: list[str] = field(default_factory=list)


def load_log(
    disk: Disk,
    path: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    now_ms: int = 0,
    tiered: bool = False,
) -> tuple[Log, LoadReport]:
    """Open the log in a directory. After an unclean stop everything from the recovery point on is checked.

    Only a tiered log may start before its first segment does.
    """
    loader = _Loader(disk, path, topic_partition, config, clean, recovery_point, log_start_offset, now_ms, tiered)
    try:
        return loader.load(), loader.report
    except OSError as error:
        raise KafkaStorageError(f"cannot load the log {path}: {error}") from error


class _Loader:
    """The state of one loading."""

    __slots__ = (
        "clean",
        "config",
        "disk",
        "epochs",
        "epochs_lost",
        "log_start_offset",
        "names",
        "now_ms",
        "path",
        "pending_deletion",
        "producers",
        "producers_loaded",
        "recovery_point",
        "report",
        "segments",
        "tiered",
        "topic_partition",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        now_ms: int,
        tiered: bool,
    ) -> None:
        self.disk = disk
        self.path = path
        self.topic_partition = topic_partition
        self.config = config
        self.clean = clean
        self.recovery_point = recovery_point
        self.log_start_offset = log_start_offset
        self.now_ms = now_ms
        self.tiered = tiered
        self.report = LoadReport()
        self.names: set[str] = set()
        self.segments: list[Segment] = []
        self.pending_deletion: list[Segment] = []
        self.producers = ProducerStates(topic_partition)
        self.producers_loaded = False
        self.epochs = LeaderEpochs()
        self.epochs_lost = False

    def load(self) -> Log:
        """Do it all."""
        self.list_files()
        topic_id = self.read_topic_id()
        self.read_epochs()
        self.open_segments()
        self.find_epochs()
        end = self.find_end() if self.clean else self.recover()
        if self.segments and end < self.log_start_offset:
            self.drop_all(f"it ends at {end}, before its log start offset {self.log_start_offset}")
            end = self.log_start_offset
        if not self.segments:
            end = self.log_start_offset
            self.segments.append(Segment.create(self.disk, self.path, end, self.config, self.now_ms))
        local_start = max(self.log_start_offset, self.segments[0].base_offset)
        log_start_offset = self.log_start_offset if self.tiered else local_start
        self.epochs.truncate_from_end(end)
        self.epochs.truncate_from_start(log_start_offset)
        self.load_producers(log_start_offset, end)
        log = Log(
            self.disk,
            self.path,
            self.topic_partition,
            topic_id,
            self.config,
            self.segments,
            end,
            self.epochs,
            self.producers,
        )
        log.log_start_offset, log.local_log_start_offset = log_start_offset, local_start
        log.recovery_point = end if self.clean else max(min(self.recovery_point, end), local_start)
        log.delete_later(self.pending_deletion, self.now_ms)
        return log

    def list_files(self) -> None:
        """Note what is there, after completing or undoing what a stop cut short."""
        names = self.disk.listdir(self.path)
        if any(name.endswith((files.DELETED, files.CLEANED, files.SWAP)) for name in names):
            self.report.notes += finish_interrupted(self.disk, self.path, names)
            names = self.disk.listdir(self.path)
        self.names = set(names)

    def read_topic_id(self) -> Uuid | None:
        """The topic id; after an unclean stop a file that was never forced to the device may be torn."""
        if files.PARTITION_METADATA not in self.names:
            return None
        try:
            return read_partition_metadata(self.disk, self.path)
        except KafkaStorageError as error:
            if self.clean:
                raise
            self.report.notes.append(f"{error}: removed")
            self.disk.unlink(f"{self.path}/{files.PARTITION_METADATA}")
            return None

    def read_epochs(self) -> None:
        """The leader epochs; what cannot be read is found again in the batches."""
        if files.LEADER_EPOCHS not in self.names:
            return
        try:
            self.epochs = LeaderEpochs(read_epochs(self.disk, f"{self.path}/{files.LEADER_EPOCHS}"))
        except (KafkaStorageError, ValueError) as error:
            self.report.notes.append(f"{error}: rebuilt from the batches")
            self.epochs_lost = True

    def find_epochs(self) -> None:
        """Find the leader epochs in the segments that recovery will not look at, if they are not known."""
        if self.clean:
            scanned = self.segments if self.epochs_lost else []
        else:
            scanned = self.segments[: self.first_to_recover()] if self.epochs.latest < 0 else []
        for segment in scanned:
            scan_epochs(segment, self.epochs)

    def open_segments(self) -> None:
        """One segment per .log file, and the producer snapshots that belong to one."""
        bases = []
        for name in self.names:
            parsed = files.parse_file_name(name)
            if parsed is None:
                if name.endswith(files.LOG):
                    self.report.notes.append(f"{self.path}/{name} is no segment: left alone")
            elif (parsed.kind, parsed.suffix) == (files.LOG, ""):
                bases.append(parsed.offset)
            elif (parsed.kind, parsed.suffix) == (files.SNAPSHOT, ""):
                self.producers.snapshots.append(parsed.offset)
        for base_offset in sorted(bases):
            stem = f"{self.path}/{base_offset:020d}"
            log_path = stem + files.LOG
            segment = Segment(
                self.disk,
                self.disk.file(log_path),
                base_offset,
                self.disk.size(log_path),
                self.now_ms,
                jitter(stem, self.config),
            )
            self.segments.append(segment)
        self.producers.snapshots.sort()
        self.remove_strays(bases)
        self.rebuild_indexes()

    def remove_strays(self, bases: list[int]) -> None:
        """Remove indexes without a log, and snapshots without a segment but for one after the last."""
        newest = max(bases, default=-1)
        kept = [offset for offset in self.producers.snapshots if offset in bases]
        strays = [offset for offset in self.producers.snapshots if offset not in bases]
        if strays and strays[-1] > newest:
            kept.append(strays.pop())
        for offset in strays:
            self.disk.unlink(snapshot_path(self.path, offset))
        self.producers.snapshots = kept
        for name in self.names:
            if name.endswith((files.INDEX, files.TIME_INDEX, files.TXN_INDEX)):
                parsed = files.parse_file_name(name)
                if parsed is not None and parsed.offset not in bases:
                    if self.clean and parsed.offset >= self.log_start_offset and parsed.kind == files.INDEX:
                        raise KafkaStorageError(
                            f"{self.path}/{parsed.offset:020d}{files.LOG} is missing, and its index is there: restore "
                            "it from a copy, or start once with --accept-loss to give it up"
                        )
                    self.disk.unlink(f"{self.path}/{name}")
                    self.report.notes.append(f"{self.path}/{name} has no log: removed")

    def rebuild_indexes(self) -> None:
        """Rebuild the indexes of segments that lack one and that recovery would not come to."""
        first_recovered = len(self.segments) if self.clean else self.first_to_recover()
        for number, segment in enumerate(self.segments):
            stem = f"{segment.base_offset:020d}"
            if stem + files.INDEX in self.names and stem + files.TIME_INDEX in self.names:
                continue
            self.create_missing_indexes(segment)
            if number < first_recovered and segment.size:
                producers = self.producers_before(number)
                self.note_recovery(segment, recover_segment(segment, producers, None, self.config))
                self.report.notes.append(f"{segment.file.path} lacked an index: rebuilt")

    def create_missing_indexes(self, segment: Segment) -> None:
        """Make the index files that are not there."""
        for kind in (files.INDEX, files.TIME_INDEX):
            if f"{segment.base_offset:020d}{kind}" not in self.names:
                self.disk.create(segment.path_of(kind)).close()

    def first_to_recover(self) -> int:
        """The number of the segment that ends with the recovery point, or has it.

        One that ends there may have been sealed after its log was forced: its indexes, that of aborted transactions
        too, were not.
        """
        return max(bisect_left(self.segments, self.recovery_point, key=attrgetter("base_offset")) - 1, 0)

    def recover(self) -> int:
        """Check the segments from the recovery point on; returns the log end."""
        if not self.segments:
            return self.log_start_offset
        first = self.first_to_recover()
        end = self.segments[first].base_offset
        self.epochs.truncate_from_end(end)  # what the file says of later offsets may be older than the batches
        # What newer snapshots say may be older than the batches as well.
        drop_snapshots(self.disk, self.path, self.producers, -1, end)
        self.producers = self.producers_before(first)
        self.producers_loaded = True
        for number in range(first, len(self.segments)):
            segment = self.segments[number]
            if segment.base_offset > max(end, self.recovery_point) and not self.config.compact:
                # A log that is not compacted has no gaps: the end of the segment before never reached the device.
                self.report.notes.append(f"{self.path}: offsets {end} to {segment.base_offset - 1} are missing")
                self.drop_from(number)
                break
            if segment.base_offset < end:
                # It was cut off, and what took its place is in the segment before: the crash has brought it back.
                self.report.notes.append(
                    f"{segment.file.path} begins before offset {end}, where the one before it ends"
                )
                self.drop_from(number)
                break
            if number > first and number >= len(self.segments) - 2:  # as replaying does
                write_snapshot(self.disk, self.path, self.producers, segment.base_offset)
            recovered = recover_segment(segment, self.producers, self.epochs, self.config)
            self.note_recovery(segment, recovered)
            end = recovered.next_offset
            if recovered.cut_bytes:
                self.drop_from(number + 1)
                break
        return end

    def note_recovery(self, segment: Segment, recovered: Recovered) -> None:
        """Keep account of what was cut."""
        self.report.recovered_segments += 1
        if recovered.cut_bytes:
            self.report.cut_bytes += recovered.cut_bytes
            self.report.notes.append(
                f"{segment.file.path}: cut {recovered.cut_bytes} bytes from offset {recovered.next_offset} on: "
                f"{recovered.reason}"
            )

    def drop_from(self, number: int) -> None:
        """Let go of the segments after one that was cut."""
        gone = self.segments[number:]
        del self.segments[number:]
        if gone:
            self.report.removed_segments += len(gone)
            self.report.cut_bytes += sum(segment.size for segment in gone)
            self.report.notes.append(f"{self.path}: removed {len(gone)} segments after the cut")
            self.pending_deletion += gone

    def drop_all(self, why: str) -> None:
        """Let go of everything."""
        self.report.notes.append(f"{self.path}: removed all segments: {why}")
        self.drop_from(0)
        self.epochs.clear()
        self.producers.clear()
        drop_snapshots(self.disk, self.path, self.producers, -1, -1)
        self.producers_loaded = True

    def find_end(self) -> int:
        """The log end after a clean stop; should the last segment be unsound all the same, it is recovered."""
        if not self.segments:
            return self.log_start_offset
        last = self.segments[-1]
        end = next_offset_of(last)
        if end is None:
            producers = self.producers_before(len(self.segments) - 1)
            self.epochs.truncate_from_end(last.base_offset)
            recovered = recover_segment(last, producers, self.epochs, self.config)
            self.note_recovery(last, recovered)
            self.producers, self.producers_loaded = producers, True
            end = recovered.next_offset
        elif not self.config.compact and self.log_start_offset < self.recovery_point < end:
            self.require_batch_at(self.recovery_point, end)
        return end

    def require_batch_at(self, offset: int, end: int) -> None:
        """A clean stop notes where a log ends: if it ends later now, a batch begins there, or its offset is damaged."""
        segment = self.segments[bisect_right(self.segments, offset, key=attrgetter("base_offset")) - 1]
        found = segment.find(offset)
        before = segment.find(offset - 1) if offset > segment.base_offset else None
        if found is None or found.base_offset != offset or before == found:
            raise KafkaStorageError(
                f"{segment.file.path} is damaged: {self.path} ended at offset {offset} when the node was last stopped, "
                f"ends at {end} now, and no batch begins in between where one should. Restore it from a copy, or start "
                "once with --accept-loss"
            )

    def producers_before(self, number: int) -> ProducerStates:
        """The producer state at a segment's start."""
        producers = ProducerStates(self.topic_partition)
        base_offset = self.segments[number].base_offset
        producers.snapshots = [offset for offset in self.producers.snapshots if offset <= base_offset]
        start = self.start_from_snapshot(producers)
        if start < base_offset:
            replay_segments(self.disk, self.path, producers, self.segments[:number], start, base_offset)
        return producers

    def load_producers(self, log_start_offset: int, end: int) -> None:
        """The producer state at the log end."""
        producers = self.producers
        had_snapshots = bool(producers.snapshots)
        drop_snapshots(self.disk, self.path, producers, log_start_offset, end)
        if self.producers_loaded:
            return
        if self.clean and not had_snapshots:
            return  # a clean stop always leaves a snapshot if there is anything to remember
        start = max(self.start_from_snapshot(producers), log_start_offset)
        if start < end:
            replay_segments(self.disk, self.path, producers, self.segments, start, end)

    def start_from_snapshot(self, producers: ProducerStates) -> int:
        """Load the newest snapshot; returns the offset from which the batches have to be replayed."""
        damaged: list[str] = []
        expiration_ms = self.config.producer_id_expiration_ms
        start = load_snapshot(self.disk, self.path, producers, self.now_ms, expiration_ms, damaged)
        self.report.notes += [f"{note}: removed" for note in damaged]
        return start if start is not None else self.segments[0].base_offset
