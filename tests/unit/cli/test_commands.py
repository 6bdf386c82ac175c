"""How commands are called and how they fail: one line, no traceback, exit codes 0, 1, 2."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from kavka import __version__
from kavka.cli.commands import app, run
from kavka.cli.menu import MENU, load
from kavka.model.types import Uuid

DOCS = Path(__file__).parents[3] / "docs" / "cli.md"


def commands() -> Iterator[tuple[str, object]]:
    """Every command and group by its full name."""

    def walk(prefix: str, command: object) -> Iterator[tuple[str, object]]:
        for name, each in getattr(command, "commands", {}).items():
            full = f"{prefix} {name}".strip()
            yield full, each
            yield from walk(full, each)

    for name, listed in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        command = load(name) if name in MENU else listed
        yield name, command
        yield from walk(name, command)


NAMES = [name for name, _ in commands()]
LEAVES = [name for name, each in commands() if not hasattr(each, "commands")]


def test_the_commands_are_those_that_are_promised() -> None:
    assert sorted(LEAVES) == sorted(
        [
            "serve",
            "console",
            "cluster rebalance",
            "cluster add",
            "cluster decommission",
            "cluster remove",
            "disks describe",
            "disks move",
            "format",
            "topics list",
            "topics describe",
            "topics create",
            "topics delete",
            "topics delete-records",
            "topics alter",
            "topics reassign",
            "topics elect",
            "groups list",
            "groups describe",
            "groups reset-offsets",
            "groups delete",
            "share describe",
            "share peek",
            "share reset-offsets",
            "share delete",
            "share redrive",
            "transactions list",
            "transactions describe",
            "transactions abort",
            "transactions find-hanging",
            "tiers status",
            "tiers list",
            "tiers verify",
            "tiers repair",
            "tiers rehydrate",
            "acls list",
            "acls add",
            "acls remove",
            "audit",
            "users list",
            "users set",
            "users remove",
            "tls demo-ca",
            "tls reload",
            "tokens create",
            "tokens list",
            "tokens renew",
            "tokens expire",
            "configs describe",
            "configs alter",
            "quotas describe",
            "quotas alter",
            "produce",
            "consume",
            "cluster up",
            "cluster describe",
            "cluster quorum",
            "cluster add-voter",
            "cluster remove-voter",
            "cluster unregister",
            "doctor",
            "top",
            "bench",
            "log dump",
            "version",
            "completion",
            "profile set",
            "profile use",
            "profile list",
            "profile delete",
            "pipeline init",
            "pipeline run",
            "pipeline dry-run",
            "pipeline status",
            "pipeline backfill",
            "pipeline compact",
            "pipeline vacuum",
            "pipeline replay",
            "pipeline restart",
            "pipeline mirror",
            "pipeline verify",
        ]
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: kavka {name}" in shown


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_teaches_by_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run([*name.split(), "--help"])
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "Example" in shown
    assert f"kavka {name}" in shown.partition("Example")[2]


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_is_documented(name: str) -> None:
    assert f"`kavka {name}" in DOCS.read_text() or f"$ kavka {name}" in DOCS.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "No such command 'nope'"),
        (["topics", "create"], "Missing argument 'TOPIC'"),
        (["topics", "create", "x", "--partitions", "0"], "--partitions"),
        (["topics", "create", "x", "--config", "retention.ms"], "'retention.ms' is not KEY=VALUE"),
        (["topics", "alter", "x"], "Missing option '--partitions'"),
        (["configs", "describe", "planet", "x"], "'planet'"),
        (["configs", "describe", "broker", "one"], "node id"),
        (["configs", "alter", "topic", "x"], "at least one of --set"),
        (["consume", "x", "--from", "yesterday"], "'yesterday' is not start, end, an offset"),
        (["produce", "x", "--codec", "brotli"], "brotli"),
        (["produce", "x", "--count", "1", "--file", __file__], "exclude each other"),
        (["produce", "x", "--key", "k", "--json"], "--key and --json exclude each other"),
        (["produce", "x", "--null", "-", "--whole"], "--whole and --null exclude each other"),
        (["produce", "x", "--tombstone"], "--tombstone needs --key"),
        (["consume"], "give either topics or --pattern"),
        (["consume", "x", "--follow", "--until", "5"], "exclude each other"),
        (["consume", "x", "--group", "g", "--partition", "1"], "shares out partitions by itself"),
        (["consume", "x", "--format", "%x"], "it may have %t"),
        (["consume", "x", "--format", "%v", "--key-separator", "="], "--key-separator: --format says itself"),
        (["consume", "x", "--key", "("], "is no regular expression"),
        (["cluster", "add-voter", "4", "--endpoint", "h:1"], "'h:1' is not NAME://HOST:PORT"),
        (["topics", "delete-records", "x"], "Missing option '--before'"),
        (["log", "dump"], "Missing argument"),
        (["consume", "x", "--share", "g", "--from", "start"], "--from: a share group reads on from where it is"),
        (["disks", "move", "x:0", "--node", "1", "--to", "data"], "--to: 'data' is no absolute path"),
        (["completion", "tcsh"], "'SHELL': 'tcsh' is not one of"),
        (["pipeline", "verify", "x", "--rename", "a=b"], "--rename: it belongs to --against"),
        (["pipeline", "verify", "x", "--against-config", "f"], "--against-config: it belongs to --against"),
        (["pipeline", "mirror", "x", "--to", "h:1", "--checkpoint", "c", "--compression", "zip"], "is not one of"),
        (["version", "--nope"], "No such option: --nope"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("kavka: ")
    assert message in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topics", "list"], "cannot connect to 127.0.0.1:1: Connection refused"),
        (["topics", "create", "x"], "Connection refused"),
        (["configs", "describe", "topic", "x"], "Connection refused"),
        (["cluster", "describe"], "Connection refused"),
        (["consume", "x"], "Connection refused"),
        (["produce", "x", "--count", "1"], "Connection refused"),
        (["log", "dump", "/no/such/file.log"], "there is no file /no/such/file.log"),
        (["log", "dump", "/tmp"], "/tmp is not a file"),
        (["log", "dump", "ID", "--url", "file:///x", "--keys-file", "/no/keys"], "/no/keys: No such file or directory"),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAVKA_BOOTSTRAP", "127.0.0.1:1")
    assert run(arguments) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("command", [name.partition(" ")[2] for name in LEAVES if name.startswith("pipeline ")])
def test_a_pipeline_without_spark_is_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*sys.modules]:
        if name.startswith("kavka.spark"):
            monkeypatch.delitem(sys.modules, name)
    for name in ("pyspark", "pyarrow", "pandas", "yaml", "deltalake", "pyiceberg", "fastavro"):
        monkeypatch.setitem(sys.modules, name, None)
    more = ["--to", "h:1", "--checkpoint", "c"] if command == "mirror" else []
    assert run(["pipeline", command, str(tmp_path / "p"), *more]) == 1
    told = capsys.readouterr()
    assert told.err.startswith("kavka: pipelines need Spark: pip install 'kavka[spark]'")
    assert (told.out, told.err.count("\n")) == ("", 1)


def test_a_bootstrap_that_is_no_address_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "list", "--bootstrap", "host:port"]) == 1
    assert capsys.readouterr().err == "kavka: 'host:port' is not an address: HOST:PORT expected\n"


def test_called_alone_a_group_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics"]) == 2
    told = capsys.readouterr()
    assert "describe" in told.out + told.err


def test_version_says_whether_the_kernels_are_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    from kavka.kernels import COMPILED

    assert run(["version", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["compiled_kernels"] is COMPILED
    assert run(["version"]) == 0
    assert ("kernels compiled" in capsys.readouterr().out) is COMPILED


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is missing")
def test_a_full_disk_is_told_in_words() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "kavka", "version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "kavka: No space left on device\n")


def test_the_version_can_be_asked_for_as_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"kavka {__version__}\n"


REFUSED = "cannot connect to 127.0.0.1:{}: Connection refused"


@pytest.mark.parametrize(
    ("arguments", "environment", "port"),
    [
        ([], {}, 1),
        (["--profile", "other"], {}, 2),
        ([], {"KAVKA_PROFILE": "other"}, 2),
        ([], {"KAVKA_BOOTSTRAP": "127.0.0.1:3"}, 3),
        (["--profile", "other"], {"KAVKA_BOOTSTRAP": "127.0.0.1:3"}, 2),
        (["--bootstrap", "127.0.0.1:4", "--profile", "other"], {"KAVKA_BOOTSTRAP": "127.0.0.1:3"}, 4),
    ],
)
def test_the_cluster_is_that_of_the_option_the_environment_or_the_profile(
    arguments: list[str],
    environment: dict[str, str],
    port: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KAVKA_BOOTSTRAP", raising=False)
    assert run(["profile", "set", "one", "--bootstrap", "127.0.0.1:1"]) == 0
    assert run(["profile", "set", "other", "--bootstrap", "127.0.0.1:2"]) == 0
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    capsys.readouterr()
    assert run([*arguments, "topics", "list"]) == 1
    assert REFUSED.format(port) in capsys.readouterr().err
    assert run([*arguments, "topics", "list", "--bootstrap", "127.0.0.1:5"]) == 1
    assert REFUSED.format(5) in capsys.readouterr().err
    assert os.environ.get("KAVKA_BOOTSTRAP") == environment.get("KAVKA_BOOTSTRAP")


def test_profiles_are_kept_listed_used_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KAVKA_BOOTSTRAP", raising=False)
    odd = 'a "name"'
    assert run(["profile", "set", odd, "--bootstrap", "h:1"]) == 0
    assert run(["profile", "set", "b", "--bootstrap", "h:2,h:3"]) == 0
    assert run(["profile", "use", "b"]) == 0
    capsys.readouterr()
    assert run(["profile", "list", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"profile": odd, "bootstrap": "h:1", "current": False},
        {"profile": "b", "bootstrap": "h:2,h:3", "current": True},
    ]
    assert run(["profile", "set", "c", "--bootstrap", "h:port"]) == 1
    assert capsys.readouterr().err == "kavka: 'h:port' is not an address: HOST:PORT expected\n"
    assert run(["profile", "delete", "b"]) == 0
    assert run(["--profile", "b", "topics", "list"]) == 1
    assert f"there are: {odd}" in capsys.readouterr().err
    (tmp_path / "kavka" / "profiles.toml").write_text("[profiles")
    assert run(["topics", "list"]) == 1
    assert "profiles.toml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("bash", {"COMP_WORDS": "kavka topics desc", "COMP_CWORD": "2"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "kavka topics desc"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "kavka topics desc", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_shells_complete_commands(shell: str, asked: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"complete_{shell}" in capsys.readouterr().out
    environment = {**os.environ, **asked, "_KAVKA_COMPLETE": f"complete_{shell}"}
    done = subprocess.run([sys.executable, "-m", "kavka"], capture_output=True, text=True, env=environment, check=False)
    assert "describe" in done.stdout


def test_an_id_can_be_had_without_formatting(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["format", "--random-id"]) == run(["format", "--random-id"]) == 0
    first, second = capsys.readouterr().out.split()
    assert first != second
    assert str(Uuid.parse(first)) == first
    assert run(["format", "--random-id", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"id"}


def test_nothing_stands_before_serve(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--bootstrap", "h:1", "serve"]) == 2
    assert "nothing stands before it" in capsys.readouterr().err


def test_format_makes_a_directory_a_nodes_own_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["format", "--data-dir", str(tmp_path / "d"), "--cluster-id", "A" * 21 + "Q"]
    assert run([*arguments, "--output", "json"]) == 0
    formatted = json.loads(capsys.readouterr().out)
    assert (formatted["cluster_id"], formatted["node_id"]) == ("A" * 21 + "Q", 1)
    assert run(arguments) == 1
    assert "is formatted already" in capsys.readouterr().err
    assert run([*arguments, "--ignore-formatted"]) == 0
    assert run(["format", "--data-dir", str(tmp_path / "e"), "--cluster-id", "short"]) == 1


ID = "A" * 21 + "Q"
DIR = "B" * 21 + "Q"
MEMBER = [
    *("--override", "node.id=1"),
    *("--override", "process.roles=broker,controller"),
    *("--override", "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"),
    *("--override", "controller.listener.names=CONTROLLER"),
]
DYNAMIC = [*MEMBER, "--override", "controller.quorum.bootstrap.servers=127.0.0.1:9093"]
STATIC = [*MEMBER, "--override", "controller.quorum.voters=1@127.0.0.1:9093"]


@pytest.mark.parametrize(
    "how",
    [
        [*DYNAMIC, "--standalone"],
        [*DYNAMIC, "--cluster-id", ID, "--standalone", "--release-version", "4.1"],
        [*DYNAMIC, "--cluster-id", ID, "--no-initial-controllers"],
        [*DYNAMIC, "--cluster-id", ID, "--initial-controllers", f"1@a:9093:{DIR},2@b:9093:{'C' * 21}Q"],
        [*STATIC, "--cluster-id", ID],
    ],
)
def test_a_node_of_a_cluster_is_formatted_as_its_quorum_begins(
    how: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["format", "--data-dir", str(tmp_path / "d"), *how]) == 0
    assert "formatted for node 1 of cluster" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (["--no-initial-controllers"], "cluster of its own"),
        ([*DYNAMIC, "--standalone", "--no-initial-controllers"], "exclude each other"),
        ([*DYNAMIC, "--no-initial-controllers"], "`kavka format --random-id` makes one"),
        ([*DYNAMIC, "--cluster-id", ID], "needs one of"),
        ([*DYNAMIC, "--cluster-id", ID, "--initial-controllers", f"2@b:9093:{DIR}"], "node 1 is not among them"),
        ([*DYNAMIC, "--cluster-id", ID, "--initial-controllers", "2@b"], "is not ID@HOST:PORT"),
        ([*STATIC, "--cluster-id", ID, "--standalone"], "controller.quorum.voters names the controllers"),
        ([*DYNAMIC, "--standalone", "--release-version", "9.9"], "no release"),
        ([*DYNAMIC, "--standalone", "--feature", "nope=1"], "no feature nope"),
    ],
)
def test_a_format_that_makes_no_sense_says_why(
    how: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["format", "--data-dir", str(tmp_path / "d"), *how]) != 0
    assert why in capsys.readouterr().err
    assert not (tmp_path / "d" / "meta.properties").exists()


def test_a_client_config_may_stand_before_and_after_a_command():
    from kavka.cli.commands import config_first

    assert config_first(["topics", "list", "--client-config", "f"]) == ["--client-config", "f", "topics", "list"]
    assert config_first(["--config", "f", "topics", "list"]) == ["--config", "f", "topics", "list"]
    assert config_first(["produce", "t", "--", "--client-config", "f"]) == [
        "produce", "t", "--", "--client-config", "f",
    ]  # fmt: skip
    kept = ["profile", "set", "x", "--client-config", "f"]
    assert config_first(kept) == kept
