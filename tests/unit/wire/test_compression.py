"""The codecs: round trips, the dialects of other clients, and bounds on what hostile data can cost."""

from __future__ import annotations

import gzip
import random
import tracemalloc

import aiokafka.codec
import cramjam
import kafka.codec
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.model.errors import CorruptMessage, KafkaError, MessageTooLarge, UnsupportedCompressionType
from kavka.wire.compression import (
    CODECS,
    GZIP,
    LZ4,
    NAMES,
    NONE,
    SNAPPY,
    ZSTD,
    chunks,
    compress,
    compressor,
    decompress,
    is_unlinked_lz4,
)

COMPRESSED = [GZIP, SNAPPY, LZ4, ZSTD]
RANDOM = random.Random(1).randbytes(200_000)
SAMPLES = [b"", b"a", b"abc" * 50_000, bytes(1_000_000), RANDOM, RANDOM + bytes(100_000)]


def zstd_stream(data: bytes, **options: bool) -> bytes:
    """As librdkafka and the Java client write it: without the content's size."""
    deflate = zstandard.ZstdCompressor(**options).compressobj()
    return deflate.compress(data) + deflate.flush()


@pytest.mark.parametrize("codec", CODECS.values())
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_every_codec_gives_back_what_it_was_given(codec: int, data: bytes) -> None:
    compressed = compress(codec, memoryview(data))
    assert decompress(codec, memoryview(compressed), len(data)) == data


@given(st.sampled_from(COMPRESSED), st.binary(max_size=500), st.integers(1, 9))
def test_every_level_gives_back_what_it_was_given(codec: int, data: bytes, level: int) -> None:
    assert decompress(codec, compress(codec, data, level)) == data


@pytest.mark.parametrize("codec", CODECS.values())
@pytest.mark.parametrize("data", SAMPLES[2:], ids=len)
def test_one_byte_more_than_allowed_is_too_much(codec: int, data: bytes) -> None:
    with pytest.raises(MessageTooLarge):
        decompress(codec, compress(codec, data), len(data) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_data_that_ends_early_is_corrupt(codec: int) -> None:
    data = compress(codec, b"hello world, " * 20)
    for cut in range(1, len(data)):
        if codec == SNAPPY and cut == 16:
            continue  # a xerial header alone is an empty stream
        with pytest.raises(KafkaError):
            decompress(codec, data[:cut])


@settings(max_examples=300)
@given(st.sampled_from(COMPRESSED), st.binary(max_size=100))
def test_garbage_is_an_error_that_the_protocol_has_a_code_for(codec: int, data: bytes) -> None:
    try:
        decompress(codec, data, 1 << 20)
    except KafkaError:
        return


@settings(max_examples=300)
@given(st.sampled_from(COMPRESSED), st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_is_an_error_or_other_data(codec: int, at: int, byte: int) -> None:
    data = bytearray(compress(codec, b"some text, some text, some more " * 9))
    data[at % len(data)] = byte
    try:
        assert len(decompress(codec, data, 1 << 20)) <= 1 << 20
    except KafkaError:
        return


def bombs() -> list[tuple[int, bytes]]:
    zeros = bytes(50 << 20)
    return [
        (GZIP, compress(GZIP, zeros)),
        (SNAPPY, compress(SNAPPY, zeros)),
        (LZ4, compress(LZ4, zeros)),
        (ZSTD, compress(ZSTD, zeros)),
        (ZSTD, zstd_stream(zeros)),
        (SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100)),
        (SNAPPY, compress(SNAPPY, b"")[:16] + b"\0\0\0\x08\xff\xff\xff\xff\x0fabc"),
        (ZSTD, bytes.fromhex("28b52ffde0ffffffffffffff7f") + bytes.fromhex("010000")),
        (LZ4, lz4.frame.compress(zeros, store_size=True)),
    ]


@pytest.mark.parametrize(("codec", "bomb"), bombs(), ids=lambda value: NAMES[value] if isinstance(value, int) else "")
def test_a_bomb_costs_no_more_than_was_allowed(codec: int, bomb: bytes) -> None:
    decompress(codec, compress(codec, b"x"))  # so that the libraries' import is not counted
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError):
            decompress(codec, bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 9, 0x01000000])
def test_a_snappy_chunk_that_claims_another_size_takes_no_memory(size: int) -> None:
    """CVE-2023-34455 and CVE-2023-43642."""
    framed = compress(SNAPPY, b"")[:16] + size.to_bytes(4, "big") + b"\x03\x08abc"
    decompress(SNAPPY, compress(SNAPPY, b"x"))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptMessage):
            decompress(SNAPPY, framed)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [4, 19, 300])
