"""Frames and headers as no client should send them: what counts is whether the node answers or hangs up."""

from __future__ import annotations

import struct

from jvm.differential.batches import batch, uvarint
from jvm.differential.case import Case

from kavka.protocol.header import encode_request
from kavka.protocol.schemas.api_versions import ApiVersionsRequest
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

API_VERSIONS, METADATA, PRODUCE, FETCH, LIST_OFFSETS = 18, 3, 0, 1, 2


def frame(content: bytes) -> bytes:
    """Bytes with their size before them."""
    return struct.pack(">i", len(content)) + content


def request(key: int, version: int, body: bytes = b"", client_id: bytes | None = b"c", flexible: bool = False) -> bytes:
    """A framed request whose body is any bytes."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return frame(struct.pack(">hhi", key, version, 1) + name + (b"\0" if flexible else b"") + body)


def text(value: str) -> bytes:
    """A string before flexible versions."""
    return struct.pack(">h", len(value)) + value.encode()


def compact(value: str) -> bytes:
    """A string of flexible versions."""
    return uvarint(len(value) + 1) + value.encode()


def raw(name: str, data: bytes, key: int | None = None, version: int = 0, half_close: bool = False) -> Case:
    """A case that reads its answer as that API and version."""
    return Case(name, raw=data, reads=None if key is None else (key, version), half_close=half_close)


PRODUCED = ProduceRequest(
    acks=-1,
    timeout_ms=1_000,
    topic_data=[
        TopicProduceData(name="produced", partition_data=[PartitionProduceData(index=0, records=batch(b"last"))])
    ],
)
INT = struct.Struct(">i").pack

CASES = [
    raw("a frame of negative size", INT(-1)),
    raw("a frame of size zero", INT(0)),
    raw("a frame of 100 MiB and a byte", INT(104_857_601)),
    raw("a frame of the largest size", INT(2**31 - 1)),
    raw("a web browser", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    raw("a frame that is cut off", INT(100) + b"\0\x12\0\0", half_close=True),
    raw("a size that is cut off", b"\0\0", half_close=True),
    raw("a frame of one byte", frame(b"\0")),
    raw("a header that ends after the version", frame(struct.pack(">hh", API_VERSIONS, 0))),
    raw("a client id beyond the frame", frame(struct.pack(">hhih", API_VERSIONS, 0, 1, 500) + b"c")),
    raw("a client id of length -2", frame(struct.pack(">hhih", API_VERSIONS, 0, 1, -2)), API_VERSIONS, 0),
    raw("a client id that is not UTF-8", request(API_VERSIONS, 0, client_id=b"\xff\xfe"), API_VERSIONS, 0),
    raw("no client id", request(API_VERSIONS, 0, client_id=None), API_VERSIONS, 0),
    raw("a long client id", request(API_VERSIONS, 0, client_id=b"c" * 30_000), API_VERSIONS, 0),
    raw("an unknown api key", request(200, 0)),
    raw("a negative api key", request(-1, 0)),
    raw("a removed api key", request(4, 0)),
    raw("a controller's api key", request(52, 0, flexible=True)),
    raw("a broker registration", request(62, 0, flexible=True)),
    raw("an envelope", request(58, 0, flexible=True)),
    raw("api versions at an unknown version", request(API_VERSIONS, 99), API_VERSIONS, 0),
    raw(
        "api versions at an unknown version with a flexible header",
        request(API_VERSIONS, 99, flexible=True),
        API_VERSIONS,
        0,
    ),
    raw("api versions at a negative version", request(API_VERSIONS, -1)),
    raw("metadata at an unknown version", request(METADATA, 99, INT(0))),
    raw("metadata at a negative version", request(METADATA, -1, INT(0))),
    raw("produce at version 2", request(PRODUCE, 2, struct.pack(">hii", 1, 1000, 0))),
    raw("fetch at version 3", request(FETCH, 3, struct.pack(">iiiii", -1, 10, 1, 100, 0))),
    raw("list offsets at version 0", request(LIST_OFFSETS, 0, struct.pack(">ii", -1, 0))),
    raw("create topics at version 1", request(19, 1, INT(0) + INT(10) + b"\0")),
    raw(
        "init producer id at its unstable version",
        request(22, 6, b"\0" + INT(1000) + b"\xff" * 10 + b"\0\0\0", flexible=True),
    ),
    raw("api versions 3 without a body", request(API_VERSIONS, 3, flexible=True)),
    raw(
        "api versions 3 with bytes left over",
        request(API_VERSIONS, 3, compact("a") + compact("1") + b"\0tail", flexible=True),
        API_VERSIONS,
        3,
    ),
    raw("api versions 0 with bytes left over", request(API_VERSIONS, 0, b"tail"), API_VERSIONS, 0),
    raw("metadata with bytes left over", request(METADATA, 1, INT(0) + b"tail"), METADATA, 1),
    raw("metadata with an array beyond the frame", request(METADATA, 1, INT(1000) + text("produced"))),
    raw("metadata with an endless array", request(METADATA, 1, INT(2**31 - 1))),
    raw("metadata with a negative array", request(METADATA, 1, INT(-2)), METADATA, 1),
    raw("metadata with a string beyond the frame", request(METADATA, 1, INT(1) + struct.pack(">h", 900) + b"abc")),
    raw("metadata with a null name", request(METADATA, 1, INT(1) + struct.pack(">h", -1))),
    raw(
        "metadata with a name that is not UTF-8",
        request(METADATA, 1, INT(1) + struct.pack(">h", 2) + b"\xff\xfe"),
        METADATA,
        1,
    ),
    raw("metadata without a body", request(METADATA, 1)),
    raw("metadata with an unknown tagged field", request(METADATA, 12, b"\1\1\1\3abc", flexible=True)),
    raw(
        "metadata with tagged fields to skip", request(METADATA, 12, b"\1\0\0\1\x63\3abc", flexible=True), METADATA, 12
    ),
    raw("metadata with a tag beyond the frame", request(METADATA, 12, b"\1\0\0\1\x63\x7fabc", flexible=True)),
    raw(
        "metadata with an overlong varint",
        request(METADATA, 12, b"\xff\xff\xff\xff\xff\xff\xff\1\0\0\0", flexible=True),
    ),
    raw(
        "a header with tagged fields",
        frame(struct.pack(">hhih", METADATA, 12, 1, 1) + b"c" + b"\1\x63\3abc" + b"\1\0\0\0"),
        METADATA,
        12,
    ),
    raw(
        "a header with a tag beyond the frame",
        frame(struct.pack(">hhih", METADATA, 12, 1, 1) + b"c" + b"\1\x63\x7fabc"),
    ),
    raw("produce without a body", request(PRODUCE, 9, flexible=True)),
    raw(
        "produce with topics beyond the frame",
        request(PRODUCE, 9, b"\0\xff\xff" + INT(1000) + uvarint(5000) + b"\0", flexible=True),
    ),
    raw(
        "produce with records beyond the frame",
        request(
            PRODUCE,
            9,
            b"\0\xff\xff" + INT(1000) + b"\2" + compact("produced") + b"\2" + INT(0) + uvarint(9000) + b"x\0\0\0",
            flexible=True,
        ),
    ),
    raw(
        "produce with records beyond the frame v3",
        request(
            PRODUCE, 3, struct.pack(">hhii", -1, -1, 1000, 1) + text("produced") + INT(1) + INT(0) + INT(9000) + b"x"
        ),
    ),
    raw(
        "produce with records of negative length v3",
        request(PRODUCE, 3, struct.pack(">hhii", -1, -1, 1000, 1) + text("produced") + INT(1) + INT(0) + INT(-2)),
    ),
    raw("produce with a negative topic count v3", request(PRODUCE, 3, struct.pack(">hhii", -1, -1, 1000, -2))),
    raw(
        "produce with a null name v3",
        request(PRODUCE, 3, struct.pack(">hhii", -1, -1, 1000, 1) + struct.pack(">h", -1) + INT(0)),
    ),
    raw(
        "produce with an unknown tagged field",
        request(PRODUCE, 9, b"\0\xff\xff" + INT(1000) + b"\1" + b"\1\x63\3abc", flexible=True),
        PRODUCE,
        9,
    ),
    raw(
        "produce with bytes left over",
        request(PRODUCE, 9, b"\0\xff\xff" + INT(1000) + b"\1" + b"\0tail", flexible=True),
        PRODUCE,
        9,
    ),
    raw("fetch without a body", request(FETCH, 12, flexible=True)),
    raw(
        "fetch with partitions beyond the frame",
        request(
            FETCH,
            12,
            INT(-1)
            + INT(10)
            + INT(0)
            + INT(1000)
            + b"\0"
            + INT(0)
            + INT(-1)
            + b"\2"
            + compact("fetched")
            + uvarint(9999),
            flexible=True,
        ),
    ),
    raw(
        "fetch with bytes left over",
        request(
            FETCH,
            12,
            INT(-1) + INT(10) + INT(0) + INT(1000) + b"\0" + INT(0) + INT(-1) + b"\1\1\1\0tail",
            flexible=True,
        ),
        FETCH,
        12,
    ),
    raw(
        "fetch with an unknown tagged field",
        request(
            FETCH,
            12,
            INT(-1) + INT(10) + INT(0) + INT(1000) + b"\0" + INT(0) + INT(-1) + b"\1\1\1\1\x63\3abc",
            flexible=True,
        ),
        FETCH,
        12,
    ),
    raw(
        "two requests in one packet",
        encode_request(9, 1, "c", PRODUCED) + encode_request(0, 2, "c", ApiVersionsRequest()),
        PRODUCE,
        9,
    ),
    raw("a request that is cut in its body", encode_request(9, 1, "c", PRODUCED)[:-10], half_close=True),
]
