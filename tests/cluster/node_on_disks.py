"""`kavka serve` on log directories that fail when told to: while DIR.fails exists, DIR says what error stands there."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from kavka.broker.config import load_config
from kavka.broker.main import run_node
from kavka.storage.disk import Buffer, RealDisk, RealFile

FLAG = ".fails"


class FailingFile(RealFile):
    """A file of a directory that may fail."""

    __slots__ = ()

    _disk: FailingDisk

    def write_at(self, position: int, buffers: Sequence[Buffer], length: int) -> None:
        """Write, unless the directory fails."""
        self._disk.meet(self.path)
        super().write_at(position, buffers, length)

    def read_at(self, position: int, length: int) -> bytes:
        """Read, unless the directory fails."""
        self._disk.meet(self.path)
        return super().read_at(position, length)

    def truncate(self, size: int) -> None:
        """Cut, unless the directory fails."""
        self._disk.meet(self.path)
        super().truncate(size)

    def sync(self) -> None:
        """Force, unless the directory fails."""
        self._disk.meet(self.path)
        super().sync()


class FailingDisk(RealDisk):
    """The operating system's files, in directories that fail while they have a flag."""

    __slots__ = ("_flags",)

    def __init__(self, directories: Sequence[str]) -> None:
        super().__init__()
        self._flags = {f"{path}/": f"{path}{FLAG}" for path in directories}

    def meet(self, path: str) -> None:
        """Raise if what is there fails."""
        for directory, flag in self._flags.items():
            if path.startswith(directory) and os.path.exists(flag):
                with open(flag, encoding="utf-8") as file:
                    code = int(file.read())
                raise OSError(code, os.strerror(code), path)

    def file(self, path: str) -> FailingFile:
        """A file that exists."""
        return FailingFile(self, path)

    def create(self, path: str) -> FailingFile:
        """A new file."""
        self.meet(path)
        super().create(path).close()
        return FailingFile(self, path)

    def replace_file(self, path: str, data: bytes) -> None:
        """A small file."""
        self.meet(path)
        super().replace_file(path, data)

    def rename(self, source: str, target: str) -> None:
        """Another name."""
        self.meet(source)
        super().rename(source, target)


def main() -> int:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--config")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--ready-file")
    parser.add_argument("--override", action="append", default=[])
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    config = load_config(options.config, overrides=options.override, data_dir=options.data_dir)
    disk = FailingDisk(options.data_dir.split(","))
    return run_node(config=config, ready_file=options.ready_file, disk=disk)


if __name__ == "__main__":
    sys.exit(main())
