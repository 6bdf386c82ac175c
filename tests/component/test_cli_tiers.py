"""`kavka tiers`: what it shows, what it finds wrong, and a node made anew out of the store."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.tiering import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, World, serving, settings, until, value_of
from tests.unit.catalog.test_machine import segment

from json_names import documented
from kavka.catalog.segment import TopicIdPartition
from kavka.client import Consumer
from kavka.model.errors import KafkaError, OffsetOutOfRange
from kavka.model.types import TopicPartition, Uuid
from kavka.tiered.objects.manifest import Part
from kavka.tiered.objects.opening import open_segments


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
        nothing = ("damaged", "lost", "of_other_topics", "unreadable", "orphans")
        assert (code, json.loads(text)) == (0, {"segments": 4, **{kind: [] for kind in nothing}})

        for unknown in (["nosuch"], ["orders", "--partition", "1"]):
            assert (await command("tiers", "list", *unknown, *at))[0] == 1

        (lost,) = (tmp_path / "store").rglob("00000000000000000002-*.log")
        orphan = lost.with_name(lost.name.replace("00000000000000000002", "00000000000000000099"))
        orphan = orphan.with_name(orphan.name[:21] + "A" * 22 + ".log")
        lost.rename(orphan)
        code, text = await command("tiers", "verify", "--url", url, *at)
        found = json.loads(text)
        assert (code, len(found["damaged"]), len(found["orphans"])) == (1, 1, 1)
        await command("tiers", "repair", "--url", url, *at)
        assert orphan.exists()
        left = tmp_path / "store/.kavka-tmp/left-by-a-killed-node"
        left.write_bytes(b"half")
        code, text = await command("tiers", "verify", "--url", url, *at)
        assert f".kavka-tmp/{left.name}" in json.loads(text)["orphans"]
        code, text = await command("tiers", "repair", "--url", url, "--yes", *at)
        assert f".kavka-tmp/{left.name}" in json.loads(text)["removed"]
        assert not orphan.exists()
        assert not left.exists()

    play(scenario)


def test_a_store_that_does_not_answer_is_told_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store").write_bytes(b"no directory")

    async def scenario() -> None:
        async with serving({**settings(tmp_path / "data", f"file://{tmp_path}/other")}) as world:
            await fill(world, 4)
            capfd.readouterr()
            code, _ = await command("tiers", "verify", "--url", f"file://{tmp_path}/store", "-b", world.bootstrap)
        assert code == 1

    asyncio.run(scenario())
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("kavka:") or "Traceback" in line]
    assert len(said) == 1


def test_segments_that_the_catalogue_has_lost_are_put_back_and_not_removed(play: Play, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"

    async def lose(world: World) -> None:
        await fill(world)
        await world.admin.delete_topic("__remote_log_metadata")

    async def put_back(world: World) -> None:
        await becomes_known(world, -1)
        await world.produce(*range(10, 14))
        await becomes_known(world, 11)  # what was lost is no reason to think that it has expired
        await world.becomes(EARLIEST_LOCAL, 12)
        at = ("--url", url, "--bootstrap", world.bootstrap, "--output", "json")
        spans = [(0, 1), (2, 3), (4, 5), (6, 7)]
        code, text = await command("tiers", "verify", *at)
        assert (code, [(one["start"], one["end"]) for one in json.loads(text)["lost"]]) == (1, spans)
        with pytest.raises(OffsetOutOfRange):
            await world.read(start=2)
        code, text = await command("tiers", "repair", *at, "--yes")
        found = json.loads(text)
        assert (code, found["removed"], [(one["start"], one["end"]) for one in found["put_back"]]) == (0, [], spans)

        async def are_read() -> bool:
            try:
                return await world.read() == [value_of(number) for number in range(14)]
            except OffsetOutOfRange:
                return False

        await until(are_read)
        assert (await command("tiers", "verify", *at, "--deep"))[0] == 0

    play(lose)
    play(put_back)


async def becomes_known(world: World, last_tiered: int, topic: str = "orders") -> None:
    """Wait until the catalogue knows remote segments up to an offset."""

    async def known() -> bool:
        try:
            return await world.offset(LATEST_TIERED, topic) == last_tiered
        except KafkaError:
            return False

    await until(known)


def test_segments_of_a_topic_that_is_not_here_are_removed_only_if_that_is_asked_for(play: Play, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await fill(world)
        at = ("--url", f"file://{tmp_path}/store", "--bootstrap", world.bootstrap, "--output", "json")
        with ThreadPoolExecutor(1) as threads:
            store = open_segments(f"file://{tmp_path}/store", threads)
            strange = segment(9, 0, 0)
            parts = {Part.LOG: b"x" * strange.size_bytes}
            await store.put(TopicIdPartition(Uuid(b"another cluster."), 0, "orders"), strange, parts)
        code, text = await command("tiers", "repair", *at, "--yes")
        assert (code, json.loads(text)) == (0, {"removed": [], "put_back": []})
        code, text = await command("tiers", "repair", *at, "--yes", "--of-other-topics")
        assert (code, len(json.loads(text)["removed"])) == (0, 2)  # its log and its manifest
        assert await world.read() == [value_of(number) for number in range(10)]

    play(scenario)


def test_a_segment_whose_manifest_cannot_be_read_is_not_removed(play: Play, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await fill(world)
        at = ("--url", f"file://{tmp_path}/store", "--bootstrap", world.bootstrap, "--output", "json")
        store, ids = tmp_path / "store", ("A" * 22, "B" + "A" * 21)
        strange, without = (f"00000000000000000099-{id}" for id in ids)
        for path in [*store.rglob("00000000000000000002-*")]:
            shutil.copy(path, path.with_name(strange + path.suffix))  # with the manifest of another segment
            if path.suffix != ".manifest":
                shutil.copy(path, path.with_name(without + path.suffix))
        code, text = await command("tiers", "verify", *at)
        assert (code, json.loads(text)["unreadable"]) == (1, [ids[0]])
        code, text = await command("tiers", "repair", *at, "--yes")
        assert code == 0
        assert {key.rpartition("/")[2].partition(".")[0] for key in json.loads(text)["removed"]} == {without}
        assert len([*store.rglob(f"{strange}.*")]) > 1

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
        documented("kavka tiers rehydrate --url STORE --data-dir new-data", text)

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
