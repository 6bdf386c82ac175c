"""The files of a log: its segments in order, those on their way out, and what is not forced to the device yet.

An `OSError` becomes a `KafkaStorageError`; if the files may no longer agree with memory, the log has `failed` and
refuses everything from then on.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from errno import EMFILE, ENFILE
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple, NoReturn

from kavka.model.errors import KafkaStorageError
from kavka.model.types import FileSlice, TopicPartition
from kavka.storage import files
from kavka.storage.checkpoint import encode_epochs
from kavka.storage.config import LogConfig
from kavka.storage.disk import Buffer, Disk, DiskFile
from kavka.storage.epochs import LeaderEpochs
from kavka.storage.segment import DamagedError, Mark, Segment
from kavka.storage.swap import complete_swap, decide_swap
from kavka.storage.sync import SyncJob
from kavka.storage.txn_index import AbortedTransaction

logger = logging.getLogger(__name__)

CHECKED_BYTES: Final = 256 << 10
"""So much of what was there before is looked through and read at once."""

_base_offset = attrgetter("base_offset")


class _PendingDeletion(NamedTuple):
    """A segment that was renamed to .deleted and goes for good at some time."""

    at_ms: int
    segment: Segment


class LogFiles:
    """The segments of one directory; the last takes the writes."""

    __slots__ = (
        "_active",
        "_damaged",
        "_gap",
        "_hint_offset",
        "_hint_position",
        "_hint_segment",
        "_new_names",
        "_pending_deletion",
        "_sealed",
        "_segments",
        "_sync",
        "_unsynced",
        "config",
        "disk",
        "epochs",
        "failed",
        "generation",
        "log_end_offset",
        "on_disk_error",
        "path",
        "recovery_point",
        "topic_partition",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        segments: list[Segment],
        log_end_offset: int,
        epochs: LeaderEpochs,
    ) -> None:
        self.disk = disk
        self.path = path
        self.topic_partition = topic_partition
        self.config = config
        self.log_end_offset = log_end_offset
        self.epochs = epochs
        self.recovery_point = segments[0].base_offset
        self.failed: str | None = None
        self.on_disk_error: Callable[[LogFiles, str], None] | None = None
        """Told at once what the disk has refused, whether or not the log can go on."""
        self.generation = 0  # goes up whenever the log is cut at its end
        self._segments = segments
        self._active = segments[-1]
        self._damaged: Segment | None = None  # the last one that was told of
        self._gap: Segment | None = None
        self._sync: SyncJob | None = None
        self._sealed: list[Segment] = []  # since the last sync: their indexes were completed after it
        self._unsynced: list[str] = []  # whole files written since the last sync
        self._new_names = False  # whether the directory has names that a crash may lose
        self._pending_deletion: list[_PendingDeletion] = []
        self._hint_offset = -1  # where the last read ended: a consumer at the tail goes on there
        self._hint_segment: Segment | None = None
        self._hint_position = 0

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments, oldest first; the last takes the writes."""
        return self._segments

    @property
    def size_bytes(self) -> int:
        """The length of all segments."""
        return sum(segment.size for segment in self._segments)

    def segment_of(self, offset: int) -> Segment | None:
        """The segment with the largest base offset at or below an offset."""
        if offset >= self._active.base_offset:
            return self._active
        number = bisect_right(self._segments, offset, key=_base_offset)
        return self._segments[number - 1] if number else None

    def segments_from(self, offset: int) -> Sequence[Segment]:
        """The segment that has an offset, and all after it."""
        number = bisect_right(self._segments, offset, key=_base_offset)
        return self._segments[max(number - 1, 0) :]

    # -- writing

    def _write(self, segment: Segment, buffers: Sequence[Buffer], length: int, marks: Sequence[Mark]) -> None:
        """Write to the active segment, or leave it as it was."""
        try:
            segment.append(buffers, length, marks, self.config)
        except OSError as error:
            try:
                segment.file.truncate(segment.size)
            except OSError as second:
                self.failed = f"{segment.file.path} cannot be cut back after a failed write: {second}"
            self._refused(error, str(error))
            raise KafkaStorageError(f"cannot append to {self.topic_partition}: {error}") from error

    def _begin_segment(self, base_offset: int, now_ms: int) -> Segment:
        segment = Segment.create(self.disk, self.path, base_offset, self.config, now_ms)
        self._segments.append(segment)
        self._active = segment
        self._new_names = True
        return segment

    def _set_end(self, offset: int) -> None:
        """The log was cut: nothing of what lay after is known any more."""
        self.generation += 1
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        if self._sync is not None:
            self._sync.offset = min(self._sync.offset, offset)
        self._hint_offset = -1
        self._hint_segment = None

    # -- reading

    def _slice(self, offset: int, max_bytes: int, up_to_offset: int, min_one: bool) -> FileSlice | None:
        segment = self._hint_segment
        if offset == self._hint_offset and segment is not None and self._hint_position < segment.size:
            position, first_size = self._hint_position, -1
        else:
            for segment in self.segments_from(offset):
                found = segment.find(offset)
                if found is not None:
                    break
                if segment.end_unchecked or not segment.size:
                    self._check(segment, segment.check_end)
                    self._tell_of_gap(segment, offset)
            else:
                return None
            _, position, first_size = found
        room = max_bytes
        if position < segment.unchecked:
            max_bytes = min(max_bytes, CHECKED_BYTES)
            self._check(segment, partial(segment.check_order, position, position + max_bytes))
        limit = self._limit_in(segment, up_to_offset)
        length = limit - position
        if length > max_bytes:
            if first_size < 0:
                first_size = segment.batch_size_at(position)
            if first_size > room and not min_one:
                return None  # no client can make anything of a batch that begins and does not end
            length = min(length, max(max_bytes, first_size))
        if length <= 0:
            return None
        if position + length == limit:
            self._hint_offset, self._hint_segment, self._hint_position = up_to_offset, segment, limit
        return FileSlice(segment.file, position, length)

    def goes_on(self, piece: FileSlice) -> bool:
        """Whether a slice may have been cut for no other reason than that what was there before is looked through."""
        for segment in reversed(self._segments):
            if segment.file is piece.file:
                return piece.position + piece.length < segment.unchecked
        return False

    def _tell_of_gap(self, segment: Segment, offset: int) -> None:
        """Only compaction leaves gaps, but that may have been before the topic's policy was changed."""
        if not self.config.compact and segment is not self._gap:
            self._gap = segment
            logger.warning(
                "%s ends before offset %d, and the next segment begins after it: what is missing was compacted, or the "
                "file is an older copy",
                segment.file.path,
                offset,
            )

    def _check(self, segment: Segment, check: Callable[[int], None]) -> None:
        number = self._segments.index(segment) + 1
        following = self._segments[number].base_offset if number < len(self._segments) else self.log_end_offset
        try:
            check(following)
        except DamagedError as error:
            if segment is not self._damaged:
                self._damaged = segment
                logger.error(
                    "%s: it is not served; restore it from a copy, or start once with --accept-loss to have it cut",
                    error,
                )
            raise

    def _limit_in(self, segment: Segment, up_to_offset: int) -> int:
        """Where in a segment the offsets before a limit end."""
        if up_to_offset >= self.log_end_offset:
            return segment.size
        if up_to_offset == self._hint_offset and segment is self._hint_segment:
            return self._hint_position
        found = segment.find(up_to_offset)
        return found.position if found else segment.size

    def upper_bound_offset(self, piece: FileSlice) -> int:
        """An offset that no record of a slice just read reaches."""
        with self._reading():
            for number, segment in enumerate(self._segments):
                if segment.file is piece.file:
                    bound = segment.offset_index.offset_after(piece.position + piece.length)
                    if bound is not None:
                        return bound
                    return self.log_end_offset if segment is self._active else self._segments[number + 1].base_offset
        return self.log_end_offset

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with data between two offsets."""
        found = []
        with self._reading():
            for segment in self.segments_from(from_offset):
                for aborted in segment.txn_index.entries():
                    if aborted.last_offset >= from_offset and aborted.first_offset < to_offset:
                        found.append(aborted)
                    if aborted.last_stable_offset >= to_offset:
                        return found
        return found

    # -- forcing to the device

    def pending_sync(self) -> SyncJob | None:
        """What to force so that all written so far is durable; None if it is, or while a job is under way.

        Run the job, on any thread, and then give it to `synced`, before the log is closed or deleted.
        """
        if self._sync is not None or self.failed is not None:
            return None
        end = self.log_end_offset
        clean = end <= self.recovery_point and not self.epochs.dirty
        if clean and not self._unsynced and not self._new_names and not self._sealed:
            return None
        # A snapshot may have been written and dropped again since the last time.
        to_sync: list[DiskFile] = [self.disk.file(path) for path in self._unsynced if self.disk.exists(path)]
        for segment, following in zip(self._segments, [*self._segments[1:], None], strict=True):
            if segment in self._sealed or (following is not None and following.base_offset > self.recovery_point):
                to_sync.extend(segment.open_files())
            elif following is None:
                # Recovery rebuilds the indexes of the segment that has the recovery point: the log is enough.
                to_sync.append(segment.file)
        texts = []
        if self.epochs.dirty:
            texts.append((f"{self.path}/{files.LEADER_EPOCHS}", encode_epochs(self.epochs.entries)))
            self.epochs.dirty = False
        dirs = [self.path, self.path.rpartition("/")[0]] if self._new_names else []
        self._new_names = False
        self._unsynced = []
        self._sealed = []
        with self._guard("open what is to be forced to the device"):
            self._sync = SyncJob(self.disk, end, to_sync, texts, dirs)
        return self._sync

    def synced(self, job: SyncJob) -> None:
        """Take note that a job has run: the recovery point moves to where it began."""
        self._sync = None
        job.release()
        if job.error is not None:
            # What the device did not take may be gone from memory too: trying again would only look like success.
            self._fail("force the log to the device", job.error)
        self.recovery_point = max(self.recovery_point, min(job.offset, self.log_end_offset))

    def sync(self) -> None:
        """Force everything to the device now."""
        job = self.pending_sync()
        if job is not None:
            job.run()
            self.synced(job)

    # -- removing

    def delete_later(self, gone: Sequence[Segment], now_ms: int) -> None:
        """Rename segments' files so that a later `purge`, or the next start, removes them."""
        for segment in gone:
            segment.change_suffix(files.DELETED)
            self._pending_deletion.append(_PendingDeletion(now_ms + self.config.file_delete_delay_ms, segment))
        if gone:
            self._hint_segment = None
            self._new_names = True

    def replace_segments(self, new: Segment, old: Sequence[Segment], now_ms: int) -> None:
        """Put a compacted segment, still named .cleaned, in the place of neighbouring sealed ones."""
        first = self._segments.index(old[0])
        with self._guard("swap in a compacted segment"):
            decide_swap(new)
            complete_swap(new, old)
            self.disk.fsync_dir(self.path)
        self._segments[first : first + len(old)] = [new]
        self._pending_deletion += [
            _PendingDeletion(now_ms + self.config.file_delete_delay_ms, segment) for segment in old
        ]
        self._hint_segment = None

    def take_deletable(self, now_ms: int) -> list[str]:
        """Let go of the segments whose delete delay is over; their files, which the caller removes on any thread."""
        due = [pending.segment for pending in self._pending_deletion if pending.at_ms <= now_ms]
        if due:
            self._pending_deletion = [pending for pending in self._pending_deletion if pending.at_ms > now_ms]
        for segment in due:
            segment.close()  # or the last close, not the unlink, would be what takes long
        return [segment.path_of(kind) for segment in due for kind in files.SEGMENT_KINDS]

    def purge(self, now_ms: int) -> int:
        """Remove the files whose delete delay is over; says how many segments went."""
        paths = self.take_deletable(now_ms)
        with self._guard("remove deleted segments"):
            for path in paths:
                self.disk.unlink(path)
        return len(paths) // len(files.SEGMENT_KINDS)

    def rename_dir(self, name: str) -> None:
        """Move the log to another directory beside this one."""
        path = f"{self.path.rpartition('/')[0]}/{name}"
        with self._guard("rename its directory"):
            self.disk.rename(self.path, path)
        self.path = path
        for segment in self._segments:
            segment.moved(path)
        for pending in self._pending_deletion:
            pending.segment.moved(path)
        self._unsynced = [f"{path}/{name.rpartition('/')[2]}" for name in self._unsynced]
        self._new_names = True

    def mark_deleted(self, unique: str) -> str:
        """Give the topic's name free: the directory becomes `<tp>.<unique>-delete`; `delete` removes it later."""
        self.failed = None  # what the disk refused before does not matter any more
        self.rename_dir(files.marked_dir_name(self.topic_partition, unique, files.DELETE_DIR))
        return self.path

    def let_go(self) -> None:
        """Close everything for good; the caller removes the directory, on any thread."""
        self.abandon(f"{self.path} was deleted")

    def abandon(self, why: str) -> None:
        """Close everything, and refuse everything from now on."""
        self.failed = why
        for segment in (*self._segments, *(pending.segment for pending in self._pending_deletion)):
            segment.close()

    def delete(self) -> None:
        """Remove everything for good; what a response still sends stays readable."""
        self.let_go()
        try:
            self.disk.remove_tree(self.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise KafkaStorageError(f"cannot remove {self.path}: {error}") from error

    # -- when the disk fails

    @contextmanager
    def _guard(self, action: str) -> Iterator[None]:
        """After an error in here the files may not agree with memory: the log fails for good."""
        if self.failed is not None:
            raise KafkaStorageError(self.failed)
        try:
            yield
        except OSError as error:
            self._fail(action, error)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        if self.failed is not None:
            raise KafkaStorageError(self.failed)
        try:
            yield
        except OSError as error:
            self._cannot_read(error)

    def _cannot_read(self, error: OSError) -> NoReturn:
        # A search gives way to others, and what it reads may have been deleted meanwhile.
        if self.failed is None and not isinstance(error, FileNotFoundError):
            self._refused(error, str(error))
        raise KafkaStorageError(f"cannot read from {self.topic_partition}: {error}") from error

    def _fail(self, action: str, error: OSError) -> NoReturn:
        self.failed = why = f"{self.topic_partition} could not {action}: {error}"
        self._refused(error, why)
        raise KafkaStorageError(why) from error

    def _refused(self, error: OSError, why: str) -> None:
        """Tell of a fault of the disk; that too many files are open is none."""
        if self.on_disk_error is not None and error.errno not in (EMFILE, ENFILE):
            self.on_disk_error(self, why)
