"""A disk in memory that forgets like a real one: what was not forced may be lost in a power failure, or half of it.

A file's bytes are safe once the file was synced, a name once its directory was. Of what was written later, a power
failure leaves a part: the first few writes of each file, the last of them torn, and the first few changes of names in
each directory. A process that is only killed loses nothing.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kavka.storage.disk import Buffer

SYNC_SECONDS: Final = 5e-4
WRITE_SECONDS: Final = 1e-5
READ_SECONDS: Final = 4e-6


class Write(NamedTuple):
    """Bytes that were written, or a cut where there are none."""

    position: int
    data: bytes | None


class Inode:
    """The bytes of a file, as programs see them and as they surely are."""

    __slots__ = ("data", "durable", "modified_ms", "pending")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[Write] = []
        self.modified_ms = 0

    def write(self, position: int, data: bytes) -> None:
        """Write bytes, which are not safe yet."""
        _apply(self.data, Write(position, data))
        self.pending.append(Write(position, data))

    def truncate(self, size: int) -> None:
        """Cut or extend, which is not safe yet."""
        _apply(self.data, Write(size, None))
        self.pending.append(Write(size, None))

    def sync(self) -> None:
        """Make everything safe."""
        for write in self.pending:
            _apply(self.durable, write)
        self.pending.clear()

    def lose_power(self, chance: random.Random) -> None:
        """Keep what was safe, and some of the rest."""
        last = Write(0, None)
        for last in self.pending[: chance.randint(0, len(self.pending))]:
            _apply(self.durable, last)
        if last.data and chance.random() < 0.5:
            survived = chance.randint(0, len(last.data))
            zeros = chance.random() < 0.3  # the length was written, the bytes were not
            if zeros:
                torn = bytes(len(last.data) - survived)
                self.durable[last.position + survived : last.position + len(last.data)] = torn
            elif len(self.durable) == last.position + len(last.data):
                del self.durable[last.position + survived :]
        self.data = bytearray(self.durable)
        self.pending.clear()


def _apply(data: bytearray, write: Write) -> None:
    position, written = write
    if written is None:
        if position < len(data):
            del data[position:]
        else:
            data.extend(bytes(position - len(data)))
        return
    if position > len(data):
        data.extend(bytes(position - len(data)))
    data[position : position + len(written)] = written


class Folder:
    """Names, as programs see them and as they surely are."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Folder] = {}
        self.durable: dict[str, Inode | Folder] = {}
        self.pending: list[dict[str, Inode | Folder | None]] = []

    def change(self, names: dict[str, Inode | Folder | None]) -> None:
        """Give names to files, or take them away; all of it or nothing survives."""
        _rename(self.entries, names)
        self.pending.append(names)

    def sync(self) -> None:
        """Make the names safe."""
        for names in self.pending:
            _rename(self.durable, names)
        self.pending.clear()

    def lose_power(self, chance: random.Random) -> None:
        """Keep the names that were safe, and the first few changes after that; so all below."""
        for names in self.pending[: chance.randint(0, len(self.pending))]:
            _rename(self.durable, names)
        self.pending.clear()
        self.entries = dict(self.durable)
        for entry in self.entries.values():
            entry.lose_power(chance)


def _rename(entries: dict[str, Inode | Folder], names: dict[str, Inode | Folder | None]) -> None:
    for name, entry in names.items():
        if entry is None:
            entries.pop(name, None)
        else:
            entries[name] = entry


