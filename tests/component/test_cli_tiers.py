"""`kavka tiers`: what it shows, what it finds wrong, and a node made anew out of the store."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.tiering import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, World, serving, settings, until, value_of

from kavka.client import Consumer
from kavka.model.errors import KafkaError, OffsetOutOfRange
from kavka.model.types import TopicPartition


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    def run(scenario: Callable[[World], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with serving(settings(tmp_path / "data", f"file://{tmp_path}/store")) as world:
                await scenario(world)

        asyncio.run(whole())

    return run


async def command(*arguments: str) -> tuple[int, str]:
    """Run a command beside the node; its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kavka", *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def fill(world: World, count: int = 10) -> None:
    await world.create()
    await world.produce(*range(count))
    await world.becomes(EARLIEST_LOCAL, count - 2)


Play = Callable[[Callable[[World], Awaitable[None]]], None]


def test_what_the_store_has_is_shown_and_checked(play: Play, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"

    async def scenario(world: World) -> None:
        at = ("--bootstrap", world.bootstrap, "--output", "json")
        code, _ = await command("tiers", "status", *at)
        assert code == 1  # nothing is tiered yet
        await fill(world)
        code, text = await command("tiers", "status", *at)
        (row,) = json.loads(text)
        assert [row[one] for one in ("start", "local_start", "last_tiered", "to_copy_from", "end")] == [0, 8, 7, 8, 10]
        assert (row["segments"], row["unfinished"]) == (4, 0)
        code, text = await command("tiers", "list", "orders", *at)
        assert [(one["start"], one["end"]) for one in json.loads(text)] == [(0, 1), (2, 3), (4, 5), (6, 7)]
        code, text = await command("tiers", "verify", "--url", url, "--deep", *at)
        assert (code, json.loads(text)) == (0, {"segments": 4, "damaged": [], "orphans": []})

        (lost,) = (tmp_path / "store").rglob("00000000000000000002-*.log")
        orphan = lost.with_name(lost.name.replace("00000000000000000002", "00000000000000000099"))
        orphan = orphan.with_name(orphan.name[:21] + "A" * 22 + ".log")
        lost.rename(orphan)
        code, text = await command("tiers", "verify", "--url", url, *at)
        found = json.loads(text)
        assert (code, len(found["damaged"]), len(found["orphans"])) == (1, 1, 1)
        await command("tiers", "repair", "--url", url, *at)
        assert orphan.exists()
        await command("tiers", "repair", "--url", url, "--yes", *at)
        assert not orphan.exists()

    play(scenario)


def test_a_node_is_made_anew_out_of_the_store(play: Play, tmp_path: Path) -> None:
    async def first(world: World) -> None:
        await fill(world, 20)

    async def second(world: World) -> None:
        async def known() -> bool:
            try:
                return await world.offset(LATEST_TIERED) == 17
            except KafkaError:
                return False

        await until(known)
        assert await world.offsets(EARLIEST, EARLIEST_LOCAL, LATEST) == [0, 18, 18]
        assert await world.read() == [value_of(number) for number in range(18)]
        await world.alter(internal_segment_bytes=200, local_retention_bytes=1)
        await world.produce(*range(100, 106))
        await world.becomes(LATEST_TIERED, 21)
        assert await world.read() == [value_of(number) for number in (*range(18), *range(100, 106))]

    play(first)
    shutil.rmtree(tmp_path / "data")
    url = f"file://{tmp_path}/store"

    async def make() -> None:
        code, text = await command(
            "tiers", "rehydrate", "--url", url, "--data-dir", str(tmp_path / "data"), "-o", "json"
        )
        assert code == 0
        assert [(row["start"], row["end"], row["segments"]) for row in json.loads(text)["partitions"]] == [(0, 18, 9)]

    asyncio.run(make())
    play(second)


def test_a_store_with_a_hole_keeps_what_comes_before_it(play: Play, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"

    async def first(world: World) -> None:
        await fill(world, 10)

    async def make() -> None:
        code, text = await command(
            "tiers", "rehydrate", "--url", url, "--data-dir", str(tmp_path / "data"), "-o", "json"
        )
        found = json.loads(text)
        assert (code, [(row["start"], row["end"], row["segments"]) for row in found["partitions"]]) == (0, [(0, 8, 3)])
        assert "orders-0: offsets 2 to 3 are missing" in found["problems"]
        assert [problem for problem in found["problems"] if "its producers are not known" in problem]

    async def second(world: World) -> None:
        await world.create("others")
        await world.produce(*range(4), topic="others")
        await world.becomes(LATEST_TIERED, 1, "others")  # so much time was there to delete something
        assert await world.offsets(EARLIEST, LATEST_TIERED) == [0, 7]
        assert await world.read(start=4) == [value_of(number) for number in range(4, 8)]
        async with Consumer(world.pool) as consumer:
            await consumer.assign(TopicPartition("orders", 0), start=0)
            records = aiter(consumer)
            assert [(await anext(records)).value for _ in range(2)] == [value_of(0), value_of(1)]
            with pytest.raises(OffsetOutOfRange):
                await anext(records)

    play(first)
    shutil.rmtree(tmp_path / "data")
    (manifest,) = (tmp_path / "store").rglob("00000000000000000002-*.manifest")
    manifest.write_bytes(manifest.read_bytes()[:-9])
    (last,) = (tmp_path / "store").rglob("00000000000000000006-*.snapshot")
    last.write_bytes(bytes(len(last.read_bytes())))
    asyncio.run(make())
    play(second)


def test_nothing_is_removed_from_a_store_whose_catalogue_is_gone(play: Play, tmp_path: Path) -> None:
    async def first(world: World) -> None:
        await fill(world, 10)

    async def second(world: World) -> None:
        await world.create("others")
        await world.produce(0, topic="others")
        at = ("--url", f"file://{tmp_path}/store", "--bootstrap", world.bootstrap)
        code, _ = await command("tiers", "repair", *at, "--yes")
        assert code == 1

    play(first)
    shutil.rmtree(tmp_path / "data")
    play(second)
    assert len(list((tmp_path / "store").rglob("*.log"))) == 4
