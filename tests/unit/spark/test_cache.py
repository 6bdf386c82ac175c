"""Where files are kept between starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.spark.cache import cache_dir


def test_it_is_below_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir.__wrapped__() == tmp_path / ".cache" / "kavka"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_dir.__wrapped__() == tmp_path / "cache" / "kavka"


def test_without_a_home_it_is_a_folder_for_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    made = cache_dir.__wrapped__()
    assert made.is_dir()
    assert made.parent == tmp_path
