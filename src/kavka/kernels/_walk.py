"""A walk through a batch's records, compiled: Cython in pure-Python syntax. `plain_walk` tells what it does.

Rule: no byte is read before its position was compared with the end of the buffer.
"""
# ruff: noqa: F821  (a C variable is declared by its annotation, and what _walk.pxd declares is there by itself)

import cython

if not cython.compiled:
    raise ImportError("this kernel is not compiled")

from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.libc.stdint import int32_t, int64_t, uint64_t

from kavka.kernels.layout import BAD_RECORD, BYTES_LEFT, MAX_REJECTED, RECORDS_MISSING
from kavka.model.errors import InvalidRecord


def begin(walk, count, base_timestamp, appended, append_time):
    walk.count = count
    walk.base_timestamp = base_timestamp
    walk.appended = appended
    walk.append_time = append_time
    walk.keyed = False
    walk.timed = False
    walk.seeking = False
    walk.state = _SIZE
    walk.shift = 0
    walk.value = 0
    walk.skip = 0
    walk.seen = 0
    walk.max_timestamp = -1
    walk.last_delta = -1
    walk.consecutive = True
    walk.increasing = True
    walk.headed = False
    walk.negative = False
    walk.fault = 0
    walk.rejected = 0
    walk.found = False


def demand(walk, now_ms, before_max_ms, after_max_ms, keyed, timed):
    walk.now_ms = now_ms
    walk.before_max_ms = before_max_ms
    walk.after_max_ms = after_max_ms
    walk.keyed = keyed
    walk.timed = timed


