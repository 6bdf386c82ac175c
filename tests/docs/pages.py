"""The pages of the documentation, and the fenced blocks in them.

A block says after its language how it is tested. `console test` holds commands after `$` and what they print; `...`
stands for anything, also for whole lines, and `exit N` for the exit code. `python test` is a program that must succeed.
`LANGUAGE file=NAME` is a file for the commands after it. Other blocks of commands or programs are in `elsewhere.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = {
    str(page.relative_to(ROOT)): page
    for page in [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted(ROOT.glob("examples/**/*.md")),
    ]
}


class Block(NamedTuple):
    """A fenced block and where it is."""

    page: str
    line: int
    language: str
    mark: str
    text: str

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.page}, line {self.line}"

    @property
    def runs(self) -> bool:
        """Whether it is run, or written to a file, in its page."""
        return self.mark == "test" or self.mark.startswith("file=")


def blocks(page: str) -> Iterator[Block]:
    """All fenced blocks of a page, in order."""
    text = PAGES[page].read_text()
    for found in re.finditer(r"^ *```([^\n`]*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        language, _, mark = found[1].strip().partition(" ")
        yield Block(page, text.count("\n", 0, found.start()) + 1, language, mark, found[2])


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that it prints."""
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
    """Whether what a command printed is what the page says."""
    pattern = ""
    for line in expected:
        pattern += r"(.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in actual)) is not None
