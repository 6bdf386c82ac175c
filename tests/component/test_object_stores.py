"""One contract, every store: a directory, memory, S3 as two servers speak it, and Azure's as Azurite does."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from tests.azurite import azurite_server
from tests.s3_servers import BUCKET, SERVERS, s3_server
from tests.unit.tiered.stored import FILES, NAME, SEGMENT, guarded, run

from kavka.catalog.segment import SegmentState
from kavka.model.errors import InvalidConfig
from kavka.tiered.objects.base import (
    Content,
    ObjectCorrupt,
    ObjectNotFound,
    ObjectStore,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    list_objects,
)
from kavka.tiered.objects.guard import GuardedStore, StoreLimits
from kavka.tiered.objects.local import LocalStore
from kavka.tiered.objects.opening import open_segments, open_store
from kavka.tiered.objects.sealing import KeyRing, Sealing


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server("moto", tmp_path_factory.mktemp("moto")) as options:
        yield options


@pytest.fixture(scope="module")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server("versitygw", tmp_path_factory.mktemp("versitygw")) as options:
        yield options


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with azurite_server(tmp_path_factory.mktemp("azurite")) as options:
        yield options


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture(params=["file", "memory", *SERVERS, "azurite"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path) -> str:
    if kind == "file":
        return f"file://{tmp_path}/store"
    pytest.importorskip("obstore", reason="obstore is not installed: the extra cloud")
    return "memory://" if kind == "memory" else f"{'az' if kind == 'azurite' else 's3'}://{BUCKET}/{uuid.uuid4()}"


@pytest.fixture
def options(kind: str, request: pytest.FixtureRequest) -> dict[str, str] | None:
    return request.getfixturevalue(kind) if kind in {*SERVERS, "azurite"} else None


@pytest.fixture
def store(url: str, options: dict[str, str] | None, threads: ThreadPoolExecutor) -> ObjectStore:
    return GuardedStore(open_store(url, threads, options), StoreLimits(call_s=20, attempts=1))


def test_what_was_put_is_read_by_range(store: ObjectStore) -> None:
    async def work() -> None:
        assert await store.put("a/one", Content.of(b"0123456789")) == 10
        assert await store.read("a/one", 0, 10) == b"0123456789"
        assert await store.read("a/one", 3, 4) == b"3456"
        assert await store.read("a/one", 9, 1) == b"9"
        assert await store.read("a/one", 4, 0) == b""
        assert (await store.head("a/one")).size == 10

    run(work)


@pytest.mark.parametrize(("start", "length"), [(0, 11), (9, 2), (10, 1), (50, 5)])
def test_a_range_past_the_end_is_an_error_and_never_fewer_bytes(store: ObjectStore, start: int, length: int) -> None:
    async def work() -> None:
        await store.put("a/one", Content.of(b"0123456789"))
        with pytest.raises((ObjectCorrupt, StoreUnavailable)):
            await store.read("a/one", start, length)

    run(work)


def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    async def work() -> None:
        assert await store.put("a/none", Content.of(b"")) == 0
        assert (await store.head("a/none")).size == 0
        assert await store.read("a/none", 0, 0) == b""
        with pytest.raises((ObjectCorrupt, StoreUnavailable)):
            await store.read("a/none", 0, 1)

    run(work)


def test_putting_again_replaces(store: ObjectStore) -> None:
    async def work() -> None:
        await store.put("a/one", Content.of(b"0123456789"))
        await store.put("a/one", Content.of(b"new"))
        assert await store.read("a/one", 0, (await store.head("a/one")).size) == b"new"

    run(work)


def test_a_large_object_goes_in_parts(store: ObjectStore) -> None:
    data = Random(7).randbytes(1 << 20)

    async def many() -> object:
        for number in range(20):
            yield data[number:] + data[:number]

    async def work() -> None:
        assert await store.put("a/large", Content(20 << 20, many)) == 20 << 20  # type: ignore[arg-type]
        assert (await store.head("a/large")).size == 20 << 20
        expected = data[10:] + data[:10] + data[11:] + data[:11]
        assert await store.read("a/large", 10 << 20, 2 << 20) == expected

    run(work)


def test_what_is_not_there_is_not_found(store: ObjectStore) -> None:
    async def work() -> None:
        for call in (store.head("no/such"), store.read("no/such", 0, 1)):
            with pytest.raises(ObjectNotFound):
                await call
        assert await store.list_page("no", "") == []

    run(work)


def test_deleting_what_is_gone_is_no_error(store: ObjectStore) -> None:
    async def work() -> None:
        await store.put("a/one", Content.of(b"1"))
        await store.put("a/two", Content.of(b"2"))
        await store.delete(["a/zero", "a/one", "a/one"])
        await store.delete(["a/one"])
        assert [info.key async for info in list_objects(store)] == ["a/two"]

    run(work)


def test_listing_goes_by_key_and_page(store: ObjectStore) -> None:
    keys = sorted(f"{folder}/{number:02d}" for folder in ("a", "a-b", "b") for number in range(15))

    async def work() -> None:
        for key in keys:
            await store.put(key, Content.of(key.encode()))
        found = [(info.key, info.size) async for info in list_objects(store)]
        assert found == [(key, len(key)) for key in keys]
        assert [info.key async for info in list_objects(store, "a")] == keys[15:30]  # a-b/ sorts before a/
        assert [info.key for info in await store.list_page("b", "b/12")] == ["b/13", "b/14"]
        assert all(info.modified_ms > 1_600_000_000_000 for info in await store.list_page("", ""))

    run(work)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_segment_goes_there_and_comes_back(
    url: str, options: dict[str, str] | None, threads: ThreadPoolExecutor, sealed: bool
) -> None:
    if sealed:
        pytest.importorskip("cryptography", reason="cryptography is not installed: the extra encryption")
    sealing = Sealing(compress=True, keys=KeyRing("k", {"k": b"k" * 32})) if sealed else Sealing()

    async def work() -> None:
        store = open_segments(url, threads, options=options, sealing=sealing, chunk_bytes=1024)
        custom = await store.put(NAME, SEGMENT, FILES)
        segment = SEGMENT._replace(custom_metadata=custom)
        manifest = await store.manifest(NAME, segment)
        assert {part: await store.read_part(manifest, part) for part in FILES} == FILES
        assert await store.faults(NAME, segment, deep=True) == []
        recovered = [one async for one in store.recovered()]
        finished = segment._replace(state=SegmentState.COPY_SEGMENT_FINISHED)
        assert recovered == [(NAME, finished)]
        await store.delete((await anext(store.stored())).ref)
        assert [one async for one in store.stored()] == []

    run(work)


@pytest.mark.parametrize(
    ("url", "option"), [("s3://b/p", "sekret_access_key"), ("gs://b/p", "secret"), ("az://b/p", "no_such")]
)
def test_an_option_that_a_store_does_not_have_is_refused(url: str, option: str, threads: ThreadPoolExecutor) -> None:
    pytest.importorskip("obstore", reason="obstore is not installed: the extra cloud")
    with pytest.raises(InvalidConfig):
        open_store(url, threads, {option: "x"})


@pytest.mark.parametrize("server", SERVERS)
def test_a_bucket_that_is_not_there_or_not_ours_is_refused(
    server: str, request: pytest.FixtureRequest, threads: ThreadPoolExecutor
) -> None:
    s3 = request.getfixturevalue(server)

    async def work() -> None:
        store = guarded(open_store("s3://no-such-bucket/x", threads, s3))
        with pytest.raises(StoreError) as failed:
            await store.put("a", Content.of(b"1"))
        assert isinstance(failed.value, StoreRefused | ObjectNotFound)

    run(work)


def test_a_server_that_is_gone_is_unavailable(threads: ThreadPoolExecutor) -> None:
    pytest.importorskip("obstore", reason="obstore is not installed: the extra cloud")
    options = {"endpoint": "http://127.0.0.1:1", "access_key_id": "k", "secret_access_key": "k", "region": "us-east-1"}
    with pytest.raises(StoreUnavailable):
        run(lambda: guarded(open_store("s3://b/x", threads, options), attempts=2).head("a"))


@pytest.mark.parametrize("url", ["ftp://x", "file://host/dir", "file:relative", "nonsense", "s3:///x"])
def test_a_url_that_names_no_store_is_refused(url: str, threads: ThreadPoolExecutor) -> None:
    with pytest.raises(InvalidConfig):
        open_store(url, threads)


@pytest.mark.parametrize("key", ["../x", "a//b", "/a", "a/./b", "", "a\0b"])
def test_no_key_leads_out_of_the_directory(tmp_path: Path, threads: ThreadPoolExecutor, key: str) -> None:
    with pytest.raises(StoreRefused):
        run(lambda: LocalStore(str(tmp_path), threads).head(key))


def test_an_upload_that_fails_leaves_nothing(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    store = LocalStore(str(tmp_path), threads)

    async def breaks() -> object:
        yield b"some"
        raise StoreUnavailable("lost")

    async def work() -> None:
        with pytest.raises(StoreUnavailable):
            await store.put("a/one", Content(4, breaks))  # type: ignore[arg-type]
        assert [info async for info in list_objects(store)] == []

    run(work)
    threads.shutdown()
    assert [name for _, _, names in os.walk(tmp_path) for name in names] == []


def test_new_directories_are_forced_to_the_device_with_what_is_in_them(
    tmp_path: Path, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: set[Path] = set()
    fsync = os.fsync

    def noting(fd: int) -> None:
        forced.add(Path(os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noting)
    run(lambda: LocalStore(str(tmp_path / "store"), threads).put("a/b/one", Content.of(b"data")))
    assert forced >= {tmp_path / "store", tmp_path / "store" / "a", tmp_path / "store" / "a" / "b"}


def test_a_full_disk_is_a_full_store(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(StoreFull):
            run(lambda: LocalStore(str(tmp_path), threads).put("a/one", Content.of(bytes(2 << 20))))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Held:
    """Content that stops halfway until it may go on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.halfway, self.go_on = asyncio.Event(), asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        half = len(self.data) // 2
        yield self.data[:half]
        self.halfway.set()
        await self.go_on.wait()
        yield self.data[half:]

    @property
    def content(self) -> Content:
        return Content(len(self.data), self.chunks)