def go_on(walk, data, pos, end):
    """Walk until the data ends, a record is rejected or found, or there is a fault; where that is."""
    while pos < end:
        if walk.seen >= walk.count:
            walk.fault = _HAS_MORE
            return pos
        if walk.state == _SIZE and walk.shift == 0:
            pos = _whole(walk, data, pos, end)
            if pos >= end or walk.fault or walk.rejected or walk.found:
                return pos
            if walk.seen >= walk.count:
                continue
        pos = _piecewise(walk, data, pos, end)
        if walk.fault or walk.skip or walk.state != _COMPLETE:
            return pos
        walk.state = _SIZE
        _judge(walk)
        if walk.rejected or walk.found:
            return pos
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _number(
    data: cython.p_const_uchar, at: cython.pointer[cython.Py_ssize_t], end: cython.Py_ssize_t, last_shift: cython.int
) -> int64_t:
    """A signed integer of 32 bits (last shift 28) or 64 (63); after a bad one the position is nowhere."""
    pos: cython.Py_ssize_t = at[0]
    value: uint64_t
    shift: cython.int = 0
    if pos >= end:
        at[0] = _NOWHERE
        return 0
    value = data[pos]
    if value < 0x80:
        at[0] = pos + 1
        return cython.cast(int64_t, value >> 1) ^ -cython.cast(int64_t, value & 1)
    value &= 0x7F
    pos += 1
    while pos < end and shift < last_shift:
        shift += 7
        value |= cython.cast(uint64_t, data[pos] & 0x7F) << shift
        if data[pos] < 0x80:
            if shift == last_shift and data[pos] >> (4 if last_shift == 28 else 1):
                break
            at[0] = pos + 1
            return cython.cast(int64_t, value >> 1) ^ -cython.cast(int64_t, value & 1)
        pos += 1
    at[0] = _NOWHERE
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _pass(data: cython.p_const_uchar, at: cython.pointer[cython.Py_ssize_t], end: cython.Py_ssize_t) -> cython.bint:
    """Go past a field that may be null; whether it is."""
    size: int64_t = _number(data, at, end, 28)
    if size < 0:
        return True
    if size > end - at[0]:
        at[0] = _NOWHERE
    else:
        at[0] += size
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _whole(
    walk: cython.pointer[Walk], data: cython.p_const_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Read the records that are all there, as many as there may be; where the first stands that is not."""
    local: Walk = walk[0]  # a copy that no byte of the data can be a part of: the compiler keeps it in registers
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    size: int64_t
    count: int64_t
    while pos < end and local.seen < local.count:
        at = pos
        size = _number(data, cython.address(at), end, 28)
        if at > end or size > end - at:
            break
        if size <= 0:
            local.fault = _IS_BAD
            break
        stop = at + size
        at += 1
        local.timestamp = _number(data, cython.address(at), stop, 63)
        local.delta = _number(data, cython.address(at), stop, 28)
        local.keyless = _pass(data, cython.address(at), stop)
        _pass(data, cython.address(at), stop)
        count = _number(data, cython.address(at), stop, 28)
        if count:
            local.headed = True
            if count < 0 or count > stop - at:
                at = _NOWHERE
            while count > 0 and at < stop:
                if _pass(data, cython.address(at), stop):  # a header has a name
                    at = _NOWHERE
                _pass(data, cython.address(at), stop)
                count -= 1
        if at != stop or count:
            local.fault = _IS_BAD
            break
        pos = stop
        _judge(cython.address(local))
        if local.rejected or local.found:
            break
    walk[0] = local
    return pos


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _piecewise(
    walk: cython.pointer[Walk], data: cython.p_const_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Read on in a record that comes in pieces, until it is complete or the data ends."""
    step: int64_t
    number: int64_t
    last_shift: cython.int
    byte: cython.uchar
    while True:
        if walk.skip:
            step = walk.skip if walk.skip < end - pos else end - pos
            pos += step
            walk.skip -= step
            if walk.skip:
                return pos
        if walk.state == _COMPLETE:
            if walk.left:
                walk.fault = _IS_BAD
            return pos
        if pos >= end:
            return pos
        if walk.state != _SIZE:
            if walk.left <= 0:
                walk.fault = _IS_BAD
                return pos
            walk.left -= 1
        byte = data[pos]
        pos += 1
        if walk.state == _ATTRIBUTES:
            walk.state = _TIMESTAMP
            continue
        last_shift = 63 if walk.state == _TIMESTAMP else 28
        walk.value |= cython.cast(uint64_t, byte & 0x7F) << walk.shift
        if byte >= 0x80:
            if walk.shift == last_shift:
                walk.fault = _IS_BAD
                return pos
            walk.shift += 7
            continue
        if walk.shift == last_shift and byte >> (4 if last_shift == 28 else 1):
            walk.fault = _IS_BAD
            return pos
        number = cython.cast(int64_t, walk.value >> 1) ^ -cython.cast(int64_t, walk.value & 1)
        walk.value = 0
        walk.shift = 0
        _take(walk, number)
        if walk.fault:
            return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take(walk: cython.pointer[Walk], number: int64_t) -> cython.void:
    """Take the number that the walk's state is about."""
    if walk.state == _SIZE:
        if number <= 0:
            walk.fault = _IS_BAD
        walk.left = number
        walk.state = _ATTRIBUTES
    elif walk.state == _TIMESTAMP:
        walk.timestamp = number
        walk.state = _OFFSET
    elif walk.state == _OFFSET:
        walk.delta = number
        walk.state = _KEY
    elif walk.state == _HEADERS:
        if number < 0 or number > walk.left:
            walk.fault = _IS_BAD
        walk.headers = number
        if number:
            walk.headed = True
        walk.state = _NAME if number else _COMPLETE
    else:
        if number > walk.left or (number < 0 and walk.state == _NAME):
            walk.fault = _IS_BAD
            return
        if walk.state == _KEY:
            walk.keyless = number < 0
        if number > 0:
            walk.left -= number
            walk.skip = number
        if walk.state == _CONTENT:
            walk.headers -= 1
            walk.state = _NAME if walk.headers else _COMPLETE
        else:
            walk.state += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _judge(walk: cython.pointer[Walk]) -> cython.void:
    """Take a whole record into account."""
    timestamp: int64_t = cython.cast(
        int64_t, cython.cast(uint64_t, walk.base_timestamp) + cython.cast(uint64_t, walk.timestamp)
    )
    age: int64_t
    if walk.appended:
        timestamp = walk.append_time
    if timestamp > walk.max_timestamp:
        walk.max_timestamp = timestamp
    elif timestamp < -1:
        walk.negative = True
    if walk.delta != walk.seen:
        walk.consecutive = False
    if walk.delta <= walk.last_delta:
        walk.increasing = False
    walk.last_delta = walk.delta
    walk.seen += 1
    if walk.seeking:
        if timestamp >= walk.wanted_timestamp and walk.delta >= walk.wanted_delta:
            walk.timestamp = timestamp
            walk.found = True
    elif walk.keyed and walk.keyless:
        walk.rejected = _NO_KEY
    elif walk.timed and timestamp != -1:
        age = cython.cast(int64_t, cython.cast(uint64_t, walk.now_ms) - cython.cast(uint64_t, timestamp))
        if age > walk.before_max_ms or cython.cast(int64_t, -cython.cast(uint64_t, age)) > walk.after_max_ms:
            walk.rejected = _BAD_TIME
    elif walk.appended:
        walk.rejected = _BAD_TIME


@cython.final
@cython.cclass
class RecordScan:
    """A walk through the records of one batch, decompressed, as they come."""

    _walk: Walk
    rejected = cython.declare(list, visibility="readonly")
    rejections = cython.declare(cython.int, visibility="readonly")

    def __init__(
        self, count: int32_t, base_timestamp: int64_t, appended: cython.bint = False, append_time: int64_t = -1
    ):
        begin(cython.address(self._walk), count, base_timestamp, appended, append_time)
        self.rejected = []
        self.rejections = 0

    def require(
        self, now_ms: int64_t, before_max_ms: int64_t, after_max_ms: int64_t, keyed: cython.bint, timed: cython.bint
    ):
        """Note the records that break a topic's rules."""
        demand(cython.address(self._walk), now_ms, before_max_ms, after_max_ms, keyed, timed)

    def seek(self, timestamp: int64_t, delta: int64_t):
        """Stop at the first record of a time, from an offset delta on."""
        self._walk.seeking = True
        self._walk.wanted_timestamp = timestamp
        self._walk.wanted_delta = delta

    def feed(self, buf, pos: cython.Py_ssize_t = 0, end: cython.Py_ssize_t = -1):
        """Take the next bytes; True when what was sought is found."""
        view: Py_buffer
        walk: cython.pointer[Walk] = cython.address(self._walk)
        PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
        try:
            if end == -1:
                end = view.len
            if pos < 0 or pos > end or end > view.len:
                raise ValueError(f"no range of {view.len} bytes: {pos} to {end}")
            while pos < end and not walk.found:
                pos = go_on(walk, cython.cast(cython.p_const_uchar, view.buf), pos, end)
                if walk.fault:
                    raise InvalidRecord(BAD_RECORD if walk.fault == _IS_BAD else BYTES_LEFT)
                if walk.rejected:
                    self._note()
        finally:
            PyBuffer_Release(cython.address(view))
        return walk.found

    @cython.cfunc
    def _note(self):
        if self.rejections < MAX_REJECTED:
            self.rejected.append((self._walk.seen - 1, self._walk.rejected))
        self.rejections += 1
        self._walk.rejected = 0

    def finish(self):
        """Be told that there is no more."""
        if self._walk.seen != self._walk.count or self._walk.shift or self._walk.state != _SIZE:
            raise InvalidRecord(RECORDS_MISSING)

    @property
    def max_timestamp(self):
        """The largest timestamp so far, -1 if no record has one."""
        return self._walk.max_timestamp

    @property
    def consecutive(self):
        """Whether the records' offset deltas are 0, 1, 2 and so on."""
        return self._walk.consecutive

    @property
    def increasing(self):
        """Whether each offset delta is above the one before, and none is negative."""
        return self._walk.increasing

    @property
    def headed(self):
        """Whether any record has headers."""
        return self._walk.headed

    @property
    def negative(self):
        """Whether any timestamp is below -1."""
        return self._walk.negative

    @property
    def last_delta(self):
        """The offset delta of the last record."""
        return self._walk.last_delta

    @property
    def found(self):
        """Timestamp and offset delta of the record that was sought."""
        return (self._walk.timestamp, self._walk.delta) if self._walk.found else None
