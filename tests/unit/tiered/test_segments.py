"""Segments in a store: whole or not at all, the right bytes or an error, enough beside them for a new catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.tiered.stored import FILES, NAME, SEGMENT, guarded, run

from kavka.catalog.machine import Catalogue, segment_event, update_event
from kavka.catalog.segment import SegmentState, TopicIdPartition
from kavka.model.errors import InvalidConfig
from kavka.model.types import Uuid
from kavka.testing.faulty_store import Fault, FaultyStore
from kavka.tiered.objects.base import Content, ObjectCorrupt, ObjectNotFound, StoreError, StoreRefused
from kavka.tiered.objects.layout import KafkaLayout, Layout, ObjectLayout, SegmentRef, keys_of
from kavka.tiered.objects.local import LocalStore
from kavka.tiered.objects.manifest import Part, decode_manifest
from kavka.tiered.objects.sealing import KeyRing, Sealer, Sealing, checksum
from kavka.tiered.objects.segments import BadManifest, SegmentStore

pytest.importorskip("cryptography", reason="cryptography is not installed: the extra encryption")

KEYS = KeyRing("new", {"old": b"o" * 32, "new": b"n" * 32})
REF = SegmentRef.of(NAME, SEGMENT)
PLAIN, PACKED, SECRET = Sealing(), Sealing(compress=True), Sealing(keys=KEYS)
BOTH = Sealing(compress=True, keys=KEYS)
CHUNK = 1024


class Tier:
    """A store in a directory with faults in front, and the segments in it."""

    def __init__(self, root: Path, threads: ThreadPoolExecutor) -> None:
        self.root = root
        self.threads = threads
        self.faulty = FaultyStore(LocalStore(str(root), threads))

    def segments(self, sealing: Sealing = PLAIN, *layouts: Layout) -> SegmentStore:
        store = guarded(self.faulty, attempts=2)
        return SegmentStore(store, layouts or [ObjectLayout()], self.threads, sealing, CHUNK)

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())

    def file(self, suffix: str) -> Path:
        (found,) = self.root.rglob(f"*.{suffix}")
        return found


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[Tier]:
    with ThreadPoolExecutor(4) as threads:
        yield Tier(tmp_path, threads)


@pytest.mark.parametrize("sealing", [PLAIN, PACKED, SECRET, BOTH])
@pytest.mark.parametrize("layout", [KafkaLayout(), ObjectLayout()])
def test_every_chunk_can_be_read_by_itself(tier: Tier, sealing: Sealing, layout: Layout) -> None:
    async def work() -> None:
        store = tier.segments(sealing, layout)
        custom = await store.put(NAME, SEGMENT, FILES)
        assert len(custom) <= 128
        manifest = await store.manifest(NAME, SEGMENT._replace(custom_metadata=custom))
        log = FILES[Part.LOG]
        for number in reversed(range(10)):
            expected = log[number * CHUNK : (number + 1) * CHUNK]
            assert await store.read_chunks(manifest, Part.LOG, number, 1) == [expected]
        assert b"".join(await store.read_chunks(manifest, Part.LOG, 3, 5)) == log[3 * CHUNK : 8 * CHUNK]
        assert {part: await store.read_part(manifest, part) for part in FILES} == FILES
        assert Part.TXN_INDEX not in manifest.parts
        stored = sum(one.info.size for one in [one async for one in store.stored()])
        assert int.from_bytes(custom[1:9], "big") == stored

    run(work)


def test_a_directory_has_the_files_that_kafka_has(tier: Tier) -> None:
    run(lambda: tier.segments(PLAIN, KafkaLayout()).put(NAME, SEGMENT, FILES))
    folder = f"orders-eu.v1-3-{NAME.topic_id}"
    stem = f"{folder}/00000000000000000100-{SEGMENT.id}"
    suffixes = ["index", "leader_epoch_checkpoint", "log", "snapshot", "timeindex"]
    expected = [f"kafka-tiered-storage/{stem}.{suffix}" for suffix in suffixes]
    assert tier.files() == [*expected, f"kavka-manifests/{stem}.manifest"]
    for part, data in FILES.items():
        assert tier.file(part.value).read_bytes() == data


def test_compression_and_encryption_hide_what_they_should(tier: Tier) -> None:
    run(lambda: tier.segments(BOTH).put(NAME, SEGMENT, FILES))
    assert tier.file("log").stat().st_size < 6_000  # six of the ten thousand bytes are zeros
    assert b"producers" not in tier.file("indexes").read_bytes()
    manifest = json.loads(tier.file("manifest").read_bytes())["manifest"]
    assert manifest["encryption"]["key"] == "new"


def test_no_two_uploads_share_a_data_key(tier: Tier) -> None:
    stored = []
    for _ in range(2):
        run(lambda: tier.segments(SECRET).put(NAME, SEGMENT, FILES))
        stored.append(tier.file("log").read_bytes())
    assert stored[0] != stored[1]


def test_a_key_that_was_replaced_still_opens_what_it_sealed(tier: Tier) -> None:
    old = Sealing(keys=KeyRing("old", {"old": b"o" * 32}))
    custom = run(lambda: tier.segments(old).put(NAME, SEGMENT, FILES))
    segment = SEGMENT._replace(custom_metadata=custom)
    assert run(lambda: tier.segments(SECRET).faults(NAME, segment, deep=True)) == []
    other = Sealing(keys=KeyRing("new", {"new": b"n" * 32}))
    with pytest.raises(StoreRefused, match="no keys"):
        run(lambda: tier.segments(PLAIN).faults(NAME, segment, deep=True))
    with pytest.raises(StoreRefused, match="no key 'old'"):
        run(lambda: tier.segments(other).manifest(NAME, segment))
    wrong = Sealing(keys=KeyRing("old", {"old": b"x" * 32}))
    with pytest.raises(ObjectCorrupt):
        run(lambda: tier.segments(wrong).manifest(NAME, segment))


@pytest.mark.parametrize("sealing", [PLAIN, PACKED, SECRET, BOTH])
@pytest.mark.parametrize("suffix", ["log", "indexes", "manifest"])
def test_a_changed_byte_is_never_read(tier: Tier, sealing: Sealing, suffix: str) -> None:
    store = tier.segments(sealing)
    custom = run(lambda: store.put(NAME, SEGMENT, FILES))
    path, draw = tier.file(suffix), Random(3)
    whole = path.read_bytes()
    for position in draw.sample(range(len(whole)), 40):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        found = run(lambda: store.faults(NAME, SEGMENT._replace(custom_metadata=custom), deep=True))
        assert found, position
    path.write_bytes(whole[:-1])
    assert run(lambda: store.faults(NAME, SEGMENT._replace(custom_metadata=custom)))
    path.unlink()
    assert run(lambda: store.faults(NAME, SEGMENT._replace(custom_metadata=custom)))


def test_chunks_cannot_be_exchanged_even_with_their_checksums(tier: Tier) -> None:
    sealer, other = Sealer(b"place", False, b"k" * 32), Sealer(b"elsewhere", False, b"k" * 32)
    sealed = sealer.seal(0, 5, b"data")
    assert sealer.open(0, 5, sealed, 4) == b"data"
    for opener, part, number in [(sealer, 0, 6), (sealer, 1, 5), (other, 0, 5)]:
        with pytest.raises(ObjectCorrupt):
            opener.open(part, number, sealed, 4)


def test_a_manifest_that_someone_changed_is_refused(tier: Tier) -> None:
    store = tier.segments(SECRET)
    run(lambda: store.put(NAME, SEGMENT, FILES))
    outer = json.loads(tier.file("manifest").read_bytes())
    outer["manifest"]["segment"]["end_offset"] = 150
    outer["crc32c"] = checksum(json.dumps(outer["manifest"], sort_keys=True, separators=(",", ":")).encode())
    with pytest.raises(ObjectCorrupt, match="signature"):
        decode_manifest(json.dumps(outer).encode(), KEYS)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'{"manifest": 1, "crc32c": 0}', b"\xff"])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(ObjectCorrupt):
        decode_manifest(data, None)


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values in a piece of JSON."""
    if isinstance(tree, dict | list):
        inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return [path, *(leaf for key, value in inner for leaf in leaves(value, (*path, key)))]
    return [path]


