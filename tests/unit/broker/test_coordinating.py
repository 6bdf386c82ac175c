"""Coordinators that are made when they are needed: nothing waits for that on the loop, and trouble is tried again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from held import Held

from kavka.broker import coordinating
from kavka.broker.coordinating import Coordinating, Deferred
from kavka.model.types import Uuid
from kavka.replica.refused import NotVerified
from kavka.replica.syncing import Syncer

CLUB = """
import pathlib
tried = pathlib.Path(__file__).with_name("tried")
if not tried.exists():
    tried.touch()
    raise OSError(24, "Too many open files")

class Club:
    def __init__(self, node):
        self.services = ()
        self.started = False

    def start(self, image):
        self.started = True

    def apply(self, image, delta):
        yield
"""


async def unused(*given: Any) -> Any:
    """Nobody asks for that here."""
    raise AssertionError(given)


def made(held: Held, make: Any) -> Coordinating:
    syncer = Syncer(asyncio.get_running_loop())
    ports = (lambda: Uuid.ZERO, unused, unused, unused)
    return Coordinating(held.replicas, held.settings, syncer, held.clock, *ports, [make])


@pytest.fixture
def club(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deferred:
    """A coordinator whose module cannot be loaded the first time."""
    (tmp_path / "late_club.py").write_text(CLUB)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(coordinating, "RETRY_SECONDS", 0)
    monkeypatch.delitem(sys.modules, "late_club", raising=False)
    return Deferred("late_club", "Club", "__clubs")


def test_who_needs_them_at_once_is_told_that_they_are_not_there_and_has_them_loaded(
    held: Held, club: Deferred, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        coordinators = made(held, club)
        loading = asyncio.ensure_future(coordinators.load_when_used())
        await asyncio.sleep(0)
        with pytest.raises(NotVerified) as refused:
            coordinators.verification()
        assert refused.value.retriable
        assert coordinators.schemas() is None
        assert "late_club" not in sys.modules
        await loading
        assert coordinators.loaded
        assert [coordinator.started for coordinator in coordinators.made()] == [True]  # type: ignore[attr-defined]

    asyncio.run(asyncio.wait_for(play(), 10))
    assert "loading the coordinators failed, retrying" in caplog.text
