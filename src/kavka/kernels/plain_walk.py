"""A walk through a batch's records in plain Python: the fallback where nothing compiles, and the oracle of `_walk`.

The records come decompressed, in pieces that end anywhere; what is kept of them is a few numbers. A record that is not
one, or more or fewer of them than the header says, is InvalidRecord; what only breaks a topic's rules is noted.
"""

from __future__ import annotations

from typing import Final

from kavka.kernels.layout import (
    BAD_RECORD,
    BAD_TIME,
    BYTES_LEFT,
    MAX_REJECTED,
    NO_KEY,
    RECORDS_MISSING,
    Buffer,
)
from kavka.model.errors import InvalidRecord

_SIZE: Final = 0
_ATTRIBUTES: Final = 1
_TIMESTAMP: Final = 2
_OFFSET: Final = 3
_KEY: Final = 4
_VALUE: Final = 5
_HEADERS: Final = 6
_NAME: Final = 7
_CONTENT: Final = 8
_COMPLETE: Final = 9

_HALF: Final = 1 << 63


def _wrapped(value: int) -> int:
    return (value + _HALF) % (2 * _HALF) - _HALF


class RecordScan:
    """A walk through the records of one batch, decompressed, as they come."""

    def __init__(self, count: int, base_timestamp: int, appended: bool = False, append_time: int = -1) -> None:
        self._count = count
        self._base_timestamp = base_timestamp
        self._append_time = append_time if appended else None
        self._keyed = self._timed = False
        self._now_ms = self._before_max_ms = self._after_max_ms = 0
        self._wanted: tuple[int, int] | None = None
        self._state = _SIZE
        self._shift = self._value = self._skip = self._left = self._headers = 0
        self._timestamp = self._delta = 0
        self._keyless = False
        self._seen = 0
        self.rejected: list[tuple[int, int]] = []
        """Records that break a rule: their index, and NO_KEY or BAD_TIME; not more than MAX_REJECTED of them."""
        self.rejections = 0
        self.max_timestamp = -1
        """The largest timestamp so far, -1 if no record has one."""
        self.consecutive = True
        """Whether the records' offset deltas are 0, 1, 2 and so on."""
        self.increasing = True
        """Whether each offset delta is above the one before, and none is negative."""
        self.headed = False
        """Whether any record has headers."""
        self.negative = False
        """Whether any timestamp is below -1."""
        self.last_delta = -1
        """The offset delta of the last record."""
        self.found: tuple[int, int] | None = None
        """Timestamp and offset delta of the record that was sought."""

    def require(self, now_ms: int, before_max_ms: int, after_max_ms: int, keyed: bool, timed: bool) -> None:
        """Note the records that break a topic's rules."""
        self._now_ms, self._before_max_ms, self._after_max_ms = now_ms, before_max_ms, after_max_ms
        self._keyed, self._timed = keyed, timed

    def seek(self, timestamp: int, delta: int) -> None:
        """Stop at the first record of a time, from an offset delta on."""
        self._wanted = timestamp, delta

    def feed(self, buf: Buffer, pos: int = 0, end: int = -1) -> bool:
        """Take the next bytes; True when what was sought is found."""
        view = memoryview(buf)
        if end == -1:
            end = len(view)
        if not 0 <= pos <= end <= len(view):
            raise ValueError(f"no range of {len(view)} bytes: {pos} to {end}")
        while pos < end and self.found is None:
            if self._seen >= self._count:
                raise InvalidRecord(BYTES_LEFT)
            pos = self._read_on(view, pos, end)
            if self._state == _COMPLETE and not self._skip:
                if self._left:
                    raise InvalidRecord(BAD_RECORD)
                self._state = _SIZE
                self._judge()
        return self.found is not None

    def finish(self) -> None:
        """Be told that there is no more."""
        if self._seen != self._count or self._shift or self._state != _SIZE:
            raise InvalidRecord(RECORDS_MISSING)

    def _read_on(self, view: memoryview, pos: int, end: int) -> int:
        """Go past the bytes to skip, or take one byte."""
        if self._skip:
            step = min(self._skip, end - pos)
            self._skip -= step
            return pos + step
        if self._state != _SIZE:
            if self._left <= 0:
                raise InvalidRecord(BAD_RECORD)
            self._left -= 1
        if self._state == _ATTRIBUTES:
            self._state = _TIMESTAMP
            return pos + 1
        byte = view[pos]
        last_shift = 63 if self._state == _TIMESTAMP else 28
        self._value |= (byte & 0x7F) << self._shift
        if byte >= 0x80:
            if self._shift == last_shift:
                raise InvalidRecord(BAD_RECORD)
            self._shift += 7
            return pos + 1
        if self._shift == last_shift and byte >> (4 if last_shift == 28 else 1):
            raise InvalidRecord(BAD_RECORD)
        number = (self._value >> 1) ^ -(self._value & 1)
        self._value = self._shift = 0
        self._take(number)
        return pos + 1

    def _take(self, number: int) -> None:
        match self._state:
            case 0:  # the size of the record
                if number <= 0:
                    raise InvalidRecord(BAD_RECORD)
                self._left = number
                self._state = _ATTRIBUTES
            case 2:
                self._timestamp = number
                self._state = _OFFSET
            case 3:
                self._delta = number
                self._state = _KEY
            case 6:  # how many headers
                if not 0 <= number <= self._left:
                    raise InvalidRecord(BAD_RECORD)
                self._headers = number
                self.headed |= number > 0
                self._state = _NAME if number else _COMPLETE
            case _:
                self._take_length(number)

    def _take_length(self, number: int) -> None:
        if number > self._left or (number < 0 and self._state == _NAME):
            raise InvalidRecord(BAD_RECORD)
        if self._state == _KEY:
            self._keyless = number < 0
        if number > 0:
            self._left -= number
            self._skip = number
        if self._state == _CONTENT:
            self._headers -= 1
            self._state = _NAME if self._headers else _COMPLETE
        else:
            self._state += 1

    def _judge(self) -> None:
        timestamp = _wrapped(self._base_timestamp + self._timestamp)
        if self._append_time is not None:
            timestamp = self._append_time
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.negative |= timestamp < -1
        self.consecutive &= self._delta == self._seen
        self.increasing &= self._delta > self.last_delta
        self.last_delta = self._delta
        self._seen += 1
        if self._wanted is not None:
            if timestamp >= self._wanted[0] and self._delta >= self._wanted[1]:
                self.found = timestamp, self._delta
        elif self._keyed and self._keyless:
            self._reject(NO_KEY)
        elif self._timed and timestamp != -1:
            age = _wrapped(self._now_ms - timestamp)  # as Kafka's 64 bits have it
            if age > self._before_max_ms or _wrapped(-age) > self._after_max_ms:
                self._reject(BAD_TIME)
        elif self._append_time is not None:
            self._reject(BAD_TIME)

    def _reject(self, kind: int) -> None:
        if self.rejections < MAX_REJECTED:
            self.rejected.append((self._seen - 1, kind))
        self.rejections += 1
