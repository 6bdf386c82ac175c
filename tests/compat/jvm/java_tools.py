"""Runs Java: Kafka's own tools by main class and our drivers in java/, compiled when the tests start."""

from __future__ import annotations

import select
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from kafka_jars import fetch  # noqa: E402  (tools/ is not installed)

SOURCES = HERE / "java"
RUNNER = "kavka.compat.ToolRunner"
TIMED_OUT, THREW = -1000, -1001
DEFAULT_TIMEOUT_S = 60.0
GRACE_S = 10.0

# Short-lived programs on a shared machine: quick to start beats quick after an hour.
QUICK_START = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


class JavaError(Exception):
    """The Java side of the tests is broken, as opposed to a tool that reports a failure."""


@dataclass(frozen=True)
class Outcome:
    """What a tool said and how it ended."""

    what: str
    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output, by line, without blank lines."""
        return [line.rstrip() for line in self.out.splitlines() if line.strip()]

    @property
    def said(self) -> str:
        """Both streams."""
        return self.out + self.err

    def must_succeed(self) -> Outcome:
        """Itself, if it ended with 0."""
        assert self.status == 0, f"{self.what} ended with {self.status}\n--- out\n{self.out}\n--- err\n{self.err}"
        return self

    def must_fail(self, status: int = 1) -> Outcome:
        """Itself, if it ended with the status a failed tool has."""
        assert self.status == status, f"{self.what} ended with {self.status}\n--- out\n{self.out}\n--- err\n{self.err}"
        return self


def missing() -> str | None:
    """Why Java cases cannot run here, or None."""
    lacking = [program for program in ("java", "javac") if shutil.which(program) is None]
    if lacking:
        return f"not on this machine: {', '.join(lacking)}"
    jars = fetch.folder()
    if not fetch.is_complete(jars):
        return f"no Apache Kafka jars in {jars}: run python tools/kafka_jars/fetch.py"
    return None


class Java:
    """Kafka's jars and our compiled drivers on one class path, and one JVM that runs them."""

    def __init__(self, jars: Path, classes: Path) -> None:
        self.class_path = f"{classes}:{jars}/*"
        self._classes = classes
        self._runner: subprocess.Popen[bytes] | None = None
        self._runner_log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close)

    def compile(self) -> None:
        """Compile the sources of java/."""
        self._classes.mkdir(parents=True, exist_ok=True)
        sources = sorted(str(path) for path in SOURCES.rglob("*.java"))
        command = ["javac", "-nowarn", "-Xlint:-options", "--release", "17", "-cp", self.class_path]
        done = subprocess.run(
            [*command, "-d", str(self._classes), *sources], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise JavaError(done.stderr)

    def command(
        self, main_class: str, arguments: Sequence[str], heap: str = "256m", log_level: str = "error"
    ) -> list[str]:
        """The command line of a JVM of its own."""
        options = [f"-Xmx{heap}", *QUICK_START, f"-Dlog4j2.configurationFile={fetch.LOGGING}"]
        options += [f"-Dkavka.log.level={log_level}", "-Djava.awt.headless=true"]
        return ["java", *options, "-cp", self.class_path, main_class, *arguments]

    def run(
        self, main_class: str, arguments: Sequence[str], stdin: bytes = b"", timeout: float = DEFAULT_TIMEOUT_S
    ) -> Outcome:
        """Run a main class in the shared JVM."""
        runner = self._running()
        assert runner.stdin is not None
        assert runner.stdout is not None
        frame = struct.pack(">i", int(timeout * 1000)) + _text(main_class) + struct.pack(">i", len(arguments))
        frame += b"".join(map(_text, arguments)) + _bytes(stdin)
        runner.stdin.write(frame)
        runner.stdin.flush()
        readable, _, _ = select.select([runner.stdout], [], [], timeout + GRACE_S)
        if not readable:
            self.stop()
            raise JavaError(f"{main_class} does not end and cannot be interrupted")
        status = struct.unpack(">i", self._read(4))[0]
        out, err = (self._read(struct.unpack(">i", self._read(4))[0]).decode(errors="replace") for _ in range(2))
        what = " ".join([main_class.rsplit(".", 1)[-1], *arguments])
        if status == TIMED_OUT:  # the tool still runs in there: the next one gets a fresh JVM
            self.stop()
            what += f" (still running after {timeout:.0f} s)"
        return Outcome(what, status, out, err)

    def run_alone(
        self, main_class: str, arguments: Sequence[str], stdin: bytes = b"", timeout: float = DEFAULT_TIMEOUT_S
    ) -> Outcome:
        """Run a main class in a JVM of its own: for tools that do their work in a JVM shutdown hook."""
        what = " ".join([main_class.rsplit(".", 1)[-1], *arguments])
        command = self.command(main_class, arguments)
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as late:
            out, err = ((stream or b"").decode(errors="replace") for stream in (late.stdout, late.stderr))
            return Outcome(f"{what} (still running after {timeout:.0f} s)", TIMED_OUT, out, err)
        return Outcome(
            what, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    def stop(self) -> None:
        """End the shared JVM; the next run starts another."""
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        for stream in (runner.stdin, runner.stdout):
            if stream is not None:
                stream.close()
        runner.kill()
        runner.wait()

    def close(self) -> None:
        """End everything."""
        self.stop()
        self._runner_log.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._runner is None or self._runner.poll() is not None:
            self._runner = subprocess.Popen(
                self.command(RUNNER, [], heap="384m"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._runner_log,
            )
        return self._runner

    def _read(self, length: int) -> bytes:
        assert self._runner is not None
        assert self._runner.stdout is not None
        data = self._runner.stdout.read(length)
        if len(data) < length:
            self._runner_log.seek(0)
            raise JavaError(f"the JVM that runs the tools ended: {self._runner_log.read().decode(errors='replace')}")
        return data


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _text(text: str) -> bytes:
    return _bytes(text.encode())