@pytest.mark.parametrize("strange", [None, -1, 1 << 70, "x", "AAAA", [], {}, 1.5, True])
def test_a_manifest_that_is_strange_in_any_field_is_read_or_refused(tier: Tier, strange: Any) -> None:
    run(lambda: tier.segments(BOTH).put(NAME, SEGMENT, FILES))
    whole = json.loads(tier.file("manifest").read_bytes())
    refused = 0
    for path in leaves(whole["manifest"])[1:]:
        outer = json.loads(json.dumps(whole))
        inner = outer["manifest"]
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = strange
        outer["crc32c"] = checksum(json.dumps(outer["manifest"], sort_keys=True, separators=(",", ":")).encode())
        try:
            decode_manifest(json.dumps(outer).encode(), KEYS)
        except (ObjectCorrupt, StoreRefused):
            refused += 1
    assert refused > 20


def test_a_manifest_of_another_segment_is_not_taken(tier: Tier) -> None:
    store = tier.segments()
    run(lambda: store.put(NAME, SEGMENT, FILES))
    other = SEGMENT._replace(id=Uuid(b"another-16-bytes"))
    path = tier.file("manifest")
    path.rename(path.with_name(path.name.replace(str(SEGMENT.id), str(other.id))))
    with pytest.raises(ObjectCorrupt, match="another segment"):
        run(lambda: store.manifest(NAME, other))