class Drive:
    """What is on a machine's disk."""

    def __init__(self, capacity: int) -> None:
        self.root = Folder()
        self.capacity = capacity
        self.used = 0
        self.renames = 0
        """How often names of files have changed."""
        self.refusals = 0.0
        """How many of the next changes it refuses."""
        self.locks: set[str] = set()

    def lose_power(self, chance: random.Random) -> None:
        """Forget what was not forced."""
        self.root.lose_power(chance)
        self.renames += 1
        self.locks.clear()
        self.used = _size_of(self.root)

    def find(self, path: str) -> Inode | Folder | None:
        """What has a name."""
        entry: Inode | Folder | None = self.root
        for part in path.split("/"):
            if part:
                if not isinstance(entry, Folder):
                    return None
                entry = entry.entries.get(part)
        return entry

    def folder(self, path: str) -> Folder:
        """A directory that is there."""
        found = self.find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(found, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return found

    def inode(self, path: str) -> Inode:
        """A file that is there."""
        found = self.find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(found, Inode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return found


def _size_of(entry: Inode | Folder) -> int:
    if isinstance(entry, Inode):
        return len(entry.data)
    return sum(_size_of(child) for child in entry.entries.values())


def _split(path: str) -> tuple[str, str]:
    directory, _, name = path.rstrip("/").rpartition("/")
    return directory, name


class SimLock:
    """A held lock."""

    def __init__(self, drive: Drive, path: str) -> None:
        self._drive = drive
        self._path = path

    def release(self) -> None:
        """Let others have it."""
        self._drive.locks.discard(self._path)


class SimFile:
    """A file as a program has it: a name until it is first used, then its bytes, whatever becomes of the name."""

    __slots__ = ("_disk", "_gone", "_inode", "_pins", "path")

    def __init__(self, disk: SimDisk, path: str, inode: Inode | None = None) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._pins = 0
        self._gone = False

    def _open(self) -> Inode:
        self._disk.check()
        if self._inode is None:
            if self._gone:
                raise FileNotFoundError(errno.ENOENT, "the file was removed", self.path)
            self._inode = self._disk.drive.inode(self.path)
        return self._inode

    def fileno(self) -> int:
        """There is no descriptor."""
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self.path)

    def write_at(self, position: int, buffers: Sequence[Buffer], length: int) -> None:
        """Write all buffers in order from a position."""
        self._disk.write(self._open(), position, b"".join(buffers), self.path)

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        self._disk.spend(READ_SECONDS)
        return bytes(self._open().data[position : position + length])

    def truncate(self, size: int) -> None:
        """Cut or extend the file to a size."""
        inode = self._open()
        self._disk.refuse(self.path)
        self._disk.drive.used += size - len(inode.data)
        inode.truncate(size)
        inode.modified_ms = self._disk.now_ms()

    def sync(self) -> None:
        """Make what was written safe."""
        inode = self._open()
        self._disk.refuse(self.path)
        self._disk.spend(SYNC_SECONDS)
        inode.sync()

    def size(self) -> int:
        """The file's length in bytes."""
        return len(self._open().data)

    def pin(self) -> None:
        """Keep the bytes at hand."""
        self._open()
        self._pins += 1

    def unpin(self) -> None:
        """Give them back."""
        self._pins -= 1
        if self._pins == 0 and self._gone:
            self._inode = None

    def rename(self, path: str) -> None:
        """Move the file; replaces what is there."""
        self._disk.rename(self.path, path)
        self.path = path

    def moved(self, path: str) -> None:
        """Be told that the file's directory was renamed."""
        self.path = path

    def unlink(self) -> None:
        """Remove the file; who has it pinned reads on."""
        self._disk.unlink(self.path)
        self._gone = True
        if self._pins == 0:
            self._inode = None

    def close(self) -> None:
        """Use the name again next time."""
        if self._pins == 0:
            self._inode = None


class SimDisk:
    """A process's view of its machine's disk; it ends with the process."""

    def __init__(self, drive: Drive, spend: Callable[[float], None], now_ms: Callable[[], int]) -> None:
        self.drive = drive
        self.spend = spend
        self.now_ms = now_ms
        self.dead = False

    def check(self) -> None:
        """A process that is gone touches nothing."""
        if self.dead:
            raise OSError(errno.EIO, "the process is gone")

    def refuse(self, path: str) -> None:
        """Fail if the disk fails."""
        self.check()
        if self.drive.refusals > 0:
            self.drive.refusals -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def change(self, folder: Folder, names: dict[str, Inode | Folder | None]) -> None:
        """Give names to files, or take them away."""
        folder.change(names)
        self.drive.renames += 1

    def write(self, inode: Inode, position: int, data: bytes, path: str) -> None:
        """Write as much as there is room for; raises OSError if that is not all."""
        self.refuse(path)
        self.spend(WRITE_SECONDS)
        drive = self.drive
        grown = max(0, position + len(data) - len(inode.data))
        room = drive.capacity - drive.used
        if grown > room:
            data = data[: max(0, len(data) - (grown - max(room, 0)))]
        if data:
            drive.used += max(0, position + len(data) - len(inode.data))
            inode.write(position, data)
            inode.modified_ms = self.now_ms()
        if grown > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def file(self, path: str) -> SimFile:
        """A file that exists; nothing is opened yet."""
        return SimFile(self, path)

    def create(self, path: str) -> SimFile:
        """A new empty file, in place of any that is there."""
        return SimFile(self, path, self._create(path))

    def _create(self, path: str) -> Inode:
        self.refuse(path)
        self.spend(WRITE_SECONDS)
        directory, name = _split(path)
        folder = self.drive.folder(directory)
        found = folder.entries.get(name)
        if isinstance(found, Inode):
            self.drive.used -= len(found.data)
            found.truncate(0)
            found.modified_ms = self.now_ms()
            return found
        inode = Inode()
        inode.modified_ms = self.now_ms()
        self.change(folder, {name: inode})
        return inode

    def read_file(self, path: str) -> bytes:
        """A whole small file; raises FileNotFoundError."""
        self.check()
        self.spend(READ_SECONDS)
        return bytes(self.drive.inode(path).data)

    def write_file(self, path: str, data: bytes) -> None:
        """A whole small file, not forced."""
        self.write(self._create(path), 0, data, path)

    def replace_file(self, path: str, data: bytes) -> None:
        """A whole small file, safely and all at once."""
        directory, name = _split(path)
        temporary = self._create(f"{path}.tmp")
        self.write(temporary, 0, data, path)
        self.spend(SYNC_SECONDS)
        temporary.sync()
        folder = self.drive.folder(directory)
        replaced = folder.entries.get(name)
        if isinstance(replaced, Inode):
            self.drive.used -= len(replaced.data)
        self.change(folder, {f"{name}.tmp": None, name: temporary})
        self.fsync_dir(directory)

    def listdir(self, path: str) -> list[str]:
        """Names in a directory."""
        self.check()
        return list(self.drive.folder(path).entries)

    def is_dir(self, path: str) -> bool:
        """Whether this is a directory."""
        self.check()
        return isinstance(self.drive.find(path), Folder)

    def exists(self, path: str) -> bool:
        """Whether anything has this name."""
        self.check()
        return self.drive.find(path) is not None

    def size(self, path: str) -> int:
        """The length of a file; raises FileNotFoundError."""
        self.check()
        return len(self.drive.inode(path).data)

    def modified_ms(self, path: str) -> int:
        """When the file was last written."""
        self.check()
        return self.drive.inode(path).modified_ms

    def set_modified_ms(self, path: str, ms: int) -> None:
        """Pretend the file was last written then."""
        self.check()
        self.drive.inode(path).modified_ms = ms

    def mkdir(self, path: str) -> None:
        """A directory and its parents, unless there."""
        self.check()
        folder, at = self.drive.root, ""
        for part in path.split("/"):
            if not part:
                continue
            at = f"{at}/{part}"
            found = folder.entries.get(part)
            if found is None:
                self.refuse(path)
                found = Folder()
                self.change(folder, {part: found})
            elif not isinstance(found, Folder):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), at)
            folder = found

    def rename(self, source: str, target: str) -> None:
        """Move a file or a directory; replaces a file that is there."""
        self.refuse(source)
        self.spend(WRITE_SECONDS)
        (here, old), (there, new) = _split(source), _split(target)
        origin, goal = self.drive.folder(here), self.drive.folder(there)
        entry = origin.entries.get(old)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        replaced = goal.entries.get(new)
        if isinstance(replaced, Folder) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        if isinstance(replaced, Inode) and replaced is not entry:
            self.drive.used -= len(replaced.data)
        if origin is goal:
            self.change(origin, {old: None, new: entry})
        else:
            self.change(goal, {new: entry})
            self.change(origin, {old: None})

    def unlink(self, path: str) -> None:
        """Remove a file if it is there."""
        self.check()
        directory, name = _split(path)
        folder = self.drive.find(directory)
        if isinstance(folder, Folder) and (found := folder.entries.get(name)) is not None:
            self.refuse(path)
            if isinstance(found, Folder):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            self.drive.used -= len(found.data)
            self.change(folder, {name: None})

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it."""
        self.refuse(path)
        directory, name = _split(path)
        self.drive.used -= _size_of(self.drive.folder(path))
        self.change(self.drive.folder(directory), {name: None})

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory safe."""
        self.refuse(path)
        self.spend(SYNC_SECONDS)
        self.drive.folder(path).sync()

    def sync_filesystem(self, path: str) -> None:
        """Make everything safe."""
        self.refuse(path)
        self.spend(4 * SYNC_SECONDS)
        folders = [self.drive.root]
        while folders:
            folder = folders.pop()
            folder.sync()
            for entry in folder.entries.values():
                if isinstance(entry, Folder):
                    folders.append(entry)
                else:
                    entry.sync()

    def lock(self, path: str) -> SimLock | None:
        """Lock a file, or None if it is locked."""
        self.check()
        if path in self.drive.locks:
            return None
        if self.drive.find(path) is None:
            self._create(path)
        self.drive.locks.add(path)
        return SimLock(self.drive, path)

    def free_bytes(self, path: str) -> int:
        """Bytes that may still be written."""
        return max(0, self.drive.capacity - self.drive.used)

    def total_bytes(self, path: str) -> int:
        """All bytes of the disk."""
        return self.drive.capacity
