from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kavka.cli.menu import MENU, load


@pytest.mark.parametrize("name", MENU)
def test_the_menu_says_what_the_command_says_of_itself(name: str) -> None:
    command = load(name)
    assert command.name == name
    assert " ".join(command.help.partition("\n\n")[0].split()) == MENU[name].line


def test_help_loads_no_command() -> None:
    code = (
        "import sys\n"
        "from kavka.cli.app import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'asyncio', 'kavka.client', 'kavka.cli.topics', 'kavka.cli.pipeline'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in ["serve", *MENU])


def test_names_are_completed_by_the_table() -> None:
    shell = {"_KAVKA_COMPLETE": "complete_bash", "COMP_WORDS": "kavka trans", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "kavka.cli.app"]
    done = subprocess.run(command, env={**os.environ, **shell}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["transactions"], done.stderr
    deeper = {**shell, "COMP_WORDS": "kavka transactions find", "COMP_CWORD": "2"}
    done = subprocess.run(command, env={**os.environ, **deeper}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["find-hanging"], done.stderr