@pytest.mark.parametrize("fault", [Fault.LOSES, Fault.SHORT])
def test_a_store_that_does_not_keep_what_it_took_is_found_out(tier: Tier, fault: Fault) -> None:
    tier.faulty.script("put", fault)
    with pytest.raises((ObjectCorrupt, ObjectNotFound)):
        run(lambda: tier.segments().put(NAME, SEGMENT, FILES))
    assert not [name for name in tier.files() if name.endswith("manifest")]


def test_bytes_that_were_spoiled_on_the_way_are_read_again(tier: Tier) -> None:
    async def work() -> None:
        store = tier.segments()
        await store.put(NAME, SEGMENT, FILES)
        manifest = await store.manifest(NAME, SEGMENT)
        for fault in (Fault.CORRUPT, Fault.SHORT):
            tier.faulty.script("read", fault)
            assert await store.read_chunks(manifest, Part.LOG, 0, 2) == [
                FILES[Part.LOG][:CHUNK],
                FILES[Part.LOG][CHUNK : 2 * CHUNK],
            ]
        tier.faulty.script("read", *[Fault.CORRUPT] * 4)
        with pytest.raises(ObjectCorrupt, match="checksum"):
            await store.read_chunks(manifest, Part.LOG, 0, 2)

    run(work)


def test_an_upload_that_is_tried_again_is_one_upload(tier: Tier) -> None:
    tier.faulty.script("put", Fault.LATE, None, Fault.UNAVAILABLE)
    custom = run(lambda: tier.segments(BOTH).put(NAME, SEGMENT, FILES))
    segment = SEGMENT._replace(custom_metadata=custom)
    assert run(lambda: tier.segments(BOTH).faults(NAME, segment, deep=True)) == []


@pytest.mark.parametrize("layouts", [[KafkaLayout(), ObjectLayout()], [ObjectLayout()]])
def test_a_deletion_that_failed_halfway_is_simply_done_again(tier: Tier, layouts: list[Layout]) -> None:
    store = tier.segments(PLAIN, *layouts)
    run(lambda: store.put(NAME, SEGMENT, FILES))
    tier.faulty.script("delete", Fault.LATE, Fault.LATE)
    with pytest.raises(StoreError):
        run(lambda: store.delete(REF))
    assert not [name for name in tier.files() if name.endswith("manifest")]  # it goes first: what is left is no segment
    assert tier.files()
    with pytest.raises(ObjectNotFound):
        run(lambda: store.manifest(NAME, SEGMENT._replace(custom_metadata=b"\x01" + bytes(12))))
    run(lambda: store.delete(REF))
    run(lambda: store.delete(REF))
    assert tier.files() == []


@pytest.mark.parametrize("sealing", [PLAIN, BOTH])
@pytest.mark.parametrize("lacks", ["", "manifest", "log", "half a log", "half a manifest"])
def test_a_segment_is_whole_if_its_manifest_and_all_that_it_names_are_there(
    tier: Tier, sealing: Sealing, lacks: str
) -> None:
    store = tier.segments(sealing, KafkaLayout() if sealing is PLAIN else ObjectLayout())
    custom = run(lambda: store.put(NAME, SEGMENT, FILES))
    if lacks.startswith("half a "):
        file = tier.file(lacks.removeprefix("half a "))
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif lacks:
        tier.file(lacks).unlink()
    assert run(lambda: store.custom_of(NAME, SEGMENT)) == (None if lacks else custom)


def test_a_segment_whose_manifest_is_spoiled_on_the_way_is_whole_all_the_same(tier: Tier) -> None:
    store = tier.segments()
    custom = run(lambda: store.put(NAME, SEGMENT, FILES))
    tier.faulty.script("read", Fault.CORRUPT)
    assert run(lambda: store.custom_of(NAME, SEGMENT)) == custom


