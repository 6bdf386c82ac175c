"""Which schemas records name, in plain Python: the fallback where nothing compiles, and the oracle of `_framed`.

A frame is what a key or value names its schema by: a zero byte and an id in four bytes, or a byte of one and a GUID.
It is in the header `__key_schema_id` or `__value_schema_id`, the last if there are several, else in front of the bytes.
The records come decompressed, in pieces that end anywhere, and are sound: `RecordScan` has seen them before.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from kavka.kernels.layout import (
    FRAME_BY_GUID_BYTES,
    FRAME_BY_ID_BYTES,
    KEY_SIDE,
    MAX_REJECTED,
    MAX_UNKNOWN_FRAMES,
    SCHEMA_HEADERS,
    VALUE_SIDE,
    Buffer,
)

_SIZE: Final = 0
_ATTRIBUTES: Final = 1
_TIMESTAMP: Final = 2
_OFFSET: Final = 3
_KEY: Final = 4
_VALUE: Final = 5
_HEADERS: Final = 6
_NAME: Final = 7
_CONTENT: Final = 8
_SIDES: Final = (KEY_SIDE, VALUE_SIDE)
_LONGEST_NAME: Final = max(map(len, SCHEMA_HEADERS))


def _frame(data: bytes | bytearray | None) -> bytes | None:
    """What some bytes begin with, if that names a schema."""
    if not data:
        return None
    if data[0] == 0 and len(data) >= FRAME_BY_ID_BYTES:
        return bytes(data[:FRAME_BY_ID_BYTES])
    if data[0] == 1 and len(data) >= FRAME_BY_GUID_BYTES:
        return bytes(data[:FRAME_BY_GUID_BYTES])
    return None


class FrameScan:
    """A walk through the records of one batch that looks at what schemas they name."""

    def __init__(
        self,
        keys: Set[bytes] | None,
        values: Set[bytes] | None,
        refused_keys: Set[bytes] = frozenset(),
        refused_values: Set[bytes] = frozenset(),
    ) -> None:
        """Be told which frames are right and which are wrong; None: keys, or values, may be anything."""
        self._right = (keys, values)
        self._wrong = (refused_keys, refused_values)
        self._state = _SIZE
        self._shift = self._value = self._skip = self._headers = 0
        self._keep = 0
        self._kept = bytearray()
        self._name: bytes = b""
        self._null = [False, False]
        self._front: list[bytes] = [b"", b""]
        self._header: list[bytes | None] = [None, None]
        self.seen = 0
        """How many records there were."""
        self.rejected: list[tuple[int, int, bytes | None]] = []
        """Index, side and frame (None: there is none) of what is wrong; not more than MAX_REJECTED of them."""
        self.rejections = 0
        self.unknown: tuple[set[bytes], set[bytes]] = (set(), set())
        """Frames, of keys and of values, that are neither right nor wrong; not more than MAX_UNKNOWN_FRAMES of each."""
        self.crowded = False
        """Whether there are more of those."""

    def feed(self, buf: Buffer) -> None:
        """Take the next bytes."""
        view, pos = memoryview(buf), 0
        while pos < len(view):
            if self._skip:
                step = min(self._skip, len(view) - pos)
                self._kept += view[pos : pos + min(step, self._keep)]
                self._keep = max(0, self._keep - step)
                self._skip -= step
                pos += step
                if not self._skip:
                    self._field_ends()
                continue
            byte = view[pos]
            pos += 1
            if self._state == _ATTRIBUTES:
                self._state = _TIMESTAMP
                continue
            self._value |= (byte & 0x7F) << self._shift
            self._shift += 7
            if byte < 0x80:
                number = (self._value >> 1) ^ -(self._value & 1)
                self._value = self._shift = 0
                self._take(number)

    def _take(self, number: int) -> None:
        match self._state:
            case 6:  # how many headers
                self._headers = number
                self._state = _NAME
                if not number:
                    self._record_ends()
            case 4 | 5 | 7 | 8:
                self._field_begins(number)
            case _:
                self._state += 1

    def _field_begins(self, size: int) -> None:
        self._kept.clear()
        self._keep = self._wanted(size)
        self._skip = max(0, size)
        if not self._skip:
            self._field_ends()

    def _wanted(self, size: int) -> int:
        """How many bytes of a field are of interest."""
        state = self._state
        if state in (_KEY, _VALUE):
            self._null[state - _KEY] = size < 0
            return FRAME_BY_GUID_BYTES
        if state == _NAME:
            return _LONGEST_NAME if size <= _LONGEST_NAME else 0
        if size < 0:
            self._name = b""  # a header without content says nothing
        return FRAME_BY_GUID_BYTES if self._name in SCHEMA_HEADERS else 0

    def _field_ends(self) -> None:
        kept = bytes(self._kept)
        match self._state:
            case 4 | 5:
                self._front[self._state - _KEY] = kept
                self._state += 1
            case 7:
                self._name = kept
                self._state = _CONTENT
            case _:
                if self._name in SCHEMA_HEADERS:
                    self._header[SCHEMA_HEADERS.index(self._name)] = kept
                self._headers -= 1
                self._state = _NAME
                if not self._headers:
                    self._record_ends()

    def _record_ends(self) -> None:
        for side in _SIDES:
            right = self._right[side]
            if right is not None and not self._null[side]:
                header = self._header[side]
                self._judge(side, _frame(self._front[side] if header is None else header), right)
        self._header = [None, None]
        self._state = _SIZE
        self.seen += 1

    def _judge(self, side: int, frame: bytes | None, right: Set[bytes]) -> None:
        if frame is not None and frame in right:
            return
        if frame is None or frame in self._wrong[side]:
            if self.rejections < MAX_REJECTED:
                self.rejected.append((self.seen, side, frame))
            self.rejections += 1
        elif frame not in self.unknown[side]:
            if len(self.unknown[side]) < MAX_UNKNOWN_FRAMES:
                self.unknown[side].add(frame)
            else:
                self.crowded = True
