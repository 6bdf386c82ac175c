"""The disk as a port: every file the storage package touches is opened through a `Disk`.

Errors are plain `OSError`; the log that met one decides what it means. A `DiskFile` is only a name until it is first
used, and its descriptor may be taken back while nobody has it pinned: it reopens by itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol
from weakref import ref

Buffer = bytes | bytearray | memoryview

_FILE_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
_MIN_OPEN_FILES = 64
_IOV_MAX = 1024


class DiskFile(Protocol):
    """One file, opened when first needed; satisfies `model.types.PinnedFile`."""

    @property
    def path(self) -> str:
        """Where the file is now; follows renames made through this object."""

    def write_at(self, position: int, buffers: Sequence[Buffer], length: int) -> None:
        """Write all buffers, `length` bytes together, in order from a position."""

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    def truncate(self, size: int) -> None:
        """Cut or extend the file to a size."""

    def sync(self) -> None:
        """Force what was written to the device; may be called from a thread while pinned."""

    def size(self) -> int:
        """The file's length in bytes."""

    def fileno(self) -> int:
        """The descriptor; valid until the next call unless pinned."""

    def pin(self) -> None:
        """Keep the descriptor open until the matching unpin."""

    def unpin(self) -> None:
        """Give the descriptor back."""

    def rename(self, path: str) -> None:
        """Move the file; replaces what is there."""

    def moved(self, path: str) -> None:
        """Be told that the file's directory was renamed."""

    def unlink(self) -> None:
        """Remove the file; a pinned descriptor keeps reading until it is unpinned."""

    def close(self) -> None:
        """Give the descriptor back now; using the file again reopens it."""


class DiskLock(Protocol):
    """A held lock on a directory."""

    def release(self) -> None:
        """Let others have it."""


class Disk(Protocol):
    """Where files live."""

    def file(self, path: str) -> DiskFile:
        """A file that exists; nothing is opened yet."""

    def create(self, path: str) -> DiskFile:
        """A new empty file, in place of any that is there."""

    def read_file(self, path: str) -> bytes:
        """A whole small file; raises FileNotFoundError."""

    def write_file(self, path: str, data: bytes) -> None:
        """A whole small file, not forced to the device."""

    def replace_file(self, path: str, data: bytes) -> None:
        """A whole small file, durably and all at once: after a crash the old bytes or the new, never a mixture."""

    def listdir(self, path: str) -> list[str]:
        """Names in a directory."""

    def is_dir(self, path: str) -> bool:
        """Whether this is a directory."""

    def exists(self, path: str) -> bool:
        """Whether anything has this name."""

    def size(self, path: str) -> int:
        """The length of a file; raises FileNotFoundError."""

    def modified_ms(self, path: str) -> int:
        """When the file was last written."""

    def set_modified_ms(self, path: str, ms: int) -> None:
        """Pretend the file was last written then."""

    def mkdir(self, path: str) -> None:
        """A directory and its parents, unless there."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or a directory; replaces a file that is there."""

    def unlink(self, path: str) -> None:
        """Remove a file if it is there."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it."""

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""

    def sync_filesystem(self, path: str) -> None:
        """Make everything written so far on this directory's file system durable, in one go."""

    def lock(self, path: str) -> DiskLock | None:
        """Lock a file against other processes (a JVM broker included), or None if it is locked."""

    def free_bytes(self, path: str) -> int:
        """Bytes that may still be written on this directory's file system."""

    def total_bytes(self, path: str) -> int:
        """Bytes of this directory's file system."""


