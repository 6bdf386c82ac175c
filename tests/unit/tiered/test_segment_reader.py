"""Reading remote segments without a broker: the right batches from any offset on, each chunk fetched once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import pytest
from tests.unit.tiered.stored import NAME, guarded, run

from kavka.catalog.segment import RemoteSegment
from kavka.model.types import Uuid
from kavka.records.batch import records, scan
from kavka.records.builder import BatchBuilder
from kavka.storage.disk import RealDisk
from kavka.storage.txn_index import AbortedTransaction
from kavka.storage.txn_index import encode as encode_aborted
from kavka.testing.faulty_store import Fault, FaultyStore
from kavka.tiered.chunk_loader import ChunkLoader
from kavka.tiered.disk_cache import DiskCache
from kavka.tiered.objects.base import ObjectCorrupt, ObjectNotFound, StoreError, StoreRefused, StoreUnavailable
from kavka.tiered.objects.layout import KafkaLayout, SegmentRef
from kavka.tiered.objects.local import LocalStore
from kavka.tiered.objects.manifest import Part
from kavka.tiered.objects.sealing import Sealing
from kavka.tiered.objects.segments import SegmentStore
from kavka.tiered.segment_reader import FoundTime, RemoteBatches, SegmentReader

CHUNK = 1 << 10
BATCHES = 40
FIRST = 1000


@dataclass
class Made:
    """A segment with batches of different sizes, and what is known of each."""

    segment: RemoteSegment
    files: dict[Part, Any]
    batches: list[tuple[int, int, bytes]]  # first and last offset, bytes

    def expected(self, offset: int, max_bytes: int, end: int | None = None) -> bytes:
        found = b""
        for first, last, data in self.batches:
            if last < offset or (end is not None and first > end):
                continue
            if found and len(found) + len(data) > max_bytes:
                break
            found += data
        return found


def made(number: int = 0, first: int = FIRST, seed: int = 5) -> Made:
    draw = Random(seed)
    offset, position, log, offsets, times, batches = first, 0, b"", b"", b"", []
    for _ in range(BATCHES):
        builder = BatchBuilder(base_offset=offset, leader_epoch=4)
        for _ in range(draw.randint(1, 5)):
            size = draw.choice([0, 10, 50, 100, 3000]) if draw.random() < 0.9 else 5000
            builder.append(b"k", draw.randbytes(size), timestamp=builder.last_offset * 10 + 10)
        data = bytes(builder.build())
        last = builder.last_offset
        if draw.random() < 0.4:
            offsets += pack(">ii", last - first, position)
            times += pack(">qi", last * 10, last - first)
        batches.append((offset, last, data))
        log += data
        position += len(data)
        offset = last + 1
    segment = RemoteSegment(Uuid(number.to_bytes(16, "big")), first, offset - 1, 0, 0, len(log), 1, ((4, first),))
    aborted = [
        AbortedTransaction(7, first + 5, first + 20, first + 15),
        AbortedTransaction(8, first, first + 50, first + 51),
    ]
    files = {
        Part.LOG: log,
        Part.OFFSET_INDEX: offsets,
        Part.TIME_INDEX: times,
        Part.TXN_INDEX: b"".join(map(encode_aborted, aborted)),
        Part.PRODUCER_SNAPSHOT: b"producers",
        Part.LEADER_EPOCHS: b"0\n2\n0 0\n4 900\n",
    }
    return Made(segment, files, batches)


class Tier:
    """A store with faults, caches on disk, and a reader over both."""

    def __init__(self, root: Path, threads: ThreadPoolExecutor, cache_bytes: int) -> None:
        self.root = root
        self.faulty = FaultyStore(LocalStore(str(root / "store"), threads))
        self.store = SegmentStore(guarded(self.faulty, attempts=2), [KafkaLayout()], threads, Sealing(), CHUNK)
        self.chunks = DiskCache(RealDisk(), str(root / "chunks"), cache_bytes, threads)
        self.indexes = DiskCache(RealDisk(), str(root / "indexes"), 1 << 20, threads)
        self.loader = ChunkLoader(self.store, self.chunks, fetches=lambda: 10, memory_bytes=4 * CHUNK)
        self.reader = SegmentReader(self.store, self.loader, self.indexes)

    async def put(self, one: Made) -> RemoteSegment:
        custom = await self.store.put(NAME, one.segment, one.files)
        self.faulty.calls.clear()
        return one.segment._replace(custom_metadata=custom)

    async def settle(self) -> None:
        """Until nothing is being loaded any more."""
        while self.loader._loading or self.loader._shared:
            await asyncio.sleep(0.001)


@asynccontextmanager
async def opened(root: Path, cache_bytes: int = 1 << 20) -> AsyncIterator[Tier]:
    with ThreadPoolExecutor(4) as threads:
        tier = Tier(root, threads, cache_bytes)
        await tier.chunks.load()
        await tier.indexes.load()
        running = asyncio.ensure_future(tier.loader.run())
        await asyncio.sleep(0)
        try:
            yield tier
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def play(work: Callable[[Tier], Awaitable[None]], root: Path, cache_bytes: int = 1 << 20) -> None:
    async def whole() -> None:
        async with opened(root, cache_bytes) as tier:
            await work(tier)

    run(whole)


@pytest.mark.parametrize("cache_bytes", [0, 8 * CHUNK, 1 << 20])
def test_any_offset_and_size_give_the_batches_of_the_log(tmp_path: Path, cache_bytes: int) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        draw = Random(1)
        for offset in range(segment.start_offset, segment.end_offset + 1):
            max_bytes = draw.choice([1, 100, CHUNK, 5 * CHUNK, 1 << 20])
            found = await tier.reader.read(NAME, segment, offset, max_bytes)
            assert found.data == one.expected(offset, max_bytes), (offset, max_bytes)
            assert found.first_offset <= offset < found.next_offset
            assert found.ends_segment == (found.next_offset > segment.end_offset)

    play(work, tmp_path, cache_bytes)


def test_a_segment_is_read_to_its_end_with_each_chunk_fetched_once(tmp_path: Path) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        offset, data = segment.start_offset, b""
        while offset <= segment.end_offset:
            found = await tier.reader.read(NAME, segment, offset, 2 * CHUNK)
            data += found.data
            offset = found.next_offset
        assert data == one.files[Part.LOG]
        assert found.ends_segment
        await tier.settle()
        chunks = -(-len(data) // CHUNK)
        assert tier.loader.fetched == chunks
        assert tier.loader.ahead > chunks // 10  # not all: most batches here are longer than a chunk

    play(work, tmp_path)


def test_reading_stops_where_the_lineage_does(tmp_path: Path) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        _, last, _ = one.batches[9]
        found = await tier.reader.read(NAME, segment, FIRST, 1 << 20, end_offset=last)
        assert found == RemoteBatches(one.expected(FIRST, 1 << 20, last), FIRST, last + 1, True)
        nothing = await tier.reader.read(NAME, segment, FIRST, 1 << 20, end_offset=FIRST - 1)
        assert nothing == RemoteBatches(b"", FIRST, FIRST, True)
        with pytest.raises(ObjectCorrupt, match="has no offset"):
            await tier.reader.read(NAME, segment, segment.end_offset + 1, 100)

    play(work, tmp_path)


def test_the_next_segment_is_fetched_before_it_is_asked_for(tmp_path: Path) -> None:
    one, other = made(), made(1, first=5000, seed=6)

    async def work(tier: Tier) -> None:
        segment, following = await tier.put(one), await tier.put(other)
        await tier.reader.read(NAME, segment, segment.end_offset, 1, following=following)
        await tier.settle()
        tier.faulty.calls.clear()
        found = await tier.reader.read(NAME, following, following.start_offset, 1)
        assert found.data == other.expected(following.start_offset, 1)
        await tier.settle()
        assert tier.faulty.calls["head"] == 0  # neither manifest nor index was asked for again
        assert f"{following.id}.{CHUNK}.0" in tier.chunks

    play(work, tmp_path)


def test_a_restart_finds_chunks_and_indexes_again(tmp_path: Path) -> None:
    one = made()
    kept: list[RemoteSegment] = []

    async def before(tier: Tier) -> None:
        kept.append(await tier.put(one))
        await tier.reader.read(NAME, kept[0], FIRST, 1 << 20)
        await tier.settle()

    async def after(tier: Tier) -> None:
        assert (await tier.reader.read(NAME, kept[0], FIRST, 1 << 20)).data == one.files[Part.LOG]
        assert sum(tier.faulty.calls.values()) == 0
        assert tier.loader.fetched == 0

    play(before, tmp_path)
    play(after, tmp_path)


def test_a_spoiled_cache_is_fetched_anew(tmp_path: Path) -> None:
    one = made()
    kept: list[RemoteSegment] = []

    async def before(tier: Tier) -> None:
        kept.append(await tier.put(one))
        await tier.reader.read(NAME, kept[0], FIRST, 1 << 20)
        await tier.settle()

    async def after(tier: Tier) -> None:
        assert (await tier.reader.read(NAME, kept[0], FIRST, 1 << 20)).data == one.files[Part.LOG]
        assert tier.loader.fetched > 10

    play(before, tmp_path)
    for path in [*(tmp_path / "chunks").iterdir(), *(tmp_path / "indexes").iterdir()]:
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    play(after, tmp_path)


def test_a_read_that_was_given_up_goes_on_into_the_cache(tmp_path: Path) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        tier.faulty.script("read", None, None, Fault.SLOW)  # the manifest, the index, and the first chunks
        read = asyncio.ensure_future(tier.reader.read(NAME, segment, FIRST, 1))
        while not tier.faulty.happened:
            await asyncio.sleep(0)
        read.cancel()
        with pytest.raises(asyncio.CancelledError):
            await read
        await tier.settle()
        assert f"{segment.id}.{CHUNK}.0" in tier.chunks
        assert (await tier.reader.read(NAME, segment, FIRST, 1)).data == one.expected(FIRST, 1)

    play(work, tmp_path)


def test_one_who_gives_up_takes_nothing_from_the_others(tmp_path: Path) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        tier.faulty.script("read", None, None, Fault.SLOW)
        reads = [asyncio.ensure_future(tier.reader.read(NAME, segment, FIRST, 1)) for _ in range(3)]
        while not tier.faulty.happened:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        reads[0].cancel()
        found = await asyncio.gather(*reads, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert [each.data for each in found[1:] if isinstance(each, RemoteBatches)] == [one.expected(FIRST, 1)] * 2

    play(work, tmp_path)


def test_many_who_ask_for_the_same_are_one_request(tmp_path: Path) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        found = await asyncio.gather(*(tier.reader.read(NAME, segment, FIRST, 1 << 20) for _ in range(20)))
        assert {each.data for each in found} == {one.files[Part.LOG]}
        assert tier.loader.fetched == -(-len(one.files[Part.LOG]) // CHUNK)
        assert tier.faulty.calls["head"] == 1

    play(work, tmp_path)


@pytest.mark.parametrize(
    ("fault", "error"),
    [(Fault.CORRUPT, ObjectCorrupt), (Fault.REFUSED, StoreRefused), (Fault.UNAVAILABLE, StoreUnavailable)],
)
def test_a_failing_store_is_an_error_for_those_who_ask_and_passes(
    tmp_path: Path, fault: Fault, error: type[StoreError]
) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        tier.faulty.rates = {fault: 1.0}
        with pytest.raises(error):
            await tier.reader.read(NAME, segment, FIRST, 1)
        tier.faulty.rates = {}
        assert (await tier.reader.read(NAME, segment, FIRST, 1)).data == one.expected(FIRST, 1)
        tier.faulty.rates = {fault: 1.0}
        with pytest.raises(error):
            await tier.reader.read(NAME, segment, segment.end_offset, 1)
        tier.faulty.rates = {}
        found = await tier.reader.read(NAME, segment, segment.end_offset, 1)
        assert found.data == one.expected(segment.end_offset, 1)

    play(work, tmp_path)


def test_with_any_faults_bytes_are_right_or_an_error(tmp_path: Path) -> None:
    one = made()
    rates: dict[Fault, float] = dict.fromkeys(set(Fault) - {Fault.HANGS, Fault.LOSES, Fault.SLOW}, 0.05)

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        tier.faulty.rates = rates
        draw, right, wrong = Random(9), 0, 0
        for _ in range(300):
            offset = draw.randint(segment.start_offset, segment.end_offset)
            try:
                found = await tier.reader.read(NAME, segment, offset, 2 * CHUNK)
            except StoreError:
                wrong += 1
                continue
            assert found.data == one.expected(offset, 2 * CHUNK)
            right += 1
        assert right > 50
        assert wrong > 5

    play(work, tmp_path, cache_bytes=0)


def test_a_bad_chunk_costs_one_try_and_not_the_whole_segment(tmp_path: Path) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        (log,) = (tmp_path / "store").rglob("*.log")
        data = log.read_bytes()
        bad = len(data) * 3 // 4 // CHUNK * CHUNK
        log.write_bytes(data[:bad] + bytes(CHUNK) + data[bad + CHUNK :])
        ends = accumulate(len(batch) for _, _, batch in one.batches)
        offset = next(last for (_, last, _), end in zip(one.batches, ends, strict=True) if end > bad)
        with pytest.raises(ObjectCorrupt, match="checksum"):
            await tier.reader.read(NAME, segment, offset, 1)
        assert tier.loader.fetched < 40
        assert (await tier.reader.read(NAME, segment, FIRST, 1)).data == one.expected(FIRST, 1)

    play(work, tmp_path)


def test_an_index_that_misleads_costs_time_only(tmp_path: Path) -> None:
    one = made()
    draw = Random(2)
    one.files[Part.OFFSET_INDEX] = b"".join(
        pack(">ii", at * 3, draw.randrange(len(one.files[Part.LOG]))) for at in range(40)
    )

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        for offset in range(segment.start_offset, segment.end_offset + 1):
            assert (await tier.reader.read(NAME, segment, offset, 1)).data == one.expected(offset, 1)

    play(work, tmp_path)


def test_what_a_jvm_broker_stored_is_checked_batch_by_batch(tmp_path: Path) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        custom = await tier.put(one)
        (manifest,) = (tmp_path / "store" / "kavka-manifests").rglob("*.manifest")
        manifest.unlink()
        segment = custom._replace(custom_metadata=None)
        assert (await tier.reader.read(NAME, segment, FIRST, 1 << 20)).data == one.files[Part.LOG]
        await tier.settle()
        await tier.reader.forget(segment.id)
        (log,) = (tmp_path / "store").rglob("*.log")
        data = log.read_bytes()
        log.write_bytes(data[:-3] + b"xyz")
        assert (await tier.reader.read(NAME, segment, FIRST, 1)).data == one.expected(FIRST, 1)
        with pytest.raises(ObjectCorrupt):
            await tier.reader.read(NAME, segment, segment.end_offset, 1)

    play(work, tmp_path)


def test_offsets_are_found_by_time(tmp_path: Path) -> None:
    one = made()
    log = one.files[Part.LOG]
    everything = [record for info in scan(log) for record in records(log, info)]

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        for at in (
            0,
            FIRST * 10,
            FIRST * 10 + 1,
            FIRST * 10 + 555,
            segment.end_offset * 10,
            segment.end_offset * 10 + 1,
        ):
            for start in (FIRST, FIRST + 40):
                found = await tier.reader.offset_for_time(NAME, segment, at, start)
                wanted = next((each for each in everything if each.timestamp >= at and each.offset >= start), None)
                assert found == (wanted and FoundTime(wanted.timestamp, wanted.offset, 4)), (at, start)

    play(work, tmp_path)


def test_aborted_transactions_epochs_and_producers(tmp_path: Path) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        aborted = tier.reader.aborted
        first, second = (
            AbortedTransaction(7, FIRST + 5, FIRST + 20, FIRST + 15),
            AbortedTransaction(8, FIRST, FIRST + 50, FIRST + 51),
        )
        assert await aborted(NAME, segment, FIRST, FIRST + 10) == ([first], True)
        assert await aborted(NAME, segment, FIRST, FIRST + 30) == ([first, second], True)
        assert await aborted(NAME, segment, FIRST + 21, FIRST + 99) == ([second], False)
        assert await aborted(NAME, segment._replace(txn_index_empty=True), FIRST, FIRST + 99) == ([], False)
        assert await tier.reader.leader_epochs(NAME, segment) == [(0, 0), (4, 900)]
        assert await tier.reader.producer_snapshot(NAME, segment) == b"producers"
        calls, hits = sum(tier.faulty.calls.values()), tier.indexes.counts.hits
        await tier.reader.leader_epochs(NAME, segment)
        assert sum(tier.faulty.calls.values()) == calls  # it is in the cache
        assert tier.indexes.counts.hits == hits  # and still in memory

    play(work, tmp_path)


def test_a_segment_that_is_gone_leaves_nothing_in_the_caches(tmp_path: Path) -> None:
    one = made()

    async def work(tier: Tier) -> None:
        segment = await tier.put(one)
        await tier.reader.read(NAME, segment, FIRST, 1 << 20)
        await tier.settle()
        assert len(tier.chunks) > 10
        await tier.store.delete(SegmentRef.of(NAME, segment))
        await tier.reader.forget(segment.id)
        assert (len(tier.chunks), len(tier.indexes)) == (0, 0)
        with pytest.raises(ObjectNotFound):
            await tier.reader.read(NAME, segment, FIRST, 1)

    play(work, tmp_path)


def test_nothing_is_read_unless_the_loader_runs(tmp_path: Path) -> None:
    one = made()

    async def work() -> None:
        async with opened(tmp_path) as tier:
            segment = await tier.put(one)
        with pytest.raises(StoreUnavailable):
            await tier.reader.read(NAME, segment, FIRST, 1)

    run(work)
