"""Records to the buffers of Arrow columns, compiled: Cython in pure-Python syntax. `plain_arrow` tells what each does.

Rule: no byte is read before its position was compared with the end of the payload, and none is written before the
store was made large enough for the whole payload.
"""
# ruff: noqa: F821  (a C variable is declared by its annotation)

import cython

if not cython.compiled:
    raise ImportError("this kernel is not compiled")

from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
from cython.cimports.libc.stdint import int32_t, int64_t, uint64_t
from cython.cimports.libc.string import memcpy

from kavka.kernels.arrow_layout import TOO_LATE, BinaryColumn, HeaderColumn
from kavka.kernels.batches import read_records
from kavka.model.errors import InvalidRecord

_MAX: int64_t = 0x7FFFFFFFFFFFFFFF
_MAX_MS: int64_t = 9223372036854775
_INT32_MAX: int64_t = 0x7FFFFFFF
_LEAST: cython.Py_ssize_t = 7  # bytes that the shortest record takes


@cython.final
@cython.cclass
class _Store:
    """Memory that grows by moving: whoever still looks at the old place keeps it."""

    held: bytearray
    data: cython.p_uchar
    room: cython.Py_ssize_t

    def __cinit__(self):
        self.room = 0
        self.held = bytearray()
        self.data = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(self.held))

    @cython.cfunc
    @cython.exceptval(-1)
    def reserve(self, used: cython.Py_ssize_t, needed: cython.Py_ssize_t) -> cython.int:
        if needed <= self.room:
            return 0
        room: cython.Py_ssize_t = max(needed, 2 * self.room, 4096)
        held: bytearray = PyByteArray_FromStringAndSize(cython.NULL, room)
        data: cython.p_uchar = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(held))
        memcpy(data, self.data, used)
        self.held, self.data, self.room = held, data, room
        return 0

    @cython.cfunc
    def view(self, used: cython.Py_ssize_t):
        return memoryview(self.held)[:used]


