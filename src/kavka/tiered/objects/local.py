"""A directory as an object store: files under a root, written aside and moved into place.

Everything that touches the disk runs in the threads that the store is given. What is aside is locked for as long as
somebody writes it, on whatever node: a file there that nobody has locked was left by one that died.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import TypeVar

from kavka.tiered.objects.base import (
    Content,
    ObjectCorrupt,
    ObjectInfo,
    ObjectNotFound,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)

T = TypeVar("T")

_ASIDE = ".kavka-tmp"
_PAGE = 1000
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class LocalStore:
    """The files under a root, by their path from there."""

    def __init__(self, root: str, threads: Executor) -> None:
        self.root = os.path.abspath(root)
        self._threads = threads

    async def put(self, key: str, content: Content) -> int:
        """Write a file aside, force it to the device, and move it into place."""
        aside = _Aside(os.path.join(self.root, _ASIDE), self._path(key))
        step: Future[None] | None = None
        size = 0
        try:
            async for chunk in content.chunks():
                step = self._threads.submit(aside.write, chunk)
                await _result(step)
                size += len(chunk)
            step = self._threads.submit(aside.finish)
            await _result(step)
        except BaseException:
            aside.abandoned = True
            if step is not None:  # whoever gave up does not wait for a thread that hangs: that cleans up by itself
                step.add_done_callback(lambda _: self._later(aside.discard))
            raise
        return size

    async def read(self, key: str, start: int, length: int) -> bytes:
        """Exactly these bytes of a file."""
        path = self._path(key)
        data = await self._run(lambda: _read(path, start, length))
        if len(data) != length:
            raise ObjectCorrupt(f"{key} has {len(data)} bytes from {start} on, not {length}")
        return data

    async def head(self, key: str) -> ObjectInfo:
        """Size and time of a file."""
        path = self._path(key)
        return await self._run(lambda: _info(key, path))

    async def list_page(self, prefix: str, after: str) -> list[ObjectInfo]:
        """Some files under a directory, by path."""
        top = self._path(prefix) if prefix else self.root
        return await self._run(lambda: list(itertools.islice(_walk(self.root, top, after), _PAGE)))

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove files, and the directories that they leave empty."""
        paths = [self._path(key) for key in keys]

        def remove() -> None:
            for path in paths:
                _remove(path)
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.dirname(path))  # refuses while anything is in it

        await self._run(remove)

    async def abandoned(self, *, remove: bool) -> list[ObjectInfo]:
        """Files that lie aside and that nobody writes."""
        return await self._run(lambda: list(_abandoned(os.path.join(self.root, _ASIDE), remove=remove)))

    def _path(self, key: str) -> str:
        parts = key.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise StoreRefused(f"{key!r} is no key")
        return os.path.join(self.root, *parts)

    async def _run(self, work: Callable[[], T]) -> T:
        return await _result(self._threads.submit(work))

    def _later(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the threads have ended; what lies aside is never listed
            self._threads.submit(work)


class _Aside:
    """A file that is written where nobody looks, and then moved."""

    __slots__ = ("_fd", "_folder", "_path", "_target", "abandoned")

    def __init__(self, folder: str, target: str) -> None:
        self._folder = folder
        self._path = ""
        self._target = target
        self._fd = -1
        self.abandoned = False
        """Whether nobody waits for it any more: it must not turn up where it was deleted meanwhile."""

    def write(self, data: bytes) -> None:
        self._open()
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def finish(self) -> None:
        self._open()
        os.fsync(self._fd)
        if self.abandoned:
            return
        folder = os.path.dirname(self._target)
        try:
            _make_folder(folder)
            os.replace(self._path, self._target)
        except FileNotFoundError:  # the folder was empty, and a deletion took it
            _make_folder(folder)
            os.replace(self._path, self._target)
        self._close()
        _force(folder)

    def discard(self) -> None:
        if self._path:
            _remove(self._path)
        self._close()

    def _open(self) -> None:
        while self._fd < 0:
            os.makedirs(self._folder, exist_ok=True)
            path = os.path.join(self._folder, os.urandom(16).hex())
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)
            try:
                ours = _lock(fd) and os.fstat(fd).st_nlink > 0
            except OSError:
                ours = True  # where there are no locks, nobody takes it for abandoned either
            if ours:
                self._fd, self._path = fd, path
            else:  # somebody looked for abandoned ones just now
                os.close(fd)
                _remove(path)

    def _close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


async def _result(step: Future[T]) -> T:
    try:
        return await asyncio.wrap_future(step)
    except OSError as error:
        raise _typed(error) from error


def _typed(error: OSError) -> StoreError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ObjectNotFound(str(error))
    if error.errno in _FULL:
        return StoreFull(str(error))
    if error.errno in _REFUSED:
        return StoreRefused(str(error))
    return StoreUnavailable(str(error))


def _read(path: str, start: int, length: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        parts, position = [], start
        while position < start + length and (data := os.pread(file.fileno(), start + length - position, position)):
            parts.append(data)
            position += len(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _info(key: str, path: str) -> ObjectInfo:
    stat = os.stat(path)
    return ObjectInfo(key, stat.st_size, stat.st_mtime_ns // 1_000_000)


def _make_folder(path: str) -> None:
    """Make a directory that a power cut does not take: each is forced to the device where it is named."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        os.makedirs(each, exist_ok=True)
        _force(os.path.dirname(each))


def _force(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _lock(fd: int) -> bool:
    """Lock a file until it is closed; False if another has locked it."""
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _abandoned(folder: str, *, remove: bool) -> Iterator[ObjectInfo]:
    """Files of a directory that nobody has locked."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    for name in names:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):  # moved into place, another's, or without locks: it is left alone
            fd = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
            try:
                if _lock(fd) and os.path.samestat(os.fstat(fd), os.stat(path)):
                    info = _info(f"{_ASIDE}/{name}", path)
                    if remove:
                        _remove(path)
                    yield info
            finally:
                os.close(fd)


def _walk(root: str, top: str, after: str) -> Iterator[ObjectInfo]:
    """Files under a directory in the order of their keys, from after a key on."""
    try:
        with os.scandir(top) as found:
            entries = [
                (f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name, entry.path) for entry in found
            ]
    except FileNotFoundError:
        return
    for name, path in sorted(entries):
        key = os.path.relpath(path, root).replace(os.sep, "/")
        if key.split("/", 1)[0] == _ASIDE:
            continue
        if name.endswith("/"):
            if f"{key}0" > after:  # "0" is what comes after "/": some key below may be greater
                yield from _walk(root, path, after)
        elif key > after:
            with contextlib.suppress(FileNotFoundError):
                yield _info(key, path)
