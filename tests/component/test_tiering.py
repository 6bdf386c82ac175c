"""One node with a store behind it: segments are copied, leave the disk, are read, expire, and are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.tiering import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING,
    LATEST,
    LATEST_TIERED,
    SECOND_MS,
    World,
    serving,
    settings,
    until,
    value_of,
)

Scenario = Callable[[World], Awaitable[None]]


def play(folder: Path, *scenarios: Scenario, **more: str) -> None:
    """Run scenarios one after the other, each on a node that is started anew on the same disk and store."""
    texts = settings(
        folder / "data", f"file://{folder}/store", {name.replace("_", "."): one for name, one in more.items()}
    )

    async def whole() -> None:
        for scenario in scenarios:
            async with serving(texts) as world:
                await scenario(world)

    asyncio.run(whole())


def stored(folder: Path, suffix: str = ".log") -> list[str]:
    return sorted(path.name for path in (folder / "store").rglob(f"*{suffix}"))


async def fill(world: World, count: int = 10) -> None:
    """Write records, two to a segment, and wait until all but the active segment is in the store alone."""
    await world.create()
    await world.produce(*range(count))
    await world.becomes(LATEST_TIERED, count - 3)
    await world.becomes(EARLIEST_LOCAL, count - 2)


def test_segments_go_to_the_store_and_are_read_from_there_also_after_a_restart(tmp_path: Path) -> None:
    async def look(world: World) -> None:
        await until(lambda: is_known(world))
        special = await world.offsets(EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING, LATEST)
        assert special == [0, 8, 7, 8, 10]
        assert await world.read() == [value_of(number) for number in range(10)]
        assert await world.read(start=5) == [value_of(number) for number in range(5, 10)]
        for number in (0, 3, 7, 8, 9):  # by time, on both sides of the border
            assert await world.offset((number + 1) * SECOND_MS - 1) == number

    async def first(world: World) -> None:
        await fill(world)
        await look(world)

    play(tmp_path, first, look)
    assert len(stored(tmp_path)) == 4


async def is_known(world: World) -> bool:
    try:
        return await world.offset(LATEST_TIERED) >= 0
    except Exception:
        return False
