"""The documentation's commands and programs, run as they stand.

A fenced block whose info string is `console test` holds commands after `$` and what they print; `...` stands for
anything, also for whole lines, and `exit N` for the exit code. A `python test` block is a program that must
succeed; `python file=NAME` writes a file for the commands after it. The address 127.0.0.1:9092 becomes the node's,
those from 127.0.0.1:19092 on become free ones, and http://127.0.0.1:8081 is its registry, if a page needs one. What
a page leaves running has its process id in a file NAME.pid.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.testing import Cluster
from kavka.testing.local import free_ports

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:9092"
REGISTRY = "http://127.0.0.1:8081"
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if re.search(r"^```\w+ (test|file=)", page.read_text(), re.MULTILINE)
]


class Block(NamedTuple):
    """A fenced block and where it is."""

    language: str
    mark: str
    line: int
    text: str


def blocks(text: str) -> Iterator[Block]:
    for match in re.finditer(r"^```(\w+) (test|file=\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(match[1], match[2], text.count("\n", 0, match.start()) + 1, match[3])


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    command, expected = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line[2:], []
        else:
            expected.append(line)
    yield command, expected


def matches(expected: list[str], actual: list[str]) -> bool:
    pattern = ""
    for line in expected:
        pattern += r"(.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in actual)) is not None


def execute(command: str, folder: Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    code = [f"exit {done.returncode}"] if done.returncode else []
    return [line.rstrip() for line in done.stdout.splitlines()] + code


def in_a_row(count: int) -> int:
    """The first of so many ports, one after the other, that nobody else is given."""
    ports = set(free_ports(190))
    return next(port for port in sorted(ports) if ports.issuperset(range(port, port + count)))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a page's commands run; what they left running is ended."""
    yield tmp_path
    for file in tmp_path.glob("*.pid"):
        pid = int(file.read_text())
        with suppress(FileNotFoundError, ProcessLookupError):
            if os.readlink(f"/proc/{pid}/cwd") == str(tmp_path):  # else it has ended, and the id is another's by now
                os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_the_page_shows_is_what_happens(page: Path, folder: Path) -> None:
    first = in_a_row(6)
    needs_registry = any(REGISTRY in block.text for block in blocks(page.read_text()))
    with Cluster(config={"kavka.registry.listener": "127.0.0.1:0"} if needs_registry else {}) as cluster:
        environment = {
            **os.environ,
            "KAVKA_BOOTSTRAP": cluster.bootstrap,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        for one in ("KAVKA_TEST_BOOTSTRAP", "PYTEST_ADDOPTS"):
            environment.pop(one, None)
        for language, mark, line, text in blocks(page.read_text()):
            where = f"{page.name}, line {line}"
            text = text.replace(ADDRESS, cluster.bootstrap)
            if needs_registry:
                text = text.replace(REGISTRY, cluster.registry)
            text = re.sub(r"(?<=127\.0\.0\.1:)190(\d\d)", lambda found: str(first + int(found[1]) - 92), text)
            if mark.startswith("file="):
                (folder / mark.removeprefix("file=")).write_text(text)
            elif language == "python":
                (folder / "program.py").write_text(text)
                actual = execute("python -W error program.py", folder, environment)
                assert actual, where
                assert not actual[-1].startswith("exit"), f"{where}: {actual}"
            else:
                for command, expected in commands(text):
                    actual = execute(command, folder, environment)
                    expected = [each.rstrip() for each in expected]
                    assert matches(expected, actual), f"{where}: $ {command}\n" + "\n".join(actual)


def test_there_are_pages_to_check() -> None:
    assert {"cli.md", "client.md", "testing.md"} <= {page.name for page in PAGES}
