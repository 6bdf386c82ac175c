"""Numbered JSON lines in files that follow one another: what was appended is read again in order, after a crash too.

A line begins with its number, `{"seq":7,`; a file is named after the number of its first line. A line counts once its
end of line is written: what a crash left half done is cut off when the spool is opened, and its number is used again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kavka.storage.disk import Disk, DiskFile

logger = logging.getLogger(__name__)

SUFFIX: Final = ".jsonl"
ID_FILE: Final = "id"
START: Final = b'{"seq":'
TAIL_BYTES: Final = 1 << 20
"""How far a file is looked back into at a time to find its last whole line; no line is as long."""

Lines = list[tuple[int, bytes]]
"""Lines without their ends, by their numbers."""


class Place(NamedTuple):
    """Where a reader is: in the file whose first line has this number, so many bytes in."""

    first: int
    position: int


class Syncing(NamedTuple):
    """What forces files to the disk."""

    job: Callable[[], None]
    """To be called once, in a thread; raises OSError."""
    firsts: Sequence[int]
    """The numbers of the first lines of the files."""


class Spool:
    """The lines of one directory; there is one writer, and readers see what it has written."""

    def __init__(self, disk: Disk, folder: str, segment_bytes: int, retention_bytes: int) -> None:
        self._disk = disk
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._retention_bytes = retention_bytes
        self._files: dict[int, DiskFile] = {}
        self._sizes: dict[int, int] = {}
        self._dirty: dict[int, None] = {}
        self._suspect: set[int] = set()
        """The files that could not be forced to the disk: they are written once more before they are believed."""
        self.id = ""
        """Which spool this is: the numbers of another one mean nothing here."""
        self.next = 1
        """The number of the next line."""

    def open(self, new_id: Callable[[], str]) -> None:
        """Find what is there, and cut off what was not finished; raises OSError."""
        disk, folder = self._disk, self._folder
        disk.mkdir(folder)
        path = f"{folder}/{ID_FILE}"
        if not disk.exists(path):
            disk.replace_file(path, new_id().encode())
        self.id = disk.read_file(path).decode("ascii", "replace").strip()
        for first in sorted(first_of(name) for name in disk.listdir(folder) if is_segment(name)):
            self._files[first] = disk.file(self._path(first))
            self._sizes[first] = self._files[first].size()
        if self._files:
            self.next = self._recover(max(self._files))
        else:
            self._roll()

    def _recover(self, first: int) -> int:
        """The number after the last whole line of the last file."""
        file, size = self._files[first], self._sizes[first]
        start, kept = size, 0
        last = None
        while start and last is None:  # a power cut may leave any length of zeros
            start = max(0, start - TAIL_BYTES)
            tail = file.read_at(start, min(2 * TAIL_BYTES, size - start))
            kept = len(tail)
            while kept and last is None:
                kept = tail.rfind(b"\n", 0, kept) + 1
                begins = tail.rfind(b"\n", 0, max(0, kept - 1)) + 1
                last = number_of(tail[begins : max(0, kept - 1)])
                if last is None:
                    kept = begins
        if start + kept != size:
            logger.warning("%s: cut off %d bytes that were not finished", file.path, size - start - kept)
            file.truncate(start + kept)
            self._sizes[first] = start + kept
        return first if last is None else last + 1

    # -- writing ----------------------------------------------------------------------------------

    def append(self, entries: Sequence[bytes]) -> int:
        """Write entries, each a JSON object without its first brace; the number of the last. Raises OSError.

        What could not be written is overwritten by what comes next.
        """
        last = max(self._files)
        if last in self._suspect or self._sizes[last] >= self._segment_bytes:
            last = self._roll()
        data = b"".join(b'{"seq":%d,%s\n' % (self.next + index, entry) for index, entry in enumerate(entries))
        self._files[last].write_at(self._sizes[last], [data], len(data))
        self._sizes[last] += len(data)
        self._dirty[last] = None
        self.next += len(entries)
        return self.next - 1

    def _roll(self) -> int:
        first = self.next
        self._files[first] = self._disk.create(self._path(first))
        self._sizes[first] = 0
        return first

    def syncing(self) -> Syncing:
        """What forces to the disk what is written now; a new file is begun if that failed before. Raises OSError."""
        if max(self._files) in self._suspect:
            self._roll()
        again = [(self._files[first], self._sizes[first]) for first in self._suspect if first in self._files]
        firsts = [first for first in self._dirty if first in self._files]
        files = [self._files[first] for first in firsts]
        self._dirty.clear()
        for file in files:
            file.pin()

        def sync() -> None:
            try:
                for file, size in again:
                    _rewrite(file, size)
                for file in files:
                    file.sync()
                self._disk.fsync_dir(self._folder)
            finally:
                for file in files:
                    file.unpin()

        return Syncing(sync, firsts)

    def failed(self, syncing: Syncing) -> None:
        """What was to be forced to the disk was not.

        Linux takes pages that it could not write for written, and says the next time that all is well.
        """
        there = [first for first in syncing.firsts if first in self._files and self._sizes[first]]
        self._dirty.update(dict.fromkeys(there))
        self._suspect.update(there)

    def succeeded(self, syncing: Syncing) -> None:
        """It was, whatever happened before."""
        self._suspect.difference_update(syncing.firsts)

    def expire(self, done: int) -> None:
        """Remove the oldest files while there is too much, but none with a line after `done`."""
        if self._retention_bytes < 0:
            return
        firsts = sorted(self._files)
        for first, following in pairwise(firsts):
            if sum(self._sizes.values()) <= self._retention_bytes or following - 1 > done:
                return
            self._files.pop(first).unlink()
            del self._sizes[first]
            self._dirty.pop(first, None)
            self._suspect.discard(first)

    @property
    def size(self) -> int:
        """Bytes in all files."""
        return sum(self._sizes.values())

    # -- reading ----------------------------------------------------------------------------------

    def place_of(self, number: int) -> Place:
        """A place from which on a line is found, or the first that is left."""
        return Place(max((first for first in self._files if first <= number), default=min(self._files)), 0)

    def read(self, place: Place, max_bytes: int) -> tuple[Lines, Place]:
        """Whole lines from a place on, and the place after them; none at the end. Raises OSError."""
        if place.first not in self._files:
            place = self.place_of(place.first)
        left = self._sizes[place.first] - place.position
        if left <= 0:
            following = [first for first in self._files if first > place.first]
            if not following:
                return [], place
            place = Place(min(following), 0)
            left = self._sizes[place.first]
        data = self._files[place.first].read_at(place.position, min(max_bytes, left))
        whole = data.rfind(b"\n") + 1
        lines = [(number, line) for line in data[:whole].split(b"\n") if (number := number_of(line)) is not None]
        return lines, Place(place.first, place.position + (whole or len(data)))

    def _path(self, first: int) -> str:
        return f"{self._folder}/{first:020d}{SUFFIX}"


def _rewrite(file: DiskFile, size: int) -> None:
    """Write a file as it is read once more, so that its pages are to be forced to the disk again."""
    for position in range(0, size, TAIL_BYTES):
        data = file.read_at(position, min(TAIL_BYTES, size - position))
        file.write_at(position, [data], len(data))


def is_segment(name: str) -> bool:
    """Whether a file is one of a spool."""
    return name.endswith(SUFFIX) and name.removesuffix(SUFFIX).isdecimal()


def first_of(name: str) -> int:
    """The number of the first line of a file."""
    return int(name.removesuffix(SUFFIX))


def number_of(line: bytes) -> int | None:
    """The number of a line; None for one that is no line of a spool."""
    if not line.startswith(START):
        return None
    try:
        found = json.loads(line)["seq"]
    except ValueError:
        return None
    return found if isinstance(found, int) else None
