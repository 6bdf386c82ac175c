"""A rival's processes: started together on given cores, counted together, ended together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_POLL_S = 0.005
STOP_S = 20.0


@contextlib.contextmanager
def on_cores(cores: frozenset[int]) -> Iterator[None]:
    """This thread, and what it starts, on some cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def split_cores(available: frozenset[int]) -> tuple[frozenset[int], frozenset[int]]:
    """The brokers' cores and the client's: halves, or all for both where there is only one."""
    ordered = sorted(available)
    half = len(ordered) // 2
    return (frozenset(ordered[:-half]), frozenset(ordered[-half:])) if half else (available, available)


def members(leaders: frozenset[int], parents: Mapping[int, int]) -> frozenset[int]:
    """The leaders and all their descendants among the processes (child: parent)."""
    found = set(leaders & parents.keys())
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return frozenset(found)
        found |= more


class Family:
    """Processes, each the leader of a session of its own, so that nothing reaches them but through this."""

    def __init__(self, cores: frozenset[int]) -> None:
        self._cores = cores
        self._leaders: list[subprocess.Popen[bytes]] = []

    def start(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start one more process."""
        with log.open("ab") as output, on_cores(self._cores):
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._leaders.append(process)
        return process

    def ended(self) -> int | None:
        """The exit status of one that ended by itself; None while all of them run."""
        return next((process.returncode for process in self._leaders if process.poll() is not None), None)

    def cpu_seconds(self) -> float:
        """User and system time of all of them so far."""
        ticks = 0
        for pid in self._pids():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / _TICKS

    def rss_bytes(self) -> int:
        """Memory that all of them have resident now."""
        pages = 0
        for pid in self._pids():
            with contextlib.suppress(OSError):
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * _PAGE

    def end(self) -> None:
        """Ask them to stop; kill what does not."""
        try:
            for process in self._leaders:
                if process.poll() is None:
                    process.terminate()
            deadline = time.monotonic() + STOP_S
            for process in self._leaders:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            self.kill()

    def kill(self) -> None:
        """End all of them now; when it returns, none is left to write to its files."""
        pids = self._pids()
        for process in self._leaders:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for process in self._leaders:
            process.wait()
        deadline = time.monotonic() + STOP_S
        while any(map(_runs, pids)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self._leaders.clear()

    def _pids(self) -> frozenset[int]:
        leaders = frozenset(process.pid for process in self._leaders if process.returncode is None)
        return members(leaders, _parents())


def _parents() -> dict[int, int]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    return found


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
