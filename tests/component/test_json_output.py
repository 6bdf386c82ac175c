"""What commands print with `--output json`: the page that scripts rely on says the same as the commands.

`KAVKA_CAPTURES=write` writes the table of docs/json.md anew.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
import typer

from kavka.cli.commands import app, run
from kavka.testing.cluster import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
COMMANDS = """
kavka version
kavka format --data-dir new-data
kavka topics create orders --partitions 2
kavka topics alter orders --partitions 3
kavka topics list
kavka produce noise --count 100 --size 10
kavka produce orders --file lines.txt
kavka topics describe orders
kavka topics describe orders --offsets
kavka topics delete-records orders:0 --before 0
kavka topics elect
kavka topics reassign orders --to 1
kavka consume orders --max 1
kavka consume orders --group billing --from start --max 2
kavka groups list
kavka groups describe billing
kavka groups describe billing --members
kavka groups reset-offsets billing --to start
kavka groups delete billing
kavka configs alter topic orders --set retention.ms=3600000
kavka configs describe topic orders
kavka quotas alter --client-id loader --set producer_byte_rate=1048576
kavka quotas describe
kavka users set alice --password-file lines.txt
kavka users list
kavka users remove alice
kavka transactions list
kavka transactions find-hanging
kavka cluster describe
kavka cluster quorum
kavka doctor
kavka top --count 1 --interval 0.5
kavka bench --seconds 0.5
kavka log dump new-data/meta.properties
kavka profile set staging --bootstrap 127.0.0.1:9092
kavka profile use staging
kavka profile list
kavka profile delete staging
kavka topics delete orders
"""
ELSEWHERE = {"serve", "cluster up", "completion"}
"""These write a ready file, or a script for a shell; some of those for Spark write lines while they go on."""


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


def test_the_page_has_the_names_that_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    Path("lines.txt").write_text("secret\n" * 9)
    rows = []
    with Cluster() as cluster:
        for command in COMMANDS.strip().splitlines():
            monkeypatch.setenv("KAVKA_BOOTSTRAP", cluster.bootstrap)
            code = run([*shlex.split(command)[1:], "--output", "json"])
            shown = capsys.readouterr()
            assert code == 0, f"{command}: {shown.err}"
            rows.append(f"| `{command}` | `{shapes(shown.out)}` |")
    table = "\n".join(rows)
    page = PAGE.read_text()
    if os.environ.get("KAVKA_CAPTURES") == "write":
        page = re.sub(r"(\|---\|---\|\n)(\|.*\n)*", lambda found: f"{found[1]}{table}\n", page, count=1)
        PAGE.write_text(page)
    assert [row for row in rows if row not in page] == []


def test_every_command_can_print_json() -> None:
    def walk(prefix: str, command: object) -> list[tuple[str, object]]:
        if not hasattr(command, "commands"):
            return [(prefix, command)]
        return [leaf for name, each in command.commands.items() for leaf in walk(f"{prefix} {name}".strip(), each)]

    leaves = walk("", typer.main.get_command(app))
    silent = {name for name, leaf in leaves if not any("--output" in each.opts for each in leaf.params)}  # type: ignore[attr-defined]
    assert {name for name in silent if not name.startswith("pipeline ")} == ELSEWHERE
