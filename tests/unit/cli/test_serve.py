"""The options of `kavka serve`, which are read without the command-line library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from kavka.cli.commands import app
from kavka.cli.serve import OPTIONS, ServeOptions, UsageError, listener_overrides, parse_serve, serve


def test_all_options_are_understood() -> None:
    given = [
        "--data-dir",
        "D",
        "--listen",
        "h:1",
        "--console",
        "off",
        "--config",
        "F",
        "--override",
        "a=1",
        "--override=b=2",
        "--ready-file=R",
        "--advertise=a:2",
        "--log-level=debug",
        "--log-format=json",
    ]
    assert parse_serve(given) == ServeOptions("D", "h:1", "off", "F", ["a=1", "b=2"], "R", "a:2", "debug", "json")


def test_the_console_and_the_registry_are_settings_of_the_node() -> None:
    options = parse_serve(["--console", "127.0.0.1:0", "--console-read-only", "--registry=h:2"])
    assert listener_overrides(options) == [
        "kavka.registry.listener=h:2",
        "kavka.console.listener=127.0.0.1:0",
        "kavka.console.read.only=true",
    ]
    assert listener_overrides(parse_serve([])) == []


def test_a_console_without_a_broker_is_refused_in_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:1\n"
    )
    assert serve(["--config", str(config), "--data-dir", str(tmp_path), "--console", "127.0.0.1:0"]) == 1
    assert "a client of brokers" in capsys.readouterr().err


def test_nothing_given_means_the_defaults() -> None:
    assert parse_serve([]) == ServeOptions()


def test_a_value_may_begin_with_a_dash() -> None:
    assert parse_serve(["--override", "-x=1"]).override == ["-x=1"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--nope"], "no such option: --nope"),
        (["here"], "unexpected argument: here"),
        (["--listen"], "--listen needs a value"),
        (["--listen", "--config", "f"], "--listen needs a value"),
        (["--console-read-only=yes"], "takes no value"),
    ],
)
def test_what_makes_no_sense_is_refused(given: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_serve(given)


def test_the_help_and_the_fast_parser_know_the_same_options() -> None:
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    assert {name for option in command.params for name in option.opts if name.startswith("--")} == set(OPTIONS)


def test_a_usage_error_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(["--nope"]) == 2
    assert capsys.readouterr().err == "kavka: no such option: --nope (see `kavka serve --help`)\n"


def test_a_config_error_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert serve(["--config", str(tmp_path / "missing.properties")]) == 1
    assert capsys.readouterr().err == f"kavka: {tmp_path}/missing.properties: No such file or directory\n"


def test_starting_a_node_imports_no_command_line_library_and_no_coordinator() -> None:
    code = (
        "import sys\n"
        "from kavka.cli.app import main\n"
        "import kavka.broker.main\n"
        "try: main(['serve', '--nope'])\n"
        "except SystemExit: pass\n"
        "heavy = {'typer', 'rich', 'click', 'kavka.client.admin', 'kavka.client.pool'} & set(sys.modules)\n"
        "heavy |= {'kavka.runtime.shard', 'kavka.coordinator.record', 'kavka.broker.coordination'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
