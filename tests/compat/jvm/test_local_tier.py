"""Segments in a directory go both ways between Kavka and Kafka's own LocalTieredStorage."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kafka_jars import fetch
from tests.unit.tiered.stored import FILES, NAME, SEGMENT, run

from kavka.catalog.machine import segment_event
from kavka.catalog.records import encode_event
from kavka.tiered.objects.layout import SegmentRef
from kavka.tiered.objects.manifest import Part
from kavka.tiered.objects.opening import open_segments

DRIVER = "kavka.compat.LocalTier"
EVENT = encode_event(segment_event(NAME, SEGMENT)).hex()
Tier = Callable[[str, Path], None]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@pytest.fixture
def kafkas(jvm_tool: Callable[..., Any], store: Path) -> Tier:
    """Kafka's store on the same directory: copies a folder's files there, reads them into one, deletes them."""
    jars = fetch.test_folder()
    if not any(jars.glob("kafka-storage-*.jar")):
        pytest.skip(f"no test jars of Apache Kafka in {jars}: run python tools/kafka_jars/fetch.py")

    def work(verb: str, files: Path) -> None:
        jvm_tool(DRIVER, [str(jars), str(store), EVENT, verb, str(files)]).must_succeed()

    return work


@pytest.fixture(params=[False, True], ids=["no transaction was aborted", "some were aborted"])
def files(request: pytest.FixtureRequest) -> dict[Part, bytes]:
    return {**FILES, Part.TXN_INDEX: b"aborted"} if request.param else FILES


def stored(store: Path) -> list[Path]:
    return [path for path in store.rglob("*") if path.is_file()]


def test_kafka_reads_and_deletes_what_we_store(
    kafkas: Tier, store: Path, tmp_path: Path, files: dict[Part, bytes]
) -> None:
    with ThreadPoolExecutor(2) as threads:
        ours = open_segments(f"file://{store}", threads)
        custom = run(lambda: ours.put(NAME, SEGMENT, files))
        copied = tmp_path / "copied"
        copied.mkdir()
        kafkas("read", copied)
        assert {path.name: path.read_bytes() for path in copied.iterdir()} == {
            part.value: data for part, data in files.items()
        }
        kafkas("delete", copied)
        assert [path.suffix for path in stored(store)] == [".manifest"]
        gone = run(lambda: ours.faults(NAME, SEGMENT._replace(custom_metadata=custom)))
        assert len(gone) == len(files)  # deleted behind our back: found out, not read
        run(lambda: ours.delete(SegmentRef.of(NAME, SEGMENT)))
        assert stored(store) == []


def test_we_read_and_delete_what_kafka_stores(
    kafkas: Tier, store: Path, tmp_path: Path, files: dict[Part, bytes]
) -> None:
    copied = tmp_path / "copied"
    copied.mkdir()
    for part, data in files.items():
        (copied / part.value).write_bytes(data)
    kafkas("copy", copied)

    async def work() -> None:
        ours = open_segments(f"file://{store}", threads)
        manifest = await ours.manifest(NAME, SEGMENT)
        assert {part: await ours.read_part(manifest, part) for part in manifest.parts} == files
        assert {one.ref async for one in ours.stored()} == {SegmentRef.of(NAME, SEGMENT)}
        await ours.delete(SegmentRef.of(NAME, SEGMENT))
        assert stored(store) == []

    with ThreadPoolExecutor(2) as threads:
        run(work)
