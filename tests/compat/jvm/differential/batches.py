"""Record batches built by hand, right and wrong: a witness that shares no code with Kavka's own builder."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

TIMESTAMP = 1_700_000_000_000
HEAD = struct.Struct(">qiibIhiqqqhii")  # base offset .. record count: 61 bytes
CRC_FROM = 21  # the checksum covers attributes to the end


def varint(value: int) -> bytes:
    """Zigzag, as records have it."""
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(value: int) -> bytes:
    """Plain, as flexible messages have it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def sized(data: bytes | None) -> bytes:
    """A key or value with its length."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    delta: int,
    value: bytes | None = b"value",
    key: bytes | None = None,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    timestamp_delta: int = 0,
) -> bytes:
    """One record of a batch."""
    pairs = b"".join(varint(len(name)) + name + sized(content) for name, content in headers)
    body = b"\0" + varint(timestamp_delta) + varint(delta) + sized(key) + sized(value) + varint(len(headers)) + pairs
    return varint(len(body)) + body


@dataclass(frozen=True)
class Batch:
    """The header of a v2 batch; the defaults are those of a plain producer."""

    records: Sequence[bytes]
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    crc: int | None = None
    attributes: int = 0
    last_offset_delta: int | None = None
    base_timestamp: int = TIMESTAMP
    max_timestamp: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int | None = None
    body: bytes | None = None  # instead of the records: compressed or broken ones
    length: int | None = None

    def encode(self) -> bytes:
        """Its bytes."""
        body = b"".join(self.records) if self.body is None else self.body
        count = len(self.records) if self.count is None else self.count
        last = count - 1 if self.last_offset_delta is None else self.last_offset_delta
        newest = self.base_timestamp if self.max_timestamp is None else self.max_timestamp
        checked = struct.pack(
            ">hiqqqhii",
            self.attributes,
            last,
            self.base_timestamp,
            newest,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            count,
        )
        checked += body
        crc = crc32c(checked) if self.crc is None else self.crc
        length = 9 + len(checked) if self.length is None else self.length
        return struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc) + checked


def batch(*values: bytes | None, key: bytes | None = None, **header: int) -> bytes:
    """A batch of records with these values."""
    return Batch([record(i, value, key) for i, value in enumerate(values)], **header).encode()


def message_set_v1(value: bytes) -> bytes:
    """One message in the format before batches (magic 1)."""
    body = struct.pack(">bbq", 1, 0, TIMESTAMP) + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    import zlib

    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def headers_of(data: bytes) -> list[dict[str, object]]:
    """The batches in fetched bytes: header fields, and the bytes after the header; a cut batch is told as such."""
    found: list[dict[str, object]] = []
    at = 0
    while at < len(data):
        if len(data) - at < HEAD.size:
            found.append({"cut": True})
            break
        values = HEAD.unpack_from(data, at)
        names = "base_offset length leader_epoch magic crc attributes last_offset_delta base_timestamp max_timestamp"
        names += " producer_id producer_epoch base_sequence count"
        head = dict(zip(names.split(), values, strict=True))
        end = at + 12 + head["length"]
        found.append({**head, "cut": end > len(data), "body": data[at + HEAD.size : end]})
        at = end
    return found