def test_what_a_jvm_broker_stored_is_read_without_a_manifest(tier: Tier) -> None:
    folder = tier.root / "kafka-tiered-storage" / f"orders-eu.v1-3-{NAME.topic_id}"
    folder.mkdir(parents=True)
    for part, data in FILES.items():
        (folder / f"00000000000000000100-{SEGMENT.id}.{part.value}").write_bytes(data)

    async def work() -> None:
        store = tier.segments(PLAIN, KafkaLayout(), ObjectLayout())
        manifest = await store.manifest(NAME, SEGMENT)
        assert {part: await store.read_part(manifest, part) for part in FILES} == FILES
        with pytest.raises(ObjectCorrupt, match="bytes, not"):
            await store.manifest(NAME, SEGMENT._replace(size_bytes=10_001))
        with pytest.raises(ObjectNotFound):
            await store.manifest(NAME, SEGMENT._replace(id=Uuid(b"another-16-bytes")))
        await store.delete(REF)
        assert tier.files() == []

    run(work)


def test_segments_stay_readable_when_sealing_is_switched_on(tier: Tier) -> None:
    async def work() -> None:
        before = tier.segments(PLAIN, KafkaLayout(), ObjectLayout())
        after = tier.segments(BOTH, ObjectLayout(), KafkaLayout())
        second = SEGMENT._replace(id=Uuid(b"another-16-bytes"), start_offset=200, end_offset=299)
        customs = [await before.put(NAME, SEGMENT, FILES), await after.put(NAME, second, FILES)]
        for segment, custom in zip((SEGMENT, second), customs, strict=True):
            assert await after.faults(NAME, segment._replace(custom_metadata=custom), deep=True) == []
        assert len({one.ref async for one in after.stored()}) == 2

    run(work)


def test_a_catalogue_is_rebuilt_from_the_store_alone(tier: Tier) -> None:
    async def work() -> None:
        store = tier.segments(BOTH)
        lost, rebuilt = Catalogue(1), Catalogue(1)
        for number in range(5):
            one = SEGMENT._replace(
                id=Uuid(number.to_bytes(16, "big")),
                start_offset=number * 100,
                end_offset=number * 100 + 99,
                epochs=((0, number * 100),),
                txn_index_empty=number % 2 == 0,
            )
            custom = await store.put(NAME, one, FILES)
            lost.replay(0, segment_event(NAME, one))
            done = one._replace(state=SegmentState.COPY_SEGMENT_FINISHED, custom_metadata=custom)
            lost.replay(0, update_event(NAME, done))
        (tier.root / "unrelated.txt").write_bytes(b"not ours")
        spoiled = sorted(tier.root.rglob("*.manifest"))[2]
        bad = []
        async for found in store.recovered():
            assert not isinstance(found, BadManifest)
            name, one = found
            rebuilt.replay(0, segment_event(name, one._replace(state=SegmentState.COPY_SEGMENT_STARTED)))
            rebuilt.replay(0, update_event(name, one))
        assert rebuilt.partitions == lost.partitions
        spoiled.write_bytes(b"{")
        sorted(tier.root.rglob("*.log"))[3].unlink()  # behind our back
        bad = [one async for one in store.recovered() if isinstance(one, BadManifest)]
        assert [(one.ref.start_offset, one.unreadable) for one in bad] == [(200, True), (300, False)]
        spoiled.unlink()
        tier.faulty.script("read", Fault.CORRUPT)
        assert len([one async for one in store.recovered() if isinstance(one, BadManifest)]) == 1  # it is read again

    run(work)


@pytest.mark.parametrize("layout", [KafkaLayout(), ObjectLayout()])
@given(
    st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 10_000),
    st.integers(0, 2**63 - 1),
)
@settings(max_examples=100)
def test_keys_say_whose_they_are(layout: Layout, topic: str, raw: bytes, partition: int, start: int) -> None:
    ref = SegmentRef(TopicIdPartition(Uuid(raw), partition, topic), Uuid(raw[::-1]), start)
    for object in [*(object for object, _ in layout.objects()), "manifest"]:
        assert layout.parse(layout.key(ref, object)) == (ref, object)
    assert keys_of([layout], ref)[0].endswith(".manifest")
    assert layout.parse("kafka-tiered-storage/x.log") is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"current": "a", "keys": {}}', '{"current": "a", "keys": {"a": "AAAA"}}', '{"keys": 1}']
)
def test_a_file_of_keys_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig):
        KeyRing.parse(text)


def test_a_file_of_keys() -> None:
    ring = KeyRing.parse('{"current": "a", "keys": {"a": "' + "QUFB" * 10 + 'QUE="}}')
    entry: dict[str, Any] = ring.wrap(b"d" * 32, b"here")
    assert ring.unwrap(entry, b"here") == b"d" * 32
    with pytest.raises(ObjectCorrupt):
        ring.unwrap(entry, b"there")


def test_content_that_is_there_already() -> None:
    async def work() -> list[bytes]:
        content = Content.of(b"abc")
        return [chunk async for chunk in content.chunks()] + [chunk async for chunk in content.chunks()]

    assert run(work) == [b"abc", b"abc"]