class RealFile:
    """A file of the operating system."""

    __slots__ = ("__weakref__", "_disk", "_fd", "_gone", "_pins", "_used", "path")

    def __init__(self, disk: RealDisk, path: str, fd: int = -1) -> None:
        self.path = path
        self._disk = disk
        self._fd = fd
        self._pins = 0
        self._used = True
        self._gone = False

    def fileno(self) -> int:
        """The descriptor, opened if it is not."""
        if self._fd < 0:
            if self._gone:
                raise FileNotFoundError(errno.ENOENT, "the file was removed", self.path)
            self._fd = os.open(self.path, _FILE_FLAGS)
            self._disk.opened(self)
        self._used = True
        return self._fd

    def write_at(self, position: int, buffers: Sequence[Buffer], length: int) -> None:
        """Write all buffers, `length` bytes together, in order from a position."""
        fd = self._fd
        if fd < 0:
            fd = self.fileno()
        self._used = True
        if len(buffers) == 1:
            written = os.pwrite(fd, buffers[0], position)
        else:
            written = os.pwritev(fd, buffers, position) if len(buffers) <= _IOV_MAX else 0
        if written != length:
            # A short write says that something is wrong without saying what: going on raises it.
            self._write_rest(fd, position + written, memoryview(b"".join(buffers))[written:])

    @staticmethod
    def _write_rest(fd: int, position: int, rest: memoryview) -> None:
        while rest:
            count = os.pwrite(fd, rest, position)
            position += count
            rest = rest[count:]

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        fd = self._fd
        if fd < 0:
            fd = self.fileno()
        self._used = True
        data = os.pread(fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        done = len(data)
        while done < length:
            data = os.pread(fd, length - done, position + done)
            if not data:
                break
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        """Cut or extend the file to a size."""
        os.ftruncate(self.fileno(), size)

    def sync(self) -> None:
        """Force the data, and the length, to the device."""
        os.fdatasync(self.fileno())

    def size(self) -> int:
        """The file's length in bytes."""
        return os.fstat(self._fd).st_size if self._fd >= 0 else os.stat(self.path).st_size

    def pin(self) -> None:
        """Keep the descriptor open until the matching unpin."""
        self.fileno()
        self._pins += 1

    def unpin(self) -> None:
        """Give the descriptor back."""
        self._pins -= 1
        if self._pins == 0 and self._gone:
            self.close()

    def rename(self, path: str) -> None:
        """Move the file; replaces what is there."""
        os.rename(self.path, path)
        self.path = path

    def moved(self, path: str) -> None:
        """Be told that the file's directory was renamed."""
        self.path = path

    def unlink(self) -> None:
        """Remove the file; a pinned descriptor keeps reading until it is unpinned."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self._gone = True
        if self._pins == 0:
            self.close()

    def close(self) -> None:
        """Give the descriptor back now, unless it is pinned."""
        if self._fd >= 0 and self._pins == 0:
            fd, self._fd = self._fd, -1
            self._disk.closing(fd)
            os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            self._disk.closing(self._fd)
            os.close(self._fd)

    def spare(self) -> bool:
        """Whether the descriptor may be taken back; a second chance for one that was just used."""
        if self._pins:
            return False
        if self._used:
            self._used = False
            return False
        return True


class RealLock:
    """A lock held through an open descriptor."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Let others have it."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class RealDisk:
    """The operating system's files, with at most `max_open` descriptors held between uses."""

    __slots__ = ("_open", "max_open")

    def __init__(self, max_open: int | None = None) -> None:
        self.max_open = max(1, max_open) if max_open is not None else _default_max_open()
        # Only open files, and only by reference: one that nobody has any more gives its descriptor back by itself.
        # Its end may come on any thread, so every step here is one call.
        self._open: OrderedDict[int, ref[RealFile]] = OrderedDict()

    @property
    def open_files(self) -> int:
        """How many descriptors are held now."""
        return len(self._open)

    def opened(self, file: RealFile) -> None:
        """Count a descriptor; over the limit, take one back from a file nobody used lately (the clock algorithm)."""
        held = self._open
        held[file._fd] = ref(file)
        if len(held) <= self.max_open:
            return
        for _ in range(2 * len(held)):
            fd, reference = held.popitem(last=False)
            candidate = reference()
            if candidate is None:
                return
            if candidate is not file and candidate.spare():
                candidate.close()
                return
            held[fd] = reference

    def closing(self, fd: int) -> None:
        """A descriptor is about to be closed."""
        self._open.pop(fd, None)

    def file(self, path: str) -> RealFile:
        """A file that exists; nothing is opened yet."""
        return RealFile(self, path)

    def create(self, path: str) -> RealFile:
        """A new empty file, in place of any that is there."""
        file = RealFile(self, path, os.open(path, _FILE_FLAGS | os.O_CREAT | os.O_TRUNC, 0o644))
        self.opened(file)
        return file

    def read_file(self, path: str) -> bytes:
        """A whole small file; raises FileNotFoundError."""
        fd = os.open(path, os.O_RDONLY)
        try:
            parts = []
            while part := os.read(fd, 1 << 20):
                parts.append(part)
                if len(part) < 1 << 16:
                    break
            return b"".join(parts)
        finally:
            os.close(fd)

    def write_file(self, path: str, data: bytes) -> None:
        """A whole small file, not forced to the device."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            _write_all(fd, data)
        finally:
            os.close(fd)

    def replace_file(self, path: str, data: bytes) -> None:
        """A whole small file, durably and all at once: after a crash the old bytes or the new, never a mixture."""
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
        self.fsync_dir(os.path.dirname(path))

    def listdir(self, path: str) -> list[str]:
        """Names in a directory."""
        return os.listdir(path)

    def is_dir(self, path: str) -> bool:
        """Whether this is a directory."""
        return os.path.isdir(path)

    def exists(self, path: str) -> bool:
        """Whether anything has this name."""
        return os.path.exists(path)

    def size(self, path: str) -> int:
        """The length of a file; raises FileNotFoundError."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """When the file was last written."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, ms: int) -> None:
        """Pretend the file was last written then."""
        os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))

    def mkdir(self, path: str) -> None:
        """A directory and its parents, unless there."""
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Move a file or a directory; replaces a file that is there."""
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it."""
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    self.remove_tree(entry.path)
                else:
                    self.unlink(entry.path)
        os.rmdir(path)

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        fd = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_filesystem(self, path: str) -> None:
        """Make everything written so far on this directory's file system durable, in one go."""
        import ctypes  # costs some milliseconds, and only a clean stop comes here

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
            return
        fd = os.open(path, os.O_RDONLY)
        try:
            if syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), path)
        finally:
            os.close(fd)

    def lock(self, path: str) -> RealLock | None:
        """Lock a file against other processes (a JVM broker included), or None if it is locked."""
        import fcntl

        fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            if hasattr(fcntl, "F_OFD_SETLK"):
                # Java's FileChannel takes POSIX record locks, which these conflict with; but these belong to the
                # descriptor, so a second node in the same process is refused as well.
                import struct

                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            else:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        return RealLock(fd)

    def free_bytes(self, path: str) -> int:
        """Bytes that may still be written on this directory's file system."""
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def total_bytes(self, path: str) -> int:
        """Bytes of this directory's file system."""
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _default_max_open() -> int:
    """Half of what the process may open: the other half is for connections."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 16
    return max(_MIN_OPEN_FILES, soft // 2)
