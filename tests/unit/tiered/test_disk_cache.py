"""The cache on disk: bounded, found again, and never wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.tiered.stored import run

from kavka.storage.disk import RealDisk
from kavka.tiered.disk_cache import DiskCache

HEAD = 16


class FullDisk(RealDisk):
    """A disk without room."""

    def write_file(self, path: str, data: bytes) -> None:
        raise OSError(28, "no space left on device", path)


class BrokenDisk(RealDisk):
    """A disk that can do nothing any more, once it is broken."""

    broken = False

    def _works(self) -> None:
        if self.broken:
            raise OSError(5, "input/output error")

    def read_file(self, path: str) -> bytes:
        self._works()
        return super().read_file(path)

    def unlink(self, path: str) -> None:
        self._works()
        super().unlink(path)

    def listdir(self, path: str) -> list[str]:
        self._works()
        return super().listdir(path)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def opened(folder: Path, threads: ThreadPoolExecutor, max_bytes: int = 1000, disk: RealDisk | None = None) -> DiskCache:
    cache = DiskCache(disk or RealDisk(), str(folder / "cache"), max_bytes, threads)
    run(cache.load)
    return cache


def test_the_longest_unused_goes_before_the_cache_is_full(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    cache = opened(tmp_path, threads, max_bytes=3 * (100 + HEAD))

    async def work() -> None:
        for key in ("a", "b", "c"):
            await cache.put(key, key.encode() * 100)
        assert await cache.get("a") == b"a" * 100
        await cache.put("d", b"d" * 100)
        assert [key for key in "abcd" if key in cache] == ["a", "c", "d"]
        assert await cache.get("b") is None
        await cache.put("huge", b"h" * 1000)
        assert "huge" not in cache
        assert (cache.counts.hits, cache.counts.misses, cache.counts.evicted) == (1, 1, 1)

    run(work)
    assert sorted(os.listdir(tmp_path / "cache")) == ["a", "c", "d"]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 300)), max_size=30))
def test_the_disk_never_holds_more_than_the_limit(
    tmp_path_factory: pytest.TempPathFactory, puts: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    with ThreadPoolExecutor(1) as threads:
        cache = opened(folder, threads, max_bytes=500)

        async def work() -> None:
            for key, size in puts:
                await cache.put(key, key.encode() * size)
                on_disk = {one.name: one.stat().st_size for one in os.scandir(folder / "cache")}
                assert sum(on_disk.values()) == cache.used_bytes <= 500
                assert await cache.get(key) == key.encode() * size

        run(work)


def test_a_restart_finds_the_entries_again(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    first = opened(tmp_path, threads)

    async def fill() -> None:
        for key in ("a", "b", "c"):
            await first.put(key, key.encode() * 100)

    run(fill)
    for seconds, key in enumerate(("b", "a", "c")):
        os.utime(tmp_path / "cache" / key, (seconds, seconds))
    (tmp_path / "cache" / "d.tmp").write_bytes(b"half")
    second = opened(tmp_path, threads)
    assert (len(second), second.used_bytes) == (3, 3 * (100 + HEAD))
    assert run(lambda: second.get("a")) == b"a" * 100
    third = opened(tmp_path, threads, max_bytes=100 + HEAD)  # the limit was lowered: only the newest stays
    assert [key for key in "abc" if key in third] == ["c"]
    assert os.listdir(tmp_path / "cache") == ["c"]


def test_an_entry_that_is_not_what_was_written_is_forgotten(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    cache = opened(tmp_path, threads)
    path = tmp_path / "cache" / "a"
    run(lambda: cache.put("a", b"0123456789"))
    whole = path.read_bytes()
    spoiled = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    spoiled += [whole[:at] for at in range(len(whole))]
    for data in spoiled:
        run(lambda: cache.put("a", b"0123456789"))
        path.write_bytes(data)
        assert run(lambda: cache.get("a")) is None
        assert not path.exists()
    assert cache.counts.corrupt == len(spoiled)
    run(lambda: cache.put("a", b"0123456789"))
    path.rename(path.with_name("b"))
    again = opened(tmp_path, threads)
    assert "b" in again
    assert run(lambda: again.get("b")) is None  # the bytes of another entry


def test_a_disk_without_room_costs_only_the_cache(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    cache = opened(tmp_path, threads, disk=FullDisk())
    run(lambda: cache.put("a", b"data"))
    assert run(lambda: cache.get("a")) is None
    assert (cache.used_bytes, cache.counts.failed) == (0, 1)


def test_a_disk_that_fails_costs_only_the_cache(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    disk = BrokenDisk()
    cache = opened(tmp_path, threads, disk=disk)
    run(lambda: cache.put("a", b"data"))
    disk.broken = True
    assert run(lambda: cache.get("a")) is None
    assert (cache.used_bytes, cache.counts.failed) == (0, 2)  # it was neither read nor removed
    assert len(opened(tmp_path, threads, disk=disk)) == 0


def test_entries_of_a_segment_go_together(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    cache = opened(tmp_path, threads)

    async def work() -> None:
        for key in ("x.1", "x.2", "y.1"):
            await cache.put(key, b"data")
        await cache.drop_of("x.")

    run(work)
    assert os.listdir(tmp_path / "cache") == ["y.1"]
    assert cache.used_bytes == 4 + HEAD
