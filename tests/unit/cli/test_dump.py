"""What `kavka log dump` makes of each kind of file."""

from __future__ import annotations

import asyncio
import json
import struct
from base64 import b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.tiered.stored import FILES, NAME, SEGMENT

from kavka.cli.commands import run
from kavka.cli.dump import dump
from kavka.cli.output import CommandError
from kavka.metadata.names import CLUSTER_METADATA
from kavka.metadata.records import encode_record
from kavka.metadata.records.settings import FeatureLevelRecord
from kavka.model.types import TopicPartition, Uuid
from kavka.quorum.commit_mark import CommitMark
from kavka.records.batch import Record
from kavka.records.builder import build_batch
from kavka.records.control import txn_marker_batch
from kavka.storage import checkpoint, dirs, txn_index
from kavka.storage.disk import RealDisk
from kavka.storage.producer_snapshot import encode_snapshot
from kavka.storage.producer_state import BatchMeta, ProducerEntry
from kavka.tiered.objects.manifest import Part
from kavka.tiered.objects.opening import open_segments
from kavka.tiered.objects.sealing import KeyRing, Sealing

FIRST = "00000000000000000100"


def rows(path: Path, deep: bool = True) -> list[dict[str, object]]:
    return list(dump(path, deep=deep))


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def batch(records: Sequence[Record], codec: int = 0) -> bytes:
    return build_batch(records, codec=codec, leader_epoch=4, producer_id=9, producer_epoch=1, base_sequence=5)


TWO = [Record(100, 1000, b"k", b"v", (("h", b"\xff"),)), Record(101, 1001, None, None)]


def test_a_segment_shows_batches_and_inside_them_records(tmp_path: Path) -> None:
    path = put(tmp_path / "orders-0" / f"{FIRST}.log", batch(TWO, codec=4))
    header, *records = rows(path)
    assert (header["base_offset"], header["last_offset"], header["count"], header["codec"]) == (100, 101, 2, "zstd")
    assert (header["producer_id"], header["base_sequence"], header["last_sequence"]) == (9, 5, 6)
    assert records == [
        {"offset": 100, "timestamp": 1000, "key": "k", "value": "v", "headers": [["h", {"base64": "/w=="}]]},
        {"offset": 101, "timestamp": 1001, "key": None, "value": None},
    ]
    assert rows(path, deep=False) == [header]


def test_markers_are_named(tmp_path: Path) -> None:
    marker = txn_marker_batch(commit=False, producer_id=9, producer_epoch=1, coordinator_epoch=3, timestamp=7)
    header, record = rows(put(tmp_path / "orders-0" / f"{FIRST}.log", marker))
    assert header["is_control"] is True
    assert record == {"offset": 0, "timestamp": 7, "control": "ABORT", "coordinator_epoch": 3}


def test_the_metadata_log_shows_its_records(tmp_path: Path) -> None:
    value = encode_record(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)
    data = build_batch([Record(0, 5, None, value), Record(1, 5, None, b"\x01\xff\xff\xff\x0f\x00")])
    _, known, unknown = rows(put(tmp_path / "__cluster_metadata-0" / f"{'0' * 20}.log", data))
    assert known["type"] == "FeatureLevelRecord"
    assert known["record"] == {"name": "metadata.version", "feature_level": 30}
    assert "undecodable" in unknown


def test_damage_is_shown_where_it_is_and_told_by_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, damaged = batch(TWO), bytearray(batch(TWO))
    damaged[-1] ^= 1
    path = put(tmp_path / "orders-0" / f"{FIRST}.log", sound + bytes(damaged))
    assert rows(path)[-1]["damaged_at"] == len(sound)
    assert run(["log", "dump", str(path)]) == 1
    assert f"damaged_at={len(sound)}" in capsys.readouterr().out


def test_a_torn_end_is_shown(tmp_path: Path) -> None:
    path = put(tmp_path / "orders-0" / f"{FIRST}.log", batch(TWO)[:-3])
    assert rows(path)[-1]["bytes_left"] == path.stat().st_size


def test_indexes_show_absolute_offsets_and_end_before_reserved_room(tmp_path: Path) -> None:
    index = put(tmp_path / f"{FIRST}.index", struct.pack(">iiii", 5, 4096, 9, 8192) + bytes(80))
    assert rows(index) == [{"offset": 105, "position": 4096}, {"offset": 109, "position": 8192}]
    times = put(tmp_path / f"{FIRST}.timeindex", struct.pack(">qi", 77, 5) + bytes(120))
    assert rows(times) == [{"timestamp": 77, "offset": 105}]


