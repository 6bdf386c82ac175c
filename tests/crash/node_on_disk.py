"""`kavka serve` on a disk that misbehaves: `node_on_disk.py journal FILE serve ...` or `... full FLAG serve ...`.

With `journal`, every fsync is noted in FILE, so that a power failure can be played afterwards. With `full`, the disk
has no space left while the file FLAG exists.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Sequence

from kavka.broker.config import load_config
from kavka.broker.main import run_node
from kavka.storage.disk import Buffer, Disk, RealDisk, RealFile
from kavka.testing.crash_disk import CrashDisk


class FullFile(RealFile):
    """A file that cannot grow while the disk is full."""

    __slots__ = ()

    _disk: FullDisk

    def write_at(self, position: int, buffers: Sequence[Buffer], length: int) -> None:
        """Write, if there is space."""
        self._disk.need_space(self.path)
        super().write_at(position, buffers, length)


class FullDisk(RealDisk):
    """The operating system's files; no space is left while a flag exists."""

    __slots__ = ("_flag",)

    def __init__(self, flag: str) -> None:
        super().__init__()
        self._flag = flag

    def need_space(self, path: str) -> None:
        """Raise if there is none."""
        if os.path.exists(self._flag):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def file(self, path: str) -> FullFile:
        """A file that exists."""
        return FullFile(self, path)

    def create(self, path: str) -> FullFile:
        """A new file, if there is space."""
        self.need_space(path)
        super().create(path).close()
        return FullFile(self, path)

    def write_file(self, path: str, data: bytes) -> None:
        """A small file, if there is space."""
        self.need_space(path)
        super().write_file(path, data)

    def replace_file(self, path: str, data: bytes) -> None:
        """A small file, if there is space."""
        self.need_space(path)
        super().replace_file(path, data)

    def mkdir(self, path: str) -> None:
        """A directory, if there is space."""
        if not os.path.isdir(path):
            self.need_space(path)
        super().mkdir(path)


def main() -> int:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["journal", "full"])
    parser.add_argument("file")
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--console")
    parser.add_argument("--ready-file")
    parser.add_argument("--override", action="append", default=[])
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    disk: Disk = CrashDisk(options.file, options.data_dir) if options.kind == "journal" else FullDisk(options.file)
    config = load_config(overrides=options.override, data_dir=options.data_dir, listen=options.listen)
    return run_node(config=config, ready_file=options.ready_file, disk=disk)


if __name__ == "__main__":
    sys.exit(main())
