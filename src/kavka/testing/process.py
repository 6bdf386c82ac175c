"""One `kavka serve` process: started, waited for, stopped, killed, held still, and its last words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_POLL_SECONDS = 0.002
_TAIL_LINES = 30


class NodeError(RuntimeError):
    """The node did not start, or ended when it should not have; the message ends with its log."""


class NodeProcess:
    """A process that writes a ready file, with its log and that file in a directory of its own."""

    def __init__(self, scratch: Path, env: Mapping[str, str], timeout: float) -> None:
        self._scratch = scratch
        self._env = dict(env)
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._log_began = 0
        self.ready: dict[str, Any] = {}
        """What the node told when it was last ready."""
        self.started_in_seconds = 0.0

    @property
    def ready_file(self) -> Path:
        """What the process writes when it serves requests."""
        return self._scratch / "ready.json"

    @property
    def log_file(self) -> Path:
        """Where the node's words go."""
        return self._scratch / "node.log"

    @property
    def log(self) -> str:
        """Everything the node has printed, over all its starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def words(self) -> list[str]:
        """The lines that the node has printed since its last start."""
        if not self.log_file.exists():
            return []
        with self.log_file.open("rb") as log:
            log.seek(self._log_began)
            return log.read().decode(errors="replace").splitlines()

    @property
    def cause(self) -> str:
        """Why the node ended, by its own words."""
        said = [line for line in self.words if line.strip()]
        told = [line.removeprefix("kavka: ") for line in said if line.startswith("kavka: ")]
        return (told or said or ["it said nothing"])[-1]

    @property
    def pid(self) -> int:
        """The process id."""
        if self._process is None:
            raise NodeError("the node does not run")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def spawn(self, command: Sequence[str]) -> None:
        """Start the process; `await_ready` waits until it serves."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        self.ready_file.unlink(missing_ok=True)
        self._began = time.monotonic()
        self._log_began = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = self._popen(command, log)

    def await_ready(self) -> None:
        """Return when requests are served; raises NodeError, and the process is gone then."""
        try:
            while not self.ready_file.exists():
                self._check(self._began + self._timeout)
                time.sleep(_POLL_SECONDS)
        except BaseException:
            self.kill()
            raise
        self.ready = json.loads(self.ready_file.read_bytes())
        self.started_in_seconds = time.monotonic() - self._began

    def kill(self) -> None:
        """End the process with SIGKILL: nothing is flushed, nothing is said."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Hold the process still (SIGSTOP): it keeps its connections and answers nobody."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def await_end(self, timeout: float) -> int:
        """Wait for the end and return the exit code; raises NodeError, and the process is killed then."""
        if self._process is None:
            return 0
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeError(f"the node did not stop within {timeout:g} s{self.tail()}") from None
        self._process = None
        return code

    def tail(self) -> str:
        """The last words since its start, for a message."""
        lines = self.words[-_TAIL_LINES:]
        return "; its last words:\n" + "\n".join(lines) if lines else " and said nothing"

    def _check(self, deadline: float) -> None:
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            raise NodeError(f"the node ended with code {code} before it was ready{self.tail()}")
        if time.monotonic() > deadline:
            raise NodeError(f"the node was not ready within {self._timeout:g} s{self.tail()}")

    def _popen(self, command: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        # a process group of its own: Ctrl-C on a terminal is for whoever started the nodes, to stop them in order
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, process_group=0
        )