def test_aborted_transactions_and_producers_are_shown(tmp_path: Path) -> None:
    aborted = txn_index.AbortedTransaction(9, 1, 5, 6)
    assert rows(put(tmp_path / f"{FIRST}.txnindex", txn_index.encode(aborted))) == [
        {"producer_id": 9, "first_offset": 1, "last_offset": 5, "last_stable_offset": 6}
    ]
    entry = ProducerEntry(9, 1, 3, 77, -1, [BatchMeta(0, 4, 100, 104, 77)])
    (row,) = rows(put(tmp_path / f"{FIRST}.snapshot", encode_snapshot([entry])))
    assert (row["producer_id"], row["last_sequence"], row["last_offset"]) == (9, 4, 104)


def test_checkpoints_and_properties_are_shown(tmp_path: Path) -> None:
    disk = RealDisk()
    path = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint.write_offsets(disk, str(path), {TopicPartition("orders", 1): 42})
    assert rows(path) == [{"topic": "orders", "partition": 1, "offset": 42}]
    mark = CommitMark(disk, str(tmp_path))
    mark.write(7)
    assert rows(tmp_path / "metadata-commit-checkpoint") == [{"topic": CLUSTER_METADATA, "partition": 0, "offset": 7}]
    epochs = put(tmp_path / "leader-epoch-checkpoint", checkpoint.encode_epochs([(0, 0), (3, 17)]))
    assert rows(epochs) == [{"epoch": 0, "start_offset": 0}, {"epoch": 3, "start_offset": 17}]
    dirs.write_meta_properties(disk, str(tmp_path), dirs.MetaProperties("cluster", 1, Uuid(bytes(15) + b"\x02")))
    (properties,) = rows(tmp_path / "meta.properties")
    assert (properties["cluster.id"], properties["node.id"]) == ("cluster", "1")
    metadata = put(tmp_path / "partition.metadata", dirs.encode_partition_metadata(Uuid(bytes(15) + b"\x03")))
    assert rows(metadata) == [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAw"}]
    state = put(tmp_path / "quorum-state", b'{"leaderId": 1, "data_version": 1}')
    assert rows(state) == [{"leaderId": 1, "data_version": 1}]


def test_json_is_a_line_per_row_and_names_the_file_when_there_are_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path / "quorum-state", b'{"leaderId": 1}')
    assert run(["log", "dump", "--output", "json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"leaderId": 1}
    assert run(["log", "dump", "-o", "json", str(path), str(path)]) == 0
    assert [json.loads(line)["file"] for line in capsys.readouterr().out.splitlines()] == [str(path)] * 2


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("notes.txt", b"x", "not a file that a log directory has"),
        (f"{FIRST}.snapshot", b"x", "too short"),
        ("quorum-state", b"x", "Expecting value"),
        ("log-start-offset-checkpoint", b"x", "log-start-offset-checkpoint"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        rows(put(tmp_path / name, data))


def test_a_remote_segment_is_read_out_of_its_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cryptography", reason="cryptography is not installed: the extra encryption")
    keys_file = tmp_path / "keys.json"
    keys_file.write_text(json.dumps({"current": "k", "keys": {"k": b64encode(b"k" * 32).decode()}}))
    url, log = f"file://{tmp_path}/store", batch(TWO)
    segment = SEGMENT._replace(size_bytes=len(log))
    files = {Part.LOG: log, Part.LEADER_EPOCHS: FILES[Part.LEADER_EPOCHS]}
    with ThreadPoolExecutor(2) as threads:
        store = open_segments(
            url, threads, sealing=Sealing(compress=True, keys=KeyRing("k", {"k": b"k" * 32})), chunk_bytes=20
        )
        asyncio.run(store.put(NAME, segment, files))

    def dumped(name: str) -> list[dict[str, object]]:
        at = ["--url", url, "--keys-file", str(keys_file), "--output", "json"]
        assert run(["log", "dump", "--deep", name, *at]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert dumped(str(segment.id)) == rows(put(tmp_path / "orders-0" / f"{FIRST}.log", log))
    epochs = [{"epoch": 0, "start_offset": 0}, {"epoch": 2, "start_offset": 150}]
    assert dumped(f"{segment.id}.leader_epoch_checkpoint") == epochs
    for name, said in {
        str(NAME.topic_id): "no remote segment",
        f"{segment.id}.snapshot": "has no snapshot",
        f"{segment.id}.x": "a segment has log, index",
    }.items():
        assert run(["log", "dump", name, "--url", url, "--keys-file", str(keys_file)]) == 1
        assert said in capsys.readouterr().err


def test_the_files_of_a_directory_of_segments_are_read_as_they_are(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        asyncio.run(open_segments(f"file://{tmp_path}", threads).put(NAME, SEGMENT, {**FILES, Part.LOG: batch(TWO)}))
    (log,), (epochs,) = tmp_path.rglob("*.log"), tmp_path.rglob("*.leader_epoch_checkpoint")
    assert [row["base_offset"] for row in rows(log, deep=False)] == [100]
    assert rows(epochs)[1] == {"epoch": 2, "start_offset": 150}
