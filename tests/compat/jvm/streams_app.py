"""Runs Kafka Streams and Kafka Connect, from jars of their own, as users of a Kavka cluster."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jvm.java_tools import QUICK_START, JavaError, fetch, missing

SOURCES = Path(__file__).resolve().parent / "streams_java"
LIMIT_S = 180.0


def missing_streams() -> str | None:
    """Why Kafka Streams cannot run here, or None."""
    jars = fetch.streams_folder()
    if not fetch.is_complete(jars, fetch.STREAMS_POM):
        return f"no Kafka Streams jars in {jars}: run python tools/kafka_jars/fetch.py"
    return missing()


def until(condition: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Wait for a state; a limit that only a hang reaches."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not after {limit_s:.0f} s: {what}"
        time.sleep(0.1)


class App:
    """A JVM that runs, what it says, and what it is asked."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        self._asked = 0
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)

    @property
    def said(self) -> str:
        """All that it has said."""
        return self._log.read_text(errors="replace")

    @property
    def lines(self) -> list[str]:
        """All whole lines."""
        return self.said.split("\n")[:-1]

    def says(self, start: str) -> bool:
        """Whether a line begins so; fails if it ended without saying it."""
        found = any(line.startswith(start) for line in self.lines)
        assert found or self.process.poll() is None, f"it ended with {self.process.returncode}: {self.said[-3000:]}"
        return found

    def ask(self, line: str) -> str:
        """Ask it something on its standard input: the next line that is an answer."""
        answers = ("GET ", "COPY ", "HOSTS", "NOT-NOW")
        before = sum(one.startswith(answers) for one in self.lines)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()
        until(lambda: sum(one.startswith(answers) for one in self.lines) > before, f"an answer to {line}")
        return [one for one in self.lines if one.startswith(answers)][before]

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def stop(self) -> int:
        """End it in order."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"stop\n")
        self.process.stdin.close()
        return self.process.wait(LIMIT_S)


class StreamsJava:
    """The class path of Kafka Streams and Connect with our programs, compiled."""

    def __init__(self, folder: Path) -> None:
        jars = fetch.streams_folder()
        self._folder = folder
        self._number = 0
        self._apps: list[App] = []
        self.class_path = f"{folder}/classes:{jars}/*:{jars}/test/*:{fetch.folder()}/*"

    def compile(self) -> None:
        """Compile the sources of streams_java/."""
        classes = self._folder / "classes"
        classes.mkdir(parents=True)
        sources = sorted(str(path) for path in SOURCES.rglob("*.java"))
        command = ["javac", "-nowarn", "--release", "17", "-cp", self.class_path, "-d", str(classes), *sources]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise JavaError(done.stderr)

    def start(self, main_class: str, arguments: Sequence[str], log_level: str = "error", heap: str = "256m") -> App:
        """Start a program."""
        self._number += 1
        options = [f"-Xmx{heap}", *QUICK_START, f"-Dlog4j2.configurationFile={fetch.LOGGING}"]
        options += [f"-Dkavka.log.level={log_level}", "-Djava.awt.headless=true"]
        command = ["java", *options, "-cp", self.class_path, main_class, *arguments]
        app = App(command, self._folder / f"{self._number}.log")
        self._apps.append(app)
        return app

    def words(self, bootstrap: str, protocol: str, application: str, port: int, **settings: str) -> App:
        """An instance that counts words, with an endpoint and a state of its own."""
        state = self._folder / "state" / f"{application}-{self._number}"
        pairs = {
            "bootstrap.servers": bootstrap,
            "application.id": application,
            "application.server": f"127.0.0.1:{port}",
            "group.protocol": protocol,
            "state.dir": str(state),
            "num.stream.threads": "2",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        return self.start("kavka.streams.Words", [f"{key}={value}" for key, value in pairs.items()])

    def close(self) -> None:
        """End everything that still runs."""
        for app in self._apps:
            app.kill()
