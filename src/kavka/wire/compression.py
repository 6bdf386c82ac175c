"""Kafka's compression codecs: none, gzip, snappy, lz4 and zstd, by the ids that batches carry.

Decompression is bounded: the caller says how much it will take, and no allocation goes beyond it.
The libraries are imported when first needed: a broker rarely looks inside a batch.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from kavka.model.errors import CorruptMessage, MessageTooLarge, UnsupportedCompressionType

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

Buffer = bytes | bytearray | memoryview

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

CODECS: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
NAMES: Final = tuple(CODECS)

MAX_DECOMPRESSED_BYTES: Final = 256 << 20
"""A default bound, far above any batch an honest client sends."""

_CHUNK: Final = 64 << 10

_XERIAL_HEADER: Final = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK: Final = 32 << 10  # snappy-java's default
_SNAPPY_MAX_RATIO: Final = 22  # a copy of 64 bytes takes 3

_LZ4_DEFAULT_LEVEL: Final = 9  # in Kafka this number means the fast compressor; others choose high compression
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE: Final = 0x184D2A50
_ZSTD_MAX_BLOCK: Final = 128 << 10


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress as Kafka's own clients do; the level is Kafka's for that codec (None: its default)."""
    match codec:
        case 0:
            return bytes(data)
        case 1:
            deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
            return deflate.compress(data) + deflate.flush()
        case 2:
            return _compress_snappy(data)
        case 3:
            return _compress_lz4(data, level)
        case 4:
            import zstandard

            return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
    raise UnsupportedCompressionType(f"there is no codec {codec}")


def decompress(codec: int, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress at most `max_bytes`: more is MessageTooLarge, bad or incomplete input CorruptMessage."""
    match codec:
        case 0:
            return bytes(_room(data, len(data), max_bytes))
        case 1:
            return _decompress_gzip(data, max_bytes)
        case 2:
            return _decompress_snappy(data, max_bytes)
        case 3:
            return _decompress_lz4(data, max_bytes)
        case 4:
            return _decompress_zstd(memoryview(data), max_bytes)
    raise UnsupportedCompressionType(f"there is no codec {codec}")


def is_unlinked_lz4(data: Buffer) -> bool:
    """Whether data begins as an lz4 frame that Kafka's Java clients can read: its blocks are independent."""
    view = memoryview(data)
    return len(view) > 6 and bytes(view[:4]) == _LZ4_MAGIC and view[4] >> 5 == 0b011 and view[4] & 0b11 == 0


def _room(data: Buffer, size: int, max_bytes: int) -> Buffer:
    if size > max_bytes:
        raise MessageTooLarge(f"the data decompresses to more than {max_bytes} bytes")
    return data


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    while True:  # members may follow one another
        inflate = zlib.decompressobj(31)
        try:
            # one byte more than allowed tells too much from just enough
            part = inflate.decompress(data, left + 1)
        except zlib.error as error:
            raise CorruptMessage(f"bad gzip data: {error}") from None
        _room(data, len(part), left)
        if not inflate.eof:
            raise CorruptMessage("bad gzip data: it ends early")
        parts.append(part)
        left -= len(part)
        data = inflate.unused_data
        if not data:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _compress_snappy(data: Buffer) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_HEADER[:8]:
        return _decompress_snappy_block(view, max_bytes)  # some clients send snappy without frames
    parts: list[bytes] = []
    left = max_bytes
    pos = 0
    while pos < len(view):
        if bytes(view[pos : pos + 8]) == _XERIAL_HEADER[:8]:  # streams may follow one another
            pos += len(_XERIAL_HEADER)
            if pos > len(view):
                raise CorruptMessage("bad snappy data: it ends early")
            continue
        size = int.from_bytes(view[pos : pos + 4], "big")
        pos += 4
        if size == 0 or size > len(view) - pos:
            raise CorruptMessage("bad snappy data: a block has a wrong size")
        part = _decompress_snappy_block(view[pos : pos + size], left)
        parts.append(part)
        left -= len(part)
        pos += size
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    from cramjam import DecompressionError, snappy

    from kavka.wire.varint import read_uvarint

    size, _ = read_uvarint(block, 0)
    if size > _SNAPPY_MAX_RATIO * len(block):
        raise CorruptMessage("bad snappy data: a block promises more than it can hold")
    _room(block, size, max_bytes)
    try:
        return bytes(snappy.decompress_raw(block))
    except DecompressionError as error:
        raise CorruptMessage(f"bad snappy data: {error}") from None


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    import lz4.frame

    fast = level is None or level == _LZ4_DEFAULT_LEVEL
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if fast else max(lz4.frame.COMPRESSIONLEVEL_MINHC, level or 0),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,  # Kafka's Java reader refuses linked blocks
        store_size=False,
    )
    return compressed


def _decompress_lz4(data: Buffer, max_bytes: int) -> bytes:
    import lz4.frame

    inflate = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    left = max_bytes
    while True:
        try:
            part = inflate.decompress(data, max_length=min(_CHUNK, left + 1))
        except RuntimeError as error:
            raise CorruptMessage(f"bad lz4 data: {error}") from None
        _room(data, len(part), left)
        parts.append(part)
        left -= len(part)
        data = b""
        if inflate.eof:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        if inflate.needs_input:
            raise CorruptMessage("bad lz4 data: it ends early")


def _decompress_zstd(view: memoryview, max_bytes: int) -> bytes:
    import zstandard

    inflate = zstandard.ZstdDecompressor()
    parts: list[bytes] = []
    left = max_bytes
    while view:
        size, most = _zstd_frame(view)
        if most:
            part = _decompress_zstd_frame(inflate, view[:size], most, left)
            parts.append(part)
            left -= len(part)
        view = view[size:]
    if not parts:
        raise CorruptMessage("bad zstd data: it holds no frame")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_zstd_frame(inflate: ZstdDecompressor, frame: memoryview, most: int, left: int) -> bytes:
    import zstandard

    content = 0
    try:
        content = zstandard.frame_content_size(frame)
        _room(frame, content, left)
        return inflate.decompress(frame, max_output_size=min(most, left))
    except zstandard.ZstdError as error:
        if most > left and content == -1:
            raise MessageTooLarge(f"the data decompresses to more than {left} bytes") from None
        raise CorruptMessage(f"bad zstd data: {error}") from None


def _zstd_frame(view: memoryview) -> tuple[int, int]:
    """How long the frame that data begins with is, and what it holds at most (RFC 8878, section 3.1).

    The frames of streaming compressors do not say their content's size, and the library neither bounds the
    output without one nor tells a truncated stream from a whole one: the block headers do both.
    """
    magic = int.from_bytes(view[:4], "little")
    if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE:
        return _zstd_within(view, 8 + int.from_bytes(view[4:8], "little")), 0
    if magic != _ZSTD_MAGIC or len(view) < 6:
        raise CorruptMessage("bad zstd data: no frame begins here")
    descriptor = view[4]
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    pos = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3] + content_size_bytes
    most = 1  # an empty frame holds nothing, but 0 stands for a frame to skip
    last = 0
    while not last:
        _zstd_within(view, pos + 3)
        header = int.from_bytes(view[pos : pos + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        most += size if kind < 2 else _ZSTD_MAX_BLOCK
        pos = _zstd_within(view, pos + 3 + (1 if kind == 1 else size))
    return _zstd_within(view, pos + 4 * (descriptor >> 2 & 1)), most


def _zstd_within(view: memoryview, pos: int) -> int:
    if pos > len(view):
        raise CorruptMessage("bad zstd data: it ends early")
    return pos
