"""The files to run nodes with: checked by the tools that read them where these are there, and their commands run."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KAVKA = Path(sys.executable).parent / "kavka"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "kavka.service")
    return parser


def serves(arguments: list[str], folder: Path) -> dict[str, str]:
    """Run `kavka` with arguments until it is ready; what it reported."""
    node = subprocess.Popen([str(KAVKA), *arguments, "--ready-file", "ready.json"], cwd=folder)
    try:
        ends = time.monotonic() + 60
        while not (folder / "ready.json").exists():
            assert node.poll() is None
            assert time.monotonic() < ends
            time.sleep(0.05)
        report: dict[str, str] = json.loads((folder / "ready.json").read_text())
        if report["metrics"]:
            with urlopen(f"http://{report['metrics']}/readyz", timeout=30) as answer:
                assert answer.read() == b"ok\n"
    finally:
        node.send_signal(signal.SIGTERM)
    assert node.wait(60) == 0
    return report


def test_the_command_of_the_unit_runs(tmp_path: Path) -> None:
    program, *arguments = shlex.split(unit()["Service"]["ExecStart"])
    assert program.endswith("/bin/kavka")
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:0\n")
    moved = [each.replace("/etc/kavka/", "").replace("/var/lib/kavka", "data") for each in arguments]
    assert serves(moved, tmp_path)["node_id"] == 1


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "kavka.service").read_text().replace("/opt/kavka/bin/kavka", "/bin/true")
    file = tmp_path / "kavka.service"
    file.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False)
    assert "kavka.service" not in done.stderr, done.stderr


def test_the_steps_of_the_page_are_those_of_the_unit() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    steps = re.findall(r"^\$ (.*)", page.partition("## With systemd")[2].partition("```\n\n")[0], re.MULTILINE)
    assert subprocess.run(["bash", "-n", "-c", "\n".join(steps)], check=False).returncode == 0
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    added, environment, installed, copied, *_ = map(shlex.split, steps)
    assert added[-1] == service["User"] == service["Group"]
    assert arguments[arguments.index("--data-dir") + 1] in added
    assert environment[-3:] == [program.replace("bin/kavka", "bin/pip"), "install", "kavka"]
    assert f"{environment[4]}/bin/kavka" == program
    assert installed[-1] == arguments[arguments.index("--config") + 1]
    assert (ROOT / copied[-2]).is_file()


@pytest.fixture
def compose() -> Iterator[list[str]]:
    """The command of a project of its own, which is gone in the end with its volumes."""
    asked = (["docker", "info"], ["docker", "compose", "version"])
    if shutil.which("docker") is None or any(
        subprocess.run(each, capture_output=True, timeout=60, check=False).returncode for each in asked
    ):
        pytest.skip("no container engine with compose answers")
    command = ["docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "-p", f"kavka-test-{os.getpid()}"]
    yield command
    subprocess.run([*command, "down", "--volumes"], check=True, timeout=120)


@pytest.mark.timeout(900)
def test_the_image_is_built_and_runs(compose: list[str]) -> None:
    subprocess.run([*compose, "up", "--build", "--wait"], check=True, timeout=600)
    inside = [*compose, "exec", "-T", "kavka", "kavka"]
    subprocess.run([*inside, "produce", "greetings"], input=b"ahoj\n", check=True, timeout=60)
    read = subprocess.run([*inside, "consume", "greetings"], capture_output=True, check=True, timeout=60)
    assert read.stdout == b"ahoj\n"
    with urlopen("http://127.0.0.1:9404/readyz", timeout=30) as answer:
        assert answer.read() == b"ok\n"


def test_the_entry_point_of_the_image_runs(tmp_path: Path) -> None:
    found = dict(instructions())
    name, *arguments = json.loads(found["ENTRYPOINT"])
    assert name == "kavka"
    advertise = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["kavka"]["command"]
    free = {"/var/lib/kavka": "data", "0.0.0.0:9092": "0.0.0.0:0", "kavka.metrics.listener=0.0.0.0:9404": ""}
    moved = [free.get(each, each) or "kavka.metrics.listener=127.0.0.1:0" for each in arguments]
    report = serves([*moved, *advertise], tmp_path)
    assert report["bootstrap"].startswith("kavka:")


def test_the_image_is_made_as_it_should() -> None:
    found = instructions()
    names = [name for name, _ in found]
    known = {"FROM", "RUN", "COPY", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT"}
    assert names[0] == "FROM"
    assert set(names) <= known
    assert names.index("USER") < names.index("ENTRYPOINT")
    # what is built for one Python cannot be installed for another
    assert len({re.search(r"python:([\d.]+)", said)[1] for name, said in found if name == "FROM"}) == 1  # type: ignore[index]
    assert dict(found)["EXPOSE"].split() == ["9092", "9404"]


def test_what_the_image_is_made_of_is_all_that_a_build_needs() -> None:
    nothing, *kept = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert nothing == "*"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {"pyproject.toml", "setup.py", "src", project["readme"], *project["license-files"]}
    assert {line[1:] for line in kept if line.startswith("!")} == needed


def test_the_compose_file_says_what_compose_knows() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = compose["services"]["kavka"]
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    volumes = {each.split(":")[0]: each.split(":")[1] for each in service["volumes"]}
    assert set(volumes) == set(compose["volumes"])
    assert list(volumes.values()) == [dict(instructions())["VOLUME"]]
    known = {"build", "image", "command", "ports", "volumes", "ulimits", "stop_grace_period", "restart"}
    assert set(service) <= known
