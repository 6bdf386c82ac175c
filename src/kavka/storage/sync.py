"""Forcing a log to the device away from the thread that writes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kavka.storage.disk import Disk, DiskFile


class SyncJob:
    """What to force so that a log is durable up to an offset.

    The log's thread makes it, `run` may be called on any other, and then the log's thread gives it to `Log.synced`.
    """

    __slots__ = ("_dirs", "_disk", "_files", "_texts", "error", "offset")

    def __init__(
        self,
        disk: Disk,
        offset: int,
        sync_files: Iterable[DiskFile],
        texts: Sequence[tuple[str, bytes]],
        dirs: Sequence[str],
    ) -> None:
        self._disk = disk
        self.offset = offset
        self._files = list(sync_files)
        self._texts = texts
        self._dirs = dirs
        self.error: OSError | None = None
        for file in self._files:
            file.pin()

    def run(self) -> None:
        """Force everything; an error is kept in `error`."""
        try:
            for file in self._files:
                file.sync()
            for path, data in self._texts:
                self._disk.replace_file(path, data)
            for path in self._dirs:
                self._disk.fsync_dir(path)
        except FileNotFoundError:
            pass  # the log was deleted meanwhile, and its files with it
        except OSError as error:
            self.error = error

    def release(self) -> None:
        """Let go of the files; the log's thread does this."""
        for file in self._files:
            file.unpin()
        self._files = []
