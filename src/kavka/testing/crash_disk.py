"""A disk that remembers what was forced to the device, so that a crash of the machine can be played afterwards.

A process that is killed leaves its writes in the page cache; a machine that loses power does not. `CrashDisk` notes in
a journal every size that was fsynced and every change of names that a directory's fsync has not covered yet;
`cut_back`, in another process, then undoes what a power failure might have.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from typing import Any

from kavka.storage.disk import RealDisk, RealFile

_Op = dict[str, Any]


class CrashFile(RealFile):
    """A file whose forced sizes go into the journal."""

    __slots__ = ()

    _disk: CrashDisk

    def sync(self) -> None:
        """Force to the device, and note what is durable now."""
        size = self.size()
        super().sync()
        self._disk.note(op="sync", path=self.path, size=size)

    def truncate(self, size: int) -> None:
        """Cut, and note that no more than this is durable."""
        super().truncate(size)
        self._disk.note(op="truncate", path=self.path, size=size)

    def rename(self, path: str) -> None:
        """Move, so that it can be undone."""
        self._disk.rename(self.path, path)
        self.path = path

    def unlink(self) -> None:
        """Remove, so that it can be undone."""
        if os.path.exists(self.path):
            self._disk.note(op="unlink", path=self.path, backup=self._disk.keep(self.path))
        super().unlink()


class CrashDisk(RealDisk):
    """The operating system's files under a root, with a journal beside it."""

    __slots__ = ("_journal", "_kept", "_yard", "root")

    def __init__(self, journal: str, root: str, max_open: int | None = None) -> None:
        super().__init__(max_open)
        self.root = root
        self._yard = journal + ".yard"
        os.makedirs(self._yard, exist_ok=True)
        self._kept = len(os.listdir(self._yard))
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._note_all()

    def note(self, **fields: Any) -> None:
        """Add a line to the journal."""
        os.write(self._journal, json.dumps(fields).encode() + b"\n")

    def keep(self, path: str) -> str:
        """A second name for a file that is about to lose its own."""
        self._kept += 1
        backup = f"{self._yard}/{self._kept}"
        os.link(path, backup)
        return backup

    def file(self, path: str) -> CrashFile:
        """A file that exists; nothing is opened yet."""
        return CrashFile(self, path)

    def create(self, path: str) -> CrashFile:
        """A new empty file, in place of any that is there."""
        self.unlink(path)
        file = CrashFile(self, path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644))
        self.opened(file)
        self.note(op="create", path=path)
        return file

    def write_file(self, path: str, data: bytes) -> None:
        """A whole small file, not forced to the device: what it held before is lost as well."""
        new = not os.path.exists(path)
        super().write_file(path, data)
        self.note(op="create" if new else "truncate", path=path, size=0)

    def replace_file(self, path: str, data: bytes) -> None:
        """A whole small file, durably and all at once."""
        temporary = path + ".tmp"
        super().write_file(temporary, data)
        self.note(op="create", path=temporary)
        file = self.file(temporary)
        file.sync()
        file.close()
        self.rename(temporary, path)
        self.fsync_dir(os.path.dirname(path))

    def mkdir(self, path: str) -> None:
        """A directory and its parents, unless there."""
        if not os.path.isdir(path):
            super().mkdir(path)
            self.note(op="mkdir", path=path)

    def rename(self, source: str, target: str) -> None:
        """Move, so that it can be undone."""
        backup = self.keep(target) if os.path.isfile(target) else None
        super().rename(source, target)
        self.note(op="rename", path=target, source=source, backup=backup)

    def unlink(self, path: str) -> None:
        """Remove a file if it is there, so that it can be undone."""
        if os.path.exists(path):
            self.note(op="unlink", path=path, backup=self.keep(path))
            super().unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it; this is never undone."""
        super().remove_tree(path)
        self.note(op="remove", path=path)

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        super().fsync_dir(path)
        self.note(op="fsync_dir", path=path)

    def sync_filesystem(self, path: str) -> None:
        """Make everything under the root durable."""
        super().sync_filesystem(path)
        self._note_all()

    def _note_all(self) -> None:
        self.note(op="all", sizes={path: os.path.getsize(path) for path in _files_under(self.root)})


class _Journal:
    """What is durable, as the journal tells it."""

    def __init__(self, path: str) -> None:
        self.durable: dict[str, int] = {}
        self.undoable: list[_Op] = []
        with open(path, "rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # the last may be torn by the kill
                    self._apply(json.loads(line))

    def _apply(self, op: _Op) -> None:
        kind, path = op["op"], op.get("path", "")
        if kind == "all":
            self.durable = dict(op["sizes"])
            self.undoable = []
        elif kind == "sync":
            self.durable[path] = op["size"]
        elif kind == "truncate":
            self.durable[path] = min(self.durable.get(path, 0), op["size"])
        elif kind == "fsync_dir":
            self.undoable = [other for other in self.undoable if os.path.dirname(other["path"]) != path]
        elif kind == "remove":
            self.undoable = [other for other in self.undoable if not _inside(other["path"], path)]
        else:
            self._rename(op)

    def _rename(self, op: _Op) -> None:
        """Note a change of names, and carry what is known of a file to its new name."""
        path = op["path"]
        op["size"] = self.durable.pop(path, 0)
        if op["op"] == "rename":
            source = op["source"]
            moved = {name: size for name, size in self.durable.items() if _inside(name, source)}
            for name, size in moved.items():
                del self.durable[name]
                self.durable[path + name[len(source) :]] = size
            for other in self.undoable:
                for key in ("path", "source"):
                    if key in other and _inside(other[key], source) and other[key] != source:
                        other[key] = path + other[key][len(source) :]
        elif op["op"] == "create":
            self.durable[path] = 0
        self.undoable.append(op)


def cut_back(journal: str, root: str, rng: random.Random) -> list[str]:
    """Undo what a power failure might have: names not forced, bytes not forced; one file is torn at random.

    Of each directory's changes of names the last few are undone, in order, as a journalling file system would.
    Returns what was done, one line each.
    """
    state = _Journal(journal)
    keep: dict[str, int] = {}
    for op in state.undoable:
        directory = os.path.dirname(op["path"])
        keep[directory] = keep.get(directory, 0) + 1
    kept = {directory: rng.randint(0, count) for directory, count in keep.items()}
    undo = []
    for op in state.undoable:
        directory = os.path.dirname(op["path"])
        if kept[directory] > 0:
            kept[directory] -= 1
        else:
            undo.append(op)
    done = [f"undid {op['op']} of {op['path']}" for op in reversed(undo) if _undo(op, state.durable)]
    cut = [path for path in _files_under(root) if os.path.getsize(path) > state.durable.get(path, 0)]
    torn = rng.choice(cut) if cut else None
    for path in cut:
        size, durable = os.path.getsize(path), state.durable.get(path, 0)
        left = rng.randint(durable, size) if path == torn else durable
        os.truncate(path, left)
        done.append(f"cut {path} from {size} to {left}")
    return done


def _undo(op: _Op, durable: dict[str, int]) -> bool:
    path = op["path"]
    if not os.path.lexists(path) and op["op"] != "unlink":
        return False
    if op["op"] == "mkdir":
        RealDisk(max_open=1).remove_tree(path)
    elif op["op"] == "create":
        os.unlink(path)
    elif op["op"] == "unlink":
        if not os.path.isdir(os.path.dirname(path)) or os.path.lexists(path):
            return False
        os.link(op["backup"], path)
        durable[path] = op["size"]
    else:
        os.rename(path, op["source"])
        for name in [name for name in durable if _inside(name, path)]:
            durable[op["source"] + name[len(path) :]] = durable.pop(name)
        if op["backup"]:
            os.link(op["backup"], path)
            durable[path] = op["size"]
    return True


def _inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")


def _files_under(root: str) -> Iterator[str]:
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path):
                yield path
