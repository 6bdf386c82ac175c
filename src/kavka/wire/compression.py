"""Kafka's compression codecs: none, gzip, snappy, lz4 and zstd, by the ids that batches carry.

Decompression is bounded: the caller says how much it will take, and gets it in chunks, none of which takes long; what
is done for a chunk, or for nothing but the next of many empty members, does not grow with what lies behind it.
The libraries are imported when first needed.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from kavka.model.errors import CorruptMessage, InvalidRequest, MessageTooLarge, UnsupportedCompressionType
from kavka.wire.varint import read_uvarint

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

_CHUNK: Final = 128 << 10  # of output
_PIECE: Final = 8 << 10  # of input: what a library does not take of it, it copies

_XERIAL_HEADER: Final = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK: Final = 32 << 10  # snappy-java's default
_SNAPPY_MAX_RATIO: Final = 22  # a copy of 64 bytes takes 3

_LZ4_DEFAULT_LEVEL: Final = 9  # in Kafka this number means the fast compressor; others choose high compression
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE: Final = 0x184D2A50
_ZSTD_MAX_BLOCK: Final = 128 << 10
_ZSTD_BLOCKS: Final = 4096  # looked at before someone else has a turn
_idle_zstd: list[ZstdDecompressor] = []  # making one takes longer than a small batch does; each has one user at a time
_GZIP_MIN: Final = 18  # bytes that may follow a member and are no member: a header and a trailer are larger


class Compressor(Protocol):
    """Takes data a part at a time; what it gives, put together, is the compressed data."""

    def compress(self, data: Buffer, /) -> Buffer:
        """Take a part."""

    def flush(self) -> Buffer:
        """End it."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress as Kafka's own clients do; the level is Kafka's for that codec (None: its default)."""
    if codec == ZSTD:
        import zstandard

        return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
    packer = compressor(codec, level)
    return b"".join((packer.compress(data), packer.flush()))


def compressor(codec: int, level: int | None = None) -> Compressor:
    """The same a part at a time."""
    match codec:
        case 0:
            return _Plain()
        case 1:
            return zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        case 2:
            return _Xerial()
        case 3:
            return _Lz4Frame(level)
        case 4:
            import zstandard

            return zstandard.ZstdCompressor(level=3 if level is None else level).compressobj()
    raise UnsupportedCompressionType(f"there is no codec {codec}")