@cython.final
@cython.cclass
class _Binary:
    """One growing column of bytes."""

    rows: cython.Py_ssize_t
    nulls: cython.Py_ssize_t
    used: cython.Py_ssize_t
    validity: _Store
    offsets: _Store
    data: _Store

    def __cinit__(self):
        self.validity, self.offsets, self.data = _Store(), _Store(), _Store()
        self.empty()

    @cython.cfunc
    @cython.exceptval(-1)
    def empty(self) -> cython.int:
        self.rows = self.nulls = self.used = 0
        self.offsets.reserve(0, 4)
        cython.cast(cython.pointer[int32_t], self.offsets.data)[0] = 0
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def reserve(self, rows: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
        if self.used + size > _INT32_MAX or self.rows + rows > _INT32_MAX:
            raise OverflowError("an Arrow column has at most 2^31 - 1 bytes: clear it earlier")
        self.validity.reserve((self.rows + 7) >> 3, (self.rows + rows + 8) >> 3)
        self.offsets.reserve(4 * (self.rows + 1), 4 * (self.rows + rows + 1))
        self.data.reserve(self.used, self.used + size)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def put(self, value: cython.p_uchar, size: int64_t) -> cython.void:
        """Add a value, null if its size is negative; there is room for it."""
        bit: cython.uchar = 1 << (self.rows & 7)
        if size < 0:
            self.validity.data[self.rows >> 3] &= ~bit
            self.nulls += 1
        else:
            self.validity.data[self.rows >> 3] |= bit
            memcpy(self.data.data + self.used, value, size)
            self.used += size
        self.rows += 1
        cython.cast(cython.pointer[int32_t], self.offsets.data)[self.rows] = cython.cast(int32_t, self.used)

    @cython.cfunc
    def mark(self):
        return (self.rows, self.nulls, self.used)

    @cython.cfunc
    def rewind(self, mark: tuple):
        self.rows, self.nulls, self.used = mark

    @cython.cfunc
    def column(self):
        return BinaryColumn(
            self.rows,
            self.nulls,
            self.validity.view((self.rows + 7) >> 3),
            self.offsets.view(4 * (self.rows + 1)),
            self.data.view(self.used),
        )


@cython.final
@cython.cclass
class RecordColumns:
    """The columns of decoded records: offsets, timestamps and their type always, the others as asked for."""

    rows = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _has_keys: cython.bint
    _has_values: cython.bint
    _has_headers: cython.bint
    _keys: _Binary
    _values: _Binary
    _lists: _Binary
    _names: _Binary
    _contents: _Binary
    _offsets: _Store
    _timestamps: _Store
    _types: _Store

    def __init__(self, keys: cython.bint = True, values: cython.bint = True, headers: cython.bint = False):
        self.rows = 0
        self._has_keys, self._has_values, self._has_headers = keys, values, headers
        self._keys, self._values, self._lists, self._names, self._contents = (
            _Binary(),
            _Binary(),
            _Binary(),
            _Binary(),
            _Binary(),
        )
        self._offsets, self._timestamps, self._types = _Store(), _Store(), _Store()

    def clear(self):
        """Begin anew."""
        self.rows = 0
        self._keys.empty()
        self._values.empty()
        self._lists.empty()
        self._names.empty()
        self._contents.empty()

    @property
    def size(self):
        """How many bytes of keys, values and headers the columns hold."""
        return self._keys.used + self._values.used + self._names.used + self._contents.used

    def append(
        self,
        buf,
        info,
        first: int64_t = 0,
        after: int64_t = _MAX,
        pos: cython.Py_ssize_t = 0,
        end: cython.Py_ssize_t = -1,
    ):
        """Decode a batch's payload; its records from offset `first` to before `after` become rows. How many did."""
        view: Py_buffer
        before: cython.Py_ssize_t = self.rows
        count: int64_t = info.count
        base_offset: int64_t = info.base_offset
        base_timestamp: int64_t = info.base_timestamp
        max_timestamp: int64_t = info.max_timestamp
        stamped: cython.bint = info.attributes & 0x08 != 0
        sound: cython.bint = False
        marks = (
            self._keys.mark(),
            self._values.mark(),
            self._lists.mark(),
            self._names.mark(),
            self._contents.mark(),
        )
        PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
        try:
            if end == -1:
                end = view.len
            if pos < 0 or pos > end or end > view.len:
                raise ValueError(f"no range of {view.len} bytes: {pos} to {end}")
            self._reserve(end - pos)
            sound = self._decode(
                cython.cast(cython.p_uchar, view.buf) + pos,
                end - pos,
                count,
                base_offset,
                base_timestamp,
                max_timestamp,
                stamped,
                first,
                after,
            )
        finally:
            PyBuffer_Release(cython.address(view))
            if not sound:
                self.rows = before
                self._keys.rewind(marks[0])
                self._values.rewind(marks[1])
                self._lists.rewind(marks[2])
                self._names.rewind(marks[3])
                self._contents.rewind(marks[4])
        if not sound:
            read_records(buf, info, pos, end)  # it takes longer to find the fault, and knows its name
            raise InvalidRecord(TOO_LATE)
        return self.rows - before

    def offsets(self):
        """The offsets, as 64 bit integers."""
        return self._offsets.view(8 * self.rows)

    def timestamps(self):
        """The timestamps in microseconds, as 64 bit integers."""
        return self._timestamps.view(8 * self.rows)

    def timestamp_types(self):
        """0 where the producer set the time and 1 where the broker did, as 32 bit integers."""
        return self._types.view(4 * self.rows)

    def keys(self):
        """The keys."""
        if not self._has_keys:
            raise ValueError("this column was not asked for")
        return self._keys.column()

    def values(self):
        """The values."""
        if not self._has_values:
            raise ValueError("this column was not asked for")
        return self._values.column()

    def headers(self):
        """The headers."""
        if not self._has_headers:
            raise ValueError("this column was not asked for")
        rows, nulls, validity, offsets, _ = self._lists.column()
        return HeaderColumn(rows, nulls, validity, offsets, self._names.column(), self._contents.column())

    @cython.cfunc
    @cython.exceptval(-1)
    def _reserve(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for all that a payload of this size can hold, whatever it says it holds."""
        rows: cython.Py_ssize_t = size // _LEAST + 1
        self._offsets.reserve(8 * self.rows, 8 * (self.rows + rows))
        self._timestamps.reserve(8 * self.rows, 8 * (self.rows + rows))
        self._types.reserve(4 * self.rows, 4 * (self.rows + rows))
        if self._has_keys:
            self._keys.reserve(rows, size)
        if self._has_values:
            self._values.reserve(rows, size)
        if self._has_headers:
            self._lists.reserve(rows, 0)
            self._names.reserve(size // 2 + 1, size)
            self._contents.reserve(size // 2 + 1, size)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _decode(
        self,
        data: cython.p_uchar,
        end: cython.Py_ssize_t,
        count: int64_t,
        base_offset: int64_t,
        base_timestamp: int64_t,
        append_time: int64_t,
        stamped: cython.bint,
        first: int64_t,
        after: int64_t,
    ) -> cython.int:
        """Whether the payload is exactly these records; if not, what was added is to be taken back."""
        pos: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t
        size: int64_t
        timestamp: int64_t
        offset: int64_t
        key_size: int64_t
        value_size: int64_t
        key: cython.p_uchar
        value: cython.p_uchar
        fault: cython.int = 0
        at: cython.pointer[cython.Py_ssize_t] = cython.address(pos)
        bad: cython.p_int = cython.address(fault)
        if count < 0:
            return 0
        for _ in range(count):
            size = _varint(data, at, end, 28, bad)
            if fault or size <= 0 or size > end - pos:
                return 0
            last = pos + size
            pos += 1  # attributes: none is in use
            timestamp = _sum(base_timestamp, _varint(data, at, last, 63, bad))
            offset = _sum(base_offset, _varint(data, at, last, 28, bad))
            key_size = _varint(data, at, last, 28, bad)
            if fault or key_size > last - pos:
                return 0
            key = data + pos
            if key_size > 0:
                pos += key_size
            value_size = _varint(data, at, last, 28, bad)
            if fault or value_size > last - pos:
                return 0
            value = data + pos
            if value_size > 0:
                pos += value_size
            size = _varint(data, at, last, 28, bad)
            if fault or size < 0 or size > last - pos:
                return 0
            if offset < first or offset >= after:
                if size and not self._skip_headers(data, at, last, size):
                    return 0
            else:
                if stamped:
                    timestamp = append_time
                if timestamp > _MAX_MS or timestamp < -_MAX_MS:
                    return 0
                if (size or self._has_headers) and not self._take_headers(data, at, last, size):
                    return 0
                cython.cast(cython.pointer[int64_t], self._offsets.data)[self.rows] = offset
                cython.cast(cython.pointer[int64_t], self._timestamps.data)[self.rows] = timestamp * 1000
                cython.cast(cython.pointer[int32_t], self._types.data)[self.rows] = 1 if stamped else 0
                if self._has_keys:
                    self._keys.put(key, key_size)
                if self._has_values:
                    self._values.put(value, value_size)
                self.rows += 1
            if pos != last:
                return 0
        return pos == end

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _take_headers(
        self, data: cython.p_uchar, at: cython.pointer[cython.Py_ssize_t], end: cython.Py_ssize_t, count: int64_t
    ) -> cython.int:
        if not self._has_headers:
            return self._skip_headers(data, at, end, count)
        name: cython.p_uchar
        name_size: int64_t
        size: int64_t
        fault: cython.int = 0
        bad: cython.p_int = cython.address(fault)
        for _ in range(count):
            name_size = _varint(data, at, end, 28, bad)
            if fault or name_size < 0 or name_size > end - at[0]:
                return 0
            name = data + at[0]
            if not _is_utf8(name, name_size):
                return 0
            at[0] += name_size
            size = _varint(data, at, end, 28, bad)
            if fault or size > end - at[0]:
                return 0
            self._names.put(name, name_size)
            self._contents.put(data + at[0], size)
            if size > 0:
                at[0] += size
        self._lists.put(data, 0 if count else -1)
        cython.cast(cython.pointer[int32_t], self._lists.offsets.data)[self._lists.rows] = cython.cast(
            int32_t, self._names.rows
        )
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _skip_headers(
        self, data: cython.p_uchar, at: cython.pointer[cython.Py_ssize_t], end: cython.Py_ssize_t, count: int64_t
    ) -> cython.int:
        size: int64_t
        fault: cython.int = 0
        bad: cython.p_int = cython.address(fault)
        for _ in range(count):
            size = _varint(data, at, end, 28, bad)
            if fault or size < 0 or size > end - at[0] or not _is_utf8(data + at[0], size):
                return 0
            at[0] += size
            size = _varint(data, at, end, 28, bad)
            if fault or size > end - at[0]:
                return 0
            if size > 0:
                at[0] += size
        return 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint(
    data: cython.p_uchar,
    at: cython.pointer[cython.Py_ssize_t],
    end: cython.Py_ssize_t,
    last_shift: cython.int,
    fault: cython.p_int,
) -> int64_t:
    """A signed integer of 32 bits (last shift 28) or 64 (63); a bad one sets the fault and is 0."""
    pos: cython.Py_ssize_t = at[0]
    byte: cython.uchar
    value: uint64_t = 0
    shift: cython.int = 0
    while pos < end:
        byte = data[pos]
        pos += 1
        value |= cython.cast(uint64_t, byte & 0x7F) << shift
        if byte < 0x80:
            if shift == last_shift and byte >> (4 if last_shift == 28 else 1):
                break
            at[0] = pos
            return cython.cast(int64_t, value >> 1) ^ -cython.cast(int64_t, value & 1)
        if shift == last_shift:
            break
        shift += 7
    fault[0] = 1
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _sum(base: int64_t, delta: int64_t) -> int64_t:
    return cython.cast(int64_t, cython.cast(uint64_t, base) + cython.cast(uint64_t, delta))


@cython.cfunc
@cython.exceptval(-1, check=True)
def _is_utf8(text: cython.p_uchar, size: int64_t) -> cython.int:
    i: int64_t
    for i in range(size):
        if text[i] > 0x7F:
            break
    else:
        return 1
    try:
        PyUnicode_DecodeUTF8(cython.cast(cython.p_char, text), size, cython.NULL)
    except UnicodeDecodeError:
        return 0
    return 1