def test_nodes_that_share_a_directory_and_a_process_id_do_not_mix_their_bytes(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    first, second = LocalStore(str(tmp_path), threads), LocalStore(str(tmp_path), threads)
    held = Held(b"1" * 1000)

    async def work() -> None:
        async with asyncio.TaskGroup() as tasks:
            putting = tasks.create_task(first.put("a/first", held.content))
            await held.halfway.wait()
            await second.put("a/second", Content.of(b"2" * 100))
            held.go_on.set()
        assert putting.result() == 1000
        assert await first.read("a/first", 0, 1000) == b"1" * 1000
        assert await first.read("a/second", 0, 100) == b"2" * 100

    run(work)


DIES = """
import asyncio, os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from kavka.tiered.objects.base import Content
from kavka.tiered.objects.local import LocalStore

async def chunks():
    yield b"some"
    os.kill(os.getpid(), signal.SIGKILL)
    yield b"never"

asyncio.run(LocalStore(sys.argv[1], ThreadPoolExecutor(1)).put("a/lost", Content(9, chunks)))
"""


def test_what_a_killed_node_left_is_found_and_what_a_living_one_writes_is_left_alone(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    died = subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=False)
    assert died.returncode == -signal.SIGKILL
    store, living = LocalStore(str(tmp_path), threads), Held(b"1" * 1000)

    async def work() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(LocalStore(str(tmp_path), threads).put("a/one", living.content))
            await living.halfway.wait()
            (left,) = await store.abandoned(remove=False)
            assert left.size == 4
            assert await store.abandoned(remove=True) == [left]
            assert await store.abandoned(remove=True) == []
            living.go_on.set()
        assert await store.read("a/one", 0, 1000) == b"1" * 1000

    run(work)
    assert list((tmp_path / ".kavka-tmp").iterdir()) == []
