"""What is in the files of a log directory, row by row."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kavka.cli.output import CommandError
from kavka.metadata.records import decode_record
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.protocol.schema import Message
from kavka.quorum import commit_mark
from kavka.records.batch import BatchInfo, Record, records
from kavka.records.control import control_type, parse_quorum_message, parse_txn_marker
from kavka.storage import checkpoint, dirs, files, txn_index
from kavka.storage.disk import RealDisk
from kavka.storage.producer_snapshot import decode_snapshot
from kavka.storage.scan import BatchScan

Row = dict[str, Any]

_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_METADATA_TOPIC: Final = "__cluster_metadata"
_METADATA_SNAPSHOT: Final = re.compile(r"\d{20}-\d{10}\.checkpoint(\.deleted|\.part)?")
_REMOTE_NAME: Final = re.compile(r"(\d{20})-[a-zA-Z0-9_-]{22}(\.[a-z_]+)")
"""What LocalTieredStorage calls the files of a remote segment."""
_OFFSETS: Final = {
    files.RECOVERY_POINTS,
    files.LOG_STARTS,
    files.HIGH_WATERMARKS,
    files.CLEANER_OFFSETS,
    commit_mark.FILE,
}


def dump(path: Path, *, deep: bool) -> Iterator[Row]:
    """The content of a file as rows: batches (and with `deep` their records), index entries, checkpoints."""
    if not path.is_file():
        raise CommandError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
    reader = _reader(path, deep)
    if reader is None:
        raise CommandError(f"{path}: not a file that a log directory has")
    try:
        yield from reader(path)
    except KafkaError as error:
        raise CommandError(f"{path}: {error}") from None


def _reader(path: Path, deep: bool) -> Callable[[Path], Iterator[Row]] | None:
    name = _REMOTE_NAME.sub(r"\1\2", path.name)
    parsed = files.parse_file_name(name)
    if _METADATA_SNAPSHOT.fullmatch(name) or name == "bootstrap.checkpoint":
        return lambda path: _log(path, deep, metadata=True)
    if parsed is not None and parsed.kind in (
        files.LOG,
        files.INDEX,
        files.TIME_INDEX,
        files.TXN_INDEX,
        files.SNAPSHOT,
    ):
        metadata = path.absolute().parent.name.startswith(_METADATA_TOPIC)
        readers: dict[str, Callable[[Path], Iterator[Row]]] = {
            files.LOG: lambda path: _log(path, deep, metadata=metadata),
            files.INDEX: lambda path: _index(path, ">ii", ("offset", "position"), parsed.offset, 0),
            files.TIME_INDEX: lambda path: _index(path, ">qi", ("timestamp", "offset"), parsed.offset, 1),
            files.TXN_INDEX: _aborted,
            files.SNAPSHOT: _producers,
        }
        return readers[parsed.kind]
    if name in _OFFSETS:
        return _offsets
    if parsed is not None and parsed.kind == ".leader_epoch_checkpoint":
        return _epochs
    return {
        files.LEADER_EPOCHS: _epochs,
        files.META_PROPERTIES: _properties,
        files.PARTITION_METADATA: _partition_metadata,
        files.CLEAN_SHUTDOWN: _json,
        "quorum-state": _json,
    }.get(name)


def _log(path: Path, deep: bool, metadata: bool) -> Iterator[Row]:
    disk = RealDisk()
    scan = BatchScan(disk.file(str(path)), 0, path.stat().st_size, check_crc=True)
    for start, chunk, infos in scan:
        for info in infos:
            yield _batch(info, start)
            if deep:
                for record in records(chunk, info):
                    yield _record(record, info, metadata)
    if scan.reason is not None:
        yield {"damaged_at": scan.position, "reason": scan.reason, "bytes_left": path.stat().st_size - scan.position}


def _batch(info: BatchInfo, start: int) -> Row:
    row: Row = {
        "base_offset": info.base_offset,
        "last_offset": info.last_offset,
        "count": info.count,
        "position": start + info.position,
        "size": info.size,
        "leader_epoch": info.leader_epoch,
        "max_timestamp": info.max_timestamp,
        "codec": _CODECS[info.codec] if info.codec < len(_CODECS) else info.codec,
        "crc": f"{info.crc & 0xFFFFFFFF:08x}",
    }
    if info.producer_id >= 0:
        row |= {
            "producer_id": info.producer_id,
            "producer_epoch": info.producer_epoch,
            "base_sequence": info.base_sequence,
            "last_sequence": info.last_sequence,
        }
    for flag in ("is_transactional", "is_control", "is_log_append_time", "has_delete_horizon"):
        if getattr(info, flag):
            row[flag] = True
    return row


def _record(record: Record, info: BatchInfo, metadata: bool) -> Row:
    row: Row = {"offset": record.offset, "timestamp": record.timestamp}
    if info.is_control:
        return row | _control(record)
    if metadata and record.value is not None:
        try:
            message = decode_record(record.value)
        except KafkaError as error:
            return row | {"undecodable": str(error), "value": _text(record.value)}
        return row | {"type": type(message).__name__, "record": plain(message)}
    row |= {"key": _text(record.key), "value": _text(record.value)}
    if record.headers:
        row["headers"] = [[name, _text(value)] for name, value in record.headers]
    return row


def _control(record: Record) -> Row:
    row: Row = {"control": control_type(record.key).name}
    marker = parse_txn_marker(record)
    if marker is not None:
        return row | {"coordinator_epoch": marker.coordinator_epoch}
    message = parse_quorum_message(record)
    return row | ({"record": plain(message)} if message is not None else {})


def _index(path: Path, layout: str, names: tuple[str, str], base_offset: int, relative: int) -> Iterator[Row]:
    entry = struct.Struct(layout)
    data = path.read_bytes()
    for values in entry.iter_unpack(data[: len(data) - len(data) % entry.size]):
        if not any(values):
            return  # an index that is still written to has room reserved behind its entries
        absolute = [value + base_offset if place == relative else value for place, value in enumerate(values)]
        yield dict(zip(names, absolute, strict=True))


def _aborted(path: Path) -> Iterator[Row]:
    for aborted in txn_index.decode(path.read_bytes()):
        yield aborted._asdict()


def _producers(path: Path) -> Iterator[Row]:
    for entry in decode_snapshot(path.read_bytes()):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": last.last_sequence if last else -1,
            "last_offset": last.last_offset if last else -1,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.txn_first_offset,
        }


def _offsets(path: Path) -> Iterator[Row]:
    for tp, offset in sorted(checkpoint.read_offsets(RealDisk(), str(path)).items()):
        yield {"topic": tp.topic, "partition": tp.partition, "offset": offset}


def _epochs(path: Path) -> Iterator[Row]:
    for epoch, start_offset in checkpoint.read_epochs(RealDisk(), str(path)):
        yield {"epoch": epoch, "start_offset": start_offset}


def _properties(path: Path) -> Iterator[Row]:
    yield dict(sorted(dirs.parse_properties(path.read_text()).items()))


def _partition_metadata(path: Path) -> Iterator[Row]:
    topic_id = dirs.read_partition_metadata(RealDisk(), str(path.parent))
    yield {"topic_id": str(topic_id)}


def _json(path: Path) -> Iterator[Row]:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from None
    yield content if isinstance(content, dict) else {"content": content}


def plain(value: object) -> Any:
    """A message as what JSON can say."""
    if isinstance(value, Message):
        return {name: plain(getattr(value, name)) for name in type(value).__annotations__}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _text(bytes(value))
    return value


def _text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
