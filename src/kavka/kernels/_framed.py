"""Which schemas a batch's records name, compiled: Cython in pure-Python syntax. `plain_framed` tells what it does.

Rule: no byte is read before its position was compared with the end of the buffer, and none kept beyond the room for it.
"""
# ruff: noqa: F821  (a C variable is declared by its annotation)

import cython

if not cython.compiled:
    raise ImportError("this kernel is not compiled")

from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcmp, memcpy

from kavka.kernels.layout import MAX_REJECTED, MAX_UNKNOWN_FRAMES

_SIZE = cython.declare(cython.int, 0)
_ATTRIBUTES = cython.declare(cython.int, 1)
_TIMESTAMP = cython.declare(cython.int, 2)
_KEY = cython.declare(cython.int, 4)
_VALUE = cython.declare(cython.int, 5)
_HEADERS = cython.declare(cython.int, 6)
_NAME = cython.declare(cython.int, 7)
_CONTENT = cython.declare(cython.int, 8)

_ROOM = cython.declare(cython.int, 17)  # a GUID's frame, and the longest name of a header that is looked for
_LONGEST = cython.declare(cython.int, 70)  # a number of 64 bits has at most ten bytes
_NEITHER = cython.declare(cython.int, 2)


@cython.final
@cython.cclass
class FrameScan:
    """A walk through the records of one batch that looks at what schemas they name."""

    _keys: object
    _values: object
    _refused_keys: object
    _refused_values: object
    _state: cython.int
    _shift: cython.int
    _number: uint64_t
    _skip: int64_t
    _headers: int64_t
    _keep: cython.int  # so many bytes of the field are of interest
    _kept: cython.int  # so many are kept of it
    _target: cython.p_uchar
    _side: cython.int  # which side the header is about
    _name: cython.uchar[17]
    _null: cython.bint[2]
    _size: cython.int[4]  # kept of: key, value, the key's header, the value's; -1: there is none
    _key: cython.uchar[17]
    _value: cython.uchar[17]
    _key_header: cython.uchar[17]
    _value_header: cython.uchar[17]
    _last_size: cython.int[2]  # the frame that was right last
    _last_key: cython.uchar[17]
    _last_value: cython.uchar[17]
    _unknown_keys: set
    _unknown_values: set
    seen = cython.declare(cython.int, visibility="readonly")
    rejected = cython.declare(list, visibility="readonly")
    rejections = cython.declare(cython.int, visibility="readonly")
    crowded = cython.declare(cython.bint, visibility="readonly")

    def __init__(self, keys, values, refused_keys=frozenset(), refused_values=frozenset()):
        self._keys = keys
        self._values = values
        self._refused_keys = refused_keys
        self._refused_values = refused_values
        self._state = _SIZE
        self._shift = 0
        self._number = 0
        self._skip = 0
        self._headers = 0
        self._keep = 0
        self._kept = 0
        self._side = _NEITHER
        self._target = self._name
        self._size[0] = self._size[1] = self._size[2] = self._size[3] = -1
        self._last_size[0] = self._last_size[1] = 0
        self._unknown_keys = set()
        self._unknown_values = set()
        self.seen = 0
        self.rejected = []
        self.rejections = 0
        self.crowded = False

    @property
    def unknown(self):
        """Frames, of keys and of values, that are neither right nor wrong."""
        return self._unknown_keys, self._unknown_values

    def feed(self, buf):
        """Take the next bytes."""
        view: Py_buffer
        PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
        try:
            self._read(cython.cast(cython.p_const_uchar, view.buf), view.len)
        finally:
            PyBuffer_Release(cython.address(view))

    @cython.cfunc
    def _read(self, data: cython.p_const_uchar, end: cython.Py_ssize_t):
        pos: cython.Py_ssize_t = 0
        step: int64_t
        copied: int64_t
        byte: cython.uchar
        number: int64_t
        while pos < end:
            if self._skip:
                step = self._skip if self._skip < end - pos else end - pos
                copied = step if step < self._keep else self._keep
                if copied > 0:
                    memcpy(self._target + self._kept, data + pos, cython.cast(cython.size_t, copied))
                    self._kept += cython.cast(cython.int, copied)
                    self._keep -= cython.cast(cython.int, copied)
                self._skip -= step
                pos += step
                if not self._skip:
                    self._field_ends()
                continue
            byte = data[pos]
            pos += 1
            if self._state == _ATTRIBUTES:
                self._state = _TIMESTAMP
                continue
            if self._shift < _LONGEST:
                self._number |= cython.cast(uint64_t, byte & 0x7F) << (self._shift if self._shift < 64 else 63)
                self._shift += 7
            if byte < 0x80:
                number = cython.cast(int64_t, self._number >> 1) ^ -cython.cast(int64_t, self._number & 1)
                self._number = 0
                self._shift = 0
                self._take(number)

    @cython.cfunc
    def _take(self, number: int64_t):
        if self._state == _HEADERS:
            self._headers = number
            self._state = _NAME
            if not number:
                self._record_ends()
        elif self._state >= _KEY:
            self._field_begins(number)
        else:
            self._state += 1

    @cython.cfunc
    def _field_begins(self, size: int64_t):
        self._kept = 0
        self._keep = _ROOM
        if self._state == _KEY:
            self._null[0] = size < 0
            self._target = self._key
        elif self._state == _VALUE:
            self._null[1] = size < 0
            self._target = self._value
        elif self._state == _NAME:
            self._target = self._name
            if size > _ROOM:
                self._keep = 0
        else:
            if size < 0:
                self._side = _NEITHER
            if self._side == _NEITHER:
                self._keep = 0
            elif self._side:
                self._target = self._value_header
            else:
                self._target = self._key_header
        self._skip = size if size > 0 else 0
        if not self._skip:
            self._field_ends()

    @cython.cfunc
    def _field_ends(self):
        if self._state == _KEY or self._state == _VALUE:
            self._size[self._state - _KEY] = self._kept
            self._state += 1
        elif self._state == _NAME:
            self._side = _NEITHER
            if self._kept == 15 and not memcmp(self._name, b"__key_schema_id", 15):
                self._side = 0
            elif self._kept == 17 and not memcmp(self._name, b"__value_schema_id", 17):
                self._side = 1
            self._state = _CONTENT
        else:
            if self._side != _NEITHER:
                self._size[2 + self._side] = self._kept
            self._headers -= 1
            self._state = _NAME
            if not self._headers:
                self._record_ends()

    @cython.cfunc
    def _record_ends(self):
        if self._keys is not None and not self._null[0]:
            if self._size[2] >= 0:
                self._judge(0, self._key_header, self._size[2])
            else:
                self._judge(0, self._key, self._size[0])
        if self._values is not None and not self._null[1]:
            if self._size[3] >= 0:
                self._judge(1, self._value_header, self._size[3])
            else:
                self._judge(1, self._value, self._size[1])
        self._size[2] = -1
        self._size[3] = -1
        self._state = _SIZE
        self.seen += 1

    @cython.cfunc
    def _judge(self, side: cython.int, data: cython.p_uchar, size: cython.int):
        """Take what a side of a record begins with into account."""
        last: cython.p_uchar = self._last_key
        length: cython.int = 0
        if side:
            last = self._last_value
        if size >= 5 and data[0] == 0:
            length = 5
        elif size >= 17 and data[0] == 1:
            length = 17
        if not length:
            self._reject(side, None)
            return
        if length == self._last_size[side] and not memcmp(data, last, length):
            return
        frame = PyBytes_FromStringAndSize(cython.cast(cython.p_char, data), length)
        if frame in (self._values if side else self._keys):
            memcpy(last, data, length)
            self._last_size[side] = length
        elif frame in (self._refused_values if side else self._refused_keys):
            self._reject(side, frame)
        else:
            self._ask(self._unknown_values if side else self._unknown_keys, frame)

    @cython.cfunc
    def _ask(self, unknown: set, frame: object):
        if frame not in unknown:
            if len(unknown) < MAX_UNKNOWN_FRAMES:
                unknown.add(frame)
            else:
                self.crowded = True

    @cython.cfunc
    def _reject(self, side: cython.int, frame: object):
        if self.rejections < MAX_REJECTED:
            self.rejected.append((self.seen, side, frame))
        self.rejections += 1