@pytest.mark.parametrize("distance", [0, 2, 0xFFFF])
def test_an_lz4_match_that_points_nowhere_shows_nothing_of_the_memory(distance: int, length: int) -> None:
    """CVE-2025-12183 and CVE-2025-66566."""
    header = lz4.frame.compress(b"", block_linked=False, content_checksum=False, store_size=False)[:7]
    more = length - 19
    lengths = b"" if more < 0 else b"\xff" * (more // 255) + bytes([more % 255])
    block = bytes([0x10 | min(length - 4, 15)]) + b"a" + distance.to_bytes(2, "little") + lengths + b"\x50abcde"
    left = [b"\xaa" * 100_000 for _ in range(20)]  # what somebody else had in it
    del left
    try:
        found = decompress(LZ4, header + len(block).to_bytes(4, "little") + block + bytes(4))
    except CorruptMessage:
        return
    assert distance == 0
    assert set(found) <= set(b"abcde\0")


def test_members_streams_and_frames_may_follow_one_another() -> None:
    assert decompress(GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
    assert decompress(SNAPPY, compress(SNAPPY, b"one ") + compress(SNAPPY, b"two")) == b"one two"
    skipped = bytes.fromhex("502a4d1803000000") + b"abc"
    assert decompress(ZSTD, skipped + zstd_stream(b"one ", write_checksum=True) + compress(ZSTD, b"two")) == b"one two"


@pytest.mark.parametrize("data", SAMPLES[1:], ids=len)
def test_streamed_zstd_is_bounded_and_read(data: bytes) -> None:
    assert decompress(ZSTD, zstd_stream(data), len(data)) == data
    with pytest.raises(MessageTooLarge):
        decompress(ZSTD, zstd_stream(data), len(data) - 1)


def test_snappy_is_framed_as_snappy_java_does() -> None:
    data = RANDOM[:100_000]
    framed = compress(SNAPPY, data)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert aiokafka.codec.snappy_decode(framed) == data
    assert decompress(SNAPPY, aiokafka.codec.snappy_encode(data)) == data


def test_snappy_without_frames_is_read_too() -> None:
    assert (
        decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(b"librdkafka writes this"))) == b"librdkafka writes this"
    )


@pytest.mark.parametrize("codec", [kafka.codec, aiokafka.codec])
def test_other_clients_read_ours_and_we_theirs(codec: object) -> None:
    for name, ours in (("gzip", GZIP), ("lz4", LZ4), ("zstd", ZSTD)):
        encode, decode = getattr(codec, f"{name}_encode"), getattr(codec, f"{name}_decode")
        assert decode(compress(ours, SAMPLES[2])) == SAMPLES[2]
        assert decompress(ours, encode(SAMPLES[2])) == SAMPLES[2]


def test_our_lz4_blocks_are_independent_and_a_linked_frame_is_told() -> None:
    assert is_unlinked_lz4(compress(LZ4, RANDOM))
    assert not is_unlinked_lz4(lz4.frame.compress(RANDOM, block_linked=True))
    assert not is_unlinked_lz4(b"not lz4")
    assert not is_unlinked_lz4(b"")


def test_an_unknown_codec_is_refused() -> None:
    for codec in (-1, 5, 7):
        with pytest.raises(UnsupportedCompressionType):
            compress(codec, b"")
        with pytest.raises(UnsupportedCompressionType):
            decompress(codec, b"")


def test_no_codec_means_the_bytes_themselves() -> None:
    assert compress(NONE, b"abc") == decompress(NONE, b"abc") == b"abc"


def test_a_zstd_frame_with_a_reserved_bit_is_corrupt() -> None:
    frame = bytearray(compress(ZSTD, b"text" * 100))
    frame[4] |= 0x08
    with pytest.raises(CorruptMessage):
        decompress(ZSTD, frame)


def test_empty_input_is_no_compressed_data_but_to_zstd_which_has_frames_or_none() -> None:
    for codec in COMPRESSED:
        if codec != ZSTD:
            with pytest.raises(CorruptMessage):
                decompress(codec, b"")
    assert decompress(ZSTD, b"") == b""
    assert decompress(ZSTD, bytes.fromhex("502a4d1800000000")) == b""


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_is_compressed_in_parts_is_one_whole(codec: int) -> None:
    data = bytes(range(256)) * 1000
    packer = compressor(codec)
    parts = [bytes(packer.compress(data[at : at + 70_001])) for at in range(0, len(data), 70_001)]
    assert decompress(codec, b"".join([*parts, bytes(packer.flush())])) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_no_chunk_is_large(codec: int) -> None:
    sizes = [len(chunk) for chunk in chunks(codec, compress(codec, bytes(4 << 20)))]
    assert sum(sizes) == 4 << 20
    assert max(sizes) <= 256 << 10


def test_what_follows_a_gzip_member_and_is_none_is_ignored_as_java_does() -> None:
    member = gzip.compress(b"data")
    assert decompress(GZIP, member + b"tail") == b"data"
    assert decompress(GZIP, member + bytes(40)) == b"data"
    assert decompress(GZIP, member + member) == b"datadata"
    with pytest.raises(CorruptMessage):
        decompress(GZIP, member + member[:-1])


def test_many_small_zstd_blocks_are_looked_at_in_steps() -> None:
    empty_blocks = b"\0\0\0" * 100_000 + b"\1\0\0"
    frame = bytes.fromhex("28b52ffd 00 58") + empty_blocks
    assert sum(1 for _ in chunks(ZSTD, frame)) > 100_000 // 4096
