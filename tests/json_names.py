"""The names in what commands print with `--output json`, as docs/json.md has them.

Most commands are shown by one test, which also writes that table; those that take more than a node by the tests that
run them: `documented` says that the page has what was printed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[1] / "docs" / "json.md"


def shape(value: object) -> str:
    """The names of what is in a JSON value, however deep; names that are data are `*`."""
    if isinstance(value, dict):
        names = [name for name in value if "." not in name]
        inner = [f"{name}: {found}" if (found := shape(value[name])) else name for name in names]
        return "{" + ", ".join(inner + ["*"] * (len(names) < len(value))) + "}"
    if isinstance(value, list):
        longest = max((shape(each) for each in value), key=len, default="")
        return f"[{longest or '...'}]"
    return ""


def shapes(text: str) -> str:
    """The shape of what was printed: a document, or one in each line."""
    lines = [json.loads(line) for line in text.splitlines()]
    return max((shape(line) for line in lines), key=len, default="nothing")


def row(command: str, printed: str) -> str:
    """A command and what it has printed, as a row of the page."""
    return f"| `{command}` | `{shapes(printed)}` |"


def documented(command: str, printed: str) -> None:
    """The page has the names that a command has printed."""
    found = row(command, printed)
    assert found in PAGE.read_text().splitlines(), found