def decompress(codec: int, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompress at most `max_bytes`: more is MessageTooLarge, bad or incomplete input CorruptMessage."""
    parts = [part for part in chunks(codec, data, max_bytes) if part]
    return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)


def chunks(codec: int, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Buffer]:
    """The same in chunks, some of which may be empty: there was work to do for them, but nothing came of it."""
    match codec:
        case 0:
            return iter((_room(data, len(data), max_bytes),))
        case 1:
            return _bounded(_gunzip(memoryview(data)), max_bytes)
        case 2:
            return _bounded(_unsnap(memoryview(data), max_bytes), max_bytes)
        case 3:
            return _bounded(_unlz4(memoryview(data)), max_bytes)
        case 4:
            return _bounded(_unzstd(memoryview(data), max_bytes), max_bytes)
    raise UnsupportedCompressionType(f"there is no codec {codec}")


def is_unlinked_lz4(data: Buffer) -> bool:
    """Whether data begins as an lz4 frame that Kafka's Java clients can read: its blocks are independent."""
    view = memoryview(data)
    return len(view) > 6 and bytes(view[:4]) == _LZ4_MAGIC and view[4] >> 5 == 0b011 and view[4] & 0b11 == 0


def _room(data: Buffer, size: int, max_bytes: int) -> Buffer:
    if size > max_bytes:
        raise MessageTooLarge(f"the data decompresses to more than {max_bytes} bytes")
    return data


def _bounded(parts: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    left = max_bytes
    for part in parts:
        left -= len(part)
        if left < 0:
            raise MessageTooLarge(f"the data decompresses to more than {max_bytes} bytes")
        yield part


def _gunzip(data: memoryview) -> Iterator[bytes]:
    pos = 0
    while True:  # members may follow one another
        inflate = zlib.decompressobj(31)
        while not inflate.eof:
            piece: Buffer = inflate.unconsumed_tail
            if not piece:
                piece = data[pos : pos + _PIECE]
                pos += len(piece)
                if not piece:
                    raise CorruptMessage("bad gzip data: it ends early")
            try:
                part = inflate.decompress(piece, _CHUNK)
            except zlib.error as error:
                raise CorruptMessage(f"bad gzip data: {error}") from None
            if part:
                yield part
        pos -= len(inflate.unused_data)
        if len(data) - pos <= _GZIP_MIN or bytes(data[pos : pos + 3]) != b"\x1f\x8b\x08":
            return  # what is no member behind one is no one's, as Java has it
        yield b""


class _Plain:
    def compress(self, data: Buffer) -> Buffer:
        return data

    def flush(self) -> bytes:
        return b""


class _Xerial:
    """Snappy in snappy-java's frames."""

    def __init__(self) -> None:
        self._rest = b""
        self._begun = False

    def compress(self, data: Buffer) -> bytes:
        view = memoryview(self._rest + data if self._rest else data)
        whole = len(view) - len(view) % _XERIAL_BLOCK
        self._rest = bytes(view[whole:])
        return self._blocks(view[:whole])

    def flush(self) -> bytes:
        return self._blocks(memoryview(self._rest))

    def _blocks(self, view: memoryview) -> bytes:
        from cramjam import snappy

        out = bytearray(b"" if self._begun else _XERIAL_HEADER)
        self._begun = True
        for start in range(0, len(view), _XERIAL_BLOCK):
            block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
            out += len(block).to_bytes(4, "big")
            out += block
        return bytes(out)


def _unsnap(view: memoryview, max_bytes: int) -> Iterator[bytes]:
    if bytes(view[:8]) != _XERIAL_HEADER[:8]:
        yield from _pieces(_decompress_snappy_block(view, max_bytes))  # some clients send snappy without frames
        return
    pos = 0
    while pos < len(view):
        if bytes(view[pos : pos + 8]) == _XERIAL_HEADER[:8]:  # streams may follow one another
            pos += len(_XERIAL_HEADER)
            if pos > len(view):
                raise CorruptMessage("bad snappy data: it ends early")
            yield b""
            continue
        size = int.from_bytes(view[pos : pos + 4], "big")
        pos += 4
        if size == 0 or size > len(view) - pos:
            raise CorruptMessage("bad snappy data: a block has a wrong size")
        yield from _pieces(_decompress_snappy_block(view[pos : pos + size], max_bytes))
        pos += size


def _pieces(block: bytes) -> Iterator[bytes]:
    """A block comes out at once: at most 22 times what was sent; what is done with it need not be."""
    return (block[at : at + _CHUNK] for at in range(0, len(block), _CHUNK)) if len(block) > _CHUNK else iter((block,))


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytes:
    from cramjam import DecompressionError, snappy

    try:
        size, _ = read_uvarint(block, 0)
    except InvalidRequest:
        raise CorruptMessage("bad snappy data: a block does not say its size") from None
    if size > _SNAPPY_MAX_RATIO * len(block):
        raise CorruptMessage("bad snappy data: a block promises more than it can hold")
    _room(block, size, max_bytes)
    try:
        return bytes(snappy.decompress_raw(block))
    except DecompressionError as error:
        raise CorruptMessage(f"bad snappy data: {error}") from None


class _Lz4Frame:
    def __init__(self, level: int | None) -> None:
        import lz4.frame

        fast = level is None or level == _LZ4_DEFAULT_LEVEL
        self._frame = lz4.frame.LZ4FrameCompressor(
            compression_level=0 if fast else max(lz4.frame.COMPRESSIONLEVEL_MINHC, level or 0),
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,  # Kafka's Java reader refuses linked blocks
        )
        self._begun = False

    def compress(self, data: Buffer) -> bytes:
        begin: bytes = b"" if self._begun else self._frame.begin()
        self._begun = True
        packed: bytes = self._frame.compress(data) if data else b""
        return begin + packed

    def flush(self) -> bytes:
        end: bytes = self._frame.flush()
        return end


def _unlz4(data: memoryview) -> Iterator[bytes]:
    import lz4.frame

    inflate = lz4.frame.LZ4FrameDecompressor()
    pos = 0
    while not inflate.eof:
        piece = b""
        if inflate.needs_input:
            piece = bytes(data[pos : pos + _CHUNK])
            pos += len(piece)
            if not piece:
                raise CorruptMessage("bad lz4 data: it ends early")
        try:
            yield inflate.decompress(piece, max_length=_CHUNK)
        except RuntimeError as error:
            raise CorruptMessage(f"bad lz4 data: {error}") from None


def _unzstd(view: memoryview, max_bytes: int) -> Iterator[bytes]:
    while view:
        size, most = yield from _zstd_frame(view)
        if most:
            yield from _unzstd_frame(view[:size], most, max_bytes)
        view = view[size:]
        yield b""


def _unzstd_frame(frame: memoryview, most: int, max_bytes: int) -> Iterator[bytes]:
    import zstandard

    try:
        content = zstandard.frame_content_size(frame)
        _room(frame, content, max_bytes)
        if most <= 2 * _CHUNK:  # one block, and what its header cannot say better
            yield _unzstd_whole(frame, most)
            return
        reader = zstandard.ZstdDecompressor().stream_reader(frame)
        total = 0
        while part := reader.read(_CHUNK):
            total += len(part)
            yield part
    except zstandard.ZstdError as error:
        raise CorruptMessage(f"bad zstd data: {error}") from None
    if content >= 0 and total != content:
        raise CorruptMessage("bad zstd data: it is not as long as it says")


def _unzstd_whole(frame: memoryview, most: int) -> bytes:
    import zstandard

    try:
        inflate = _idle_zstd.pop()
    except IndexError:
        inflate = zstandard.ZstdDecompressor()
    try:
        return inflate.decompress(frame, max_output_size=most)
    finally:
        _idle_zstd.append(inflate)


def _zstd_frame(view: memoryview) -> Generator[bytes, None, tuple[int, int]]:
    """How long the frame that data begins with is, and what it holds at most (RFC 8878, section 3.1).

    The library does not tell a truncated stream from a whole one: the block headers do.
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
    last = blocks = 0
    while not last:
        _zstd_within(view, pos + 3)
        header = int.from_bytes(view[pos : pos + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        most += size if kind < 2 else _ZSTD_MAX_BLOCK
        pos = _zstd_within(view, pos + 3 + (1 if kind == 1 else size))
        blocks += 1
        if blocks % _ZSTD_BLOCKS == 0:
            yield b""
    return _zstd_within(view, pos + 4 * (descriptor >> 2 & 1)), most


def _zstd_within(view: memoryview, pos: int) -> int:
    if pos > len(view):
        raise CorruptMessage("bad zstd data: it ends early")
    return pos
