"""A directory as an object store: files under a root, written aside and moved into place.

Everything that touches the disk runs in the threads that the store is given.
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
        self._numbers = itertools.count()

    async def put(self, key: str, content: Content) -> int:
        """Write a file aside, force it to the device, and move it into place."""
        aside = _Aside(os.path.join(self.root, _ASIDE, f"{os.getpid()}-{next(self._numbers)}"), self._path(key))
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

    __slots__ = ("_fd", "_path", "_target", "abandoned")

    def __init__(self, path: str, target: str) -> None:
        self._path = path
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
        self._close()
        if self.abandoned:
            return
        folder = os.path.dirname(self._target)
        try:
            os.makedirs(folder, exist_ok=True)
            os.replace(self._path, self._target)
        except FileNotFoundError:  # the folder was empty, and a deletion took it
            os.makedirs(folder, exist_ok=True)
            os.replace(self._path, self._target)
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def discard(self) -> None:
        self._close()
        _remove(self._path)

    def _open(self) -> None:
        if self._fd < 0:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
            self._fd = os.open(self._path, flags, 0o644)

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


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


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
