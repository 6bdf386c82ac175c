"""The first hour with the documentation: every page's commands and programs, run as written, in order.

Each page has a fresh directory, and a fresh node unless it starts its own: `kavka serve` is run until it is ready, and
the commands after it talk to it. The addresses 127.0.0.1:9092, :8080 and :8081 become those of the page's node, its
console and its registry; those from 127.0.0.1:19092 on become free ones. `pip install` finds what it asks for
installed, and gets nothing from anywhere. What a page leaves running in the background has its process id in a file
NAME.pid.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from docs.elsewhere import ELSEWHERE
from docs.pages import PAGES, ROOT, Block, blocks, commands, matches
from kavka.testing import Cluster
from kavka.testing.local import free_ports

RUN = [page for page in PAGES if any(block.runs for block in blocks(page))]
SECONDS = 300.0
"""Only what hangs takes longer, on a machine with many things to do as well."""
SERVE = re.compile(r"kavka serve( [^&]*)?")


class Shell:
    """Where the commands of a page run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first = _in_a_row(6)
        self.places: dict[str, str] = {}
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PIP_NO_INDEX": "1",
            "PIP_QUIET": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        for one in ("KAVKA_TEST_BOOTSTRAP", "PYTEST_ADDOPTS"):
            self.environment.pop(one, None)

    def use(self, bootstrap: str, console: str | None, registry: str | None) -> None:
        """Have commands talk to a node."""
        self.environment["KAVKA_BOOTSTRAP"] = bootstrap
        self.places = {"127.0.0.1:9092": bootstrap, "127.0.0.1:8080": console or "", "127.0.0.1:8081": registry or ""}

    def here(self, text: str) -> str:
        """A text of a page with the addresses that are this run's."""
        for said, place in self.places.items():
            text = text.replace(said, place or said)
        return re.sub(r"(?<=127\.0\.0\.1:)190(\d\d)", lambda found: str(self.first + int(found[1]) - 92), text)

    def run(self, command: str) -> list[str]:
        """Run a command to its end: the lines that it prints, and its exit code if it fails."""
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed, _ = process.communicate()
            pytest.fail(f"$ {command}\n{printed}has not ended after {SECONDS:.0f} seconds")
        code = [f"exit {process.returncode}"] if process.returncode else []
        return [line.rstrip() for line in printed.splitlines()] + code

    @contextmanager
    def serving(self, command: str) -> Iterator[None]:
        """Run a `kavka serve` until the page ends; the commands after it talk to that node."""
        moved = re.sub(r"127\.0\.0\.1:80\d\d", "127.0.0.1:0", command)
        environment = {**self.environment, "KAVKA_LISTENERS": "PLAINTEXT://127.0.0.1:0"}
        log, ready = self.folder / "serve.log", self.folder / "serve.ready"
        with log.open("w") as output:
            node = subprocess.Popen(
                ["bash", "-c", f"exec {moved} --ready-file {ready}"],
                cwd=self.folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            ends = time.monotonic() + SECONDS
            while not ready.exists():
                assert node.poll() is None, log.read_text()
                assert time.monotonic() < ends, log.read_text()
                time.sleep(0.02)
            report: dict[str, Any] = json.loads(ready.read_text())
            self.use(report["bootstrap"], report["console"], report["registry"])
            yield
        finally:
            node.send_signal(signal.SIGTERM)
            code = node.wait(SECONDS)
        assert code == 0, log.read_text()
        assert "Traceback (most recent call last)" not in log.read_text(), log.read_text()


def _in_a_row(count: int) -> int:
    """The first of so many ports, one after the other, that nobody else is given."""
    ports = set(free_ports(190))
    return next(port for port in sorted(ports) if ports.issuperset(range(port, port + count)))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Where a page's commands run; what they left running is ended."""
    yield Shell(tmp_path)
    for file in tmp_path.glob("*.pid"):
        pid = int(file.read_text())
        with suppress(FileNotFoundError, ProcessLookupError):
            if os.readlink(f"/proc/{pid}/cwd") == str(tmp_path):  # else it has ended, and the id is another's by now
                os.kill(pid, signal.SIGTERM)


def serves(block: Block) -> bool:
    """Whether a block starts the node of its page."""
    return block.language == "console" and any(SERVE.fullmatch(command) for command, _ in commands(block.text))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", RUN)
def test_what_the_page_shows_is_what_happens(page: str, shell: Shell) -> None:
    run = [block for block in blocks(page) if block.runs]
    with ExitStack() as nodes:
        if not any(serves(block) for block in run):
            listener = {"kavka.registry.listener": "127.0.0.1:0"}
            wanted = any("127.0.0.1:8081" in block.text for block in run)
            cluster = nodes.enter_context(Cluster(config=listener if wanted else {}))
            shell.use(cluster.bootstrap, None, cluster.registry.removeprefix("http://") if wanted else None)
        for block in run:
            if block.mark.startswith("file="):
                (shell.folder / block.mark.removeprefix("file=")).write_text(shell.here(block.text))
            elif block.language == "python":
                (shell.folder / "program.py").write_text(shell.here(block.text))
                actual = shell.run("python -W error program.py")
                assert not (actual and actual[-1].startswith("exit")), "\n".join([block.where, *actual])
            else:
                for command, expected in commands(block.text):
                    if SERVE.fullmatch(command):
                        nodes.enter_context(shell.serving(command))
                        continue
                    actual = shell.run(shell.here(command))
                    wanted_lines = [shell.here(line.rstrip()) for line in expected]
                    assert matches(wanted_lines, actual), "\n".join([f"{block.where}: $ {command}", *actual])


@pytest.mark.parametrize("exception", [each for each in ELSEWHERE if each.smaller], ids=lambda each: each.first)
def test_what_takes_too_long_runs_smaller(exception: Any, shell: Shell) -> None:
    (block,) = (each for each in blocks(exception.page) if exception.is_about(each))
    shell.folder = ROOT
    for command, _ in commands(block.text):
        large, small = exception.smaller
        assert large in command
        actual = shell.run(command.replace(large, small))
        assert not (actual and actual[-1].startswith("exit")), "\n".join([block.where, *actual])


def test_there_are_pages_to_run() -> None:
    assert {"README.md", "docs/cli.md", "docs/client.md", "docs/testing.md"} <= set(RUN)
