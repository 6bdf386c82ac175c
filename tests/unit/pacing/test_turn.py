"""Time on the loop that is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from kavka.pacing import turn


def steps(done: list[int]) -> Generator[None, None, str]:
    for number in range(5):
        done.append(number)
        yield
    return "all"


@pytest.mark.parametrize(("seconds", "before"), [(0.0, 1), (3600.0, 5)])
def test_others_run_between_the_steps_of_long_work(
    monkeypatch: pytest.MonkeyPatch, seconds: float, before: int
) -> None:
    monkeypatch.setattr(turn, "SLICE_SECONDS", seconds)
    done: list[int] = []

    async def scenario() -> tuple[str, int]:
        seen: list[int] = []
        asyncio.get_running_loop().call_soon(lambda: seen.append(len(done)))
        found = await turn.paced(steps(done))
        await asyncio.sleep(0)
        return found, seen[0]

    assert asyncio.run(scenario()) == ("all", before)
