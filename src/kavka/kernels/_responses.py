"""Produce and Fetch responses, compiled from pure-Python syntax. `plain_responses` explains them.

Rule: no byte is written before `room` was made for it.
"""
# ruff: noqa: F821  (a C variable is declared by its annotation)

import cython

if not cython.compiled:
    raise ImportError("this kernel is not compiled")

from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.mem import PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.kavka.kernels._native import store16, store32, store64
from cython.cimports.libc.stdint import int16_t, int32_t, int64_t, uint32_t
from cython.cimports.libc.string import memcpy

from kavka.kernels.layout import INLINE_RECORDS
from kavka.model.errors import UnsupportedVersion
from kavka.model.types import FileSlice

_PRODUCE_MIN: cython.int = 3
_PRODUCE_MAX: cython.int = 13
_PRODUCE_FLEXIBLE: cython.int = 9
_FETCH_MIN: cython.int = 4
_FETCH_MAX: cython.int = 18
_FETCH_FLEXIBLE: cython.int = 12
_INLINE: cython.Py_ssize_t = INLINE_RECORDS


def encode_produce_response(
    version: cython.int, correlation_id: int32_t, topics, throttle_time_ms: int32_t = 0, node_endpoints=()
):
    """The whole response frame; what the version has no field for is left out."""
    if version < _PRODUCE_MIN or version > _PRODUCE_MAX:
        raise UnsupportedVersion(f"Produce has no version {version}")
    flexible: cython.bint = version >= _PRODUCE_FLEXIBLE
    out: _Writer = _Writer.__new__(_Writer)
    out.begin(correlation_id, flexible)
    out.array(len(topics), flexible)
    for topic, partitions in topics:
        out.topic(topic, flexible)
        out.array(len(partitions), flexible)
        for partition in partitions:
            out.produced_partition(partition, version, flexible)
        if flexible:
            out.uvarint(0)
    out.int32(throttle_time_ms)
    if flexible:
        out.node_endpoints(node_endpoints if version >= 10 else ())
    store32(out.data, out.size - 4)
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, out.data), out.size)


def encode_produced(
    version: cython.int,
    correlation_id: int32_t,
    topic,
    partition: int32_t,
    offset: int64_t,
    append_time: int64_t,
    log_start_offset: int64_t,
):
    """The response to a request whose one batch was appended."""
    if version < _PRODUCE_MIN or version > _PRODUCE_MAX:
        raise UnsupportedVersion(f"Produce has no version {version}")
    flexible: cython.bint = version >= _PRODUCE_FLEXIBLE
    out: _Writer = _Writer.__new__(_Writer)
    out.begin(correlation_id, flexible)
    out.array(1, flexible)
    out.topic(topic, flexible)
    out.array(1, flexible)
    out.int32(partition)
    out.int16(0)
    out.int64(offset)
    out.int64(append_time)
    if version >= 5:
        out.int64(log_start_offset)
    if version >= 8:
        out.array(0, flexible)
        out.string(None, flexible)
    if flexible:
        out.uvarint(0)
        out.uvarint(0)
    out.int32(0)
    if flexible:
        out.node_endpoints(())
    store32(out.data, out.size - 4)
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, out.data), out.size)


def encode_fetch_response(
    version: cython.int,
    correlation_id: int32_t,
    throttle_time_ms: int32_t,
    error_code: int16_t,
    session_id: int32_t,
    topics,
    node_endpoints=(),
):
    """The whole response frame in pieces: files and large records as they were given, bytes around them."""
    if version < _FETCH_MIN or version > _FETCH_MAX:
        raise UnsupportedVersion(f"Fetch has no version {version}")
    flexible: cython.bint = version >= _FETCH_FLEXIBLE
    pieces: list = []
    out: _Writer = _Writer.__new__(_Writer)
    out.begin(correlation_id, flexible)
    out.int32(throttle_time_ms)
    if version >= 7:
        out.int16(error_code)
        out.int32(session_id)
    out.array(len(topics), flexible)
    for topic, partitions in topics:
        out.topic(topic, flexible)
        out.array(len(partitions), flexible)
        for partition in partitions:
            out.fetched_partition(partition, version, flexible, pieces)
        if flexible:
            out.uvarint(0)
    if flexible:
        out.node_endpoints(node_endpoints if version >= 16 else ())
    out.cut(pieces)
    # Nobody else has seen the first piece yet, so the frame's size may still be written into it.
    first: bytes = pieces[0]
    store32(cython.cast(cython.p_uchar, PyBytes_AS_STRING(first)), out.total - 4)
    return pieces


@cython.final
@cython.freelist(8)
@cython.cclass
class _Writer:
    """Writes a response frame into memory of its own, and lets go of it in pieces."""

    data: cython.p_uchar
    size: cython.Py_ssize_t
    capacity: cython.Py_ssize_t
    total: cython.Py_ssize_t

    def __dealloc__(self):
        PyMem_Free(self.data)

    @cython.cfunc
    @cython.exceptval(-1)
    def begin(self, correlation_id: int32_t, flexible: cython.bint) -> cython.int:
        """The frame's size, to be known at the end, and the response header."""
        self.room(4)
        store32(self.data, 0)
        self.size = 4
        self.int32(correlation_id)
        if flexible:
            self.uvarint(0)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def room(self, size: cython.Py_ssize_t) -> cython.int:
        """Make sure that so many bytes can be written."""
        if size > self.capacity - self.size:
            self.grow(size)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def grow(self, size: cython.Py_ssize_t) -> cython.int:
        capacity: cython.Py_ssize_t = 2 * self.capacity + size + 256
        data: cython.p_uchar
        if self.data == cython.NULL:
            data = cython.cast(cython.p_uchar, PyMem_Malloc(capacity))
        else:
            data = cython.cast(cython.p_uchar, PyMem_Realloc(self.data, capacity))
        if data == cython.NULL:
            raise MemoryError
        self.data = data
        self.capacity = capacity
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def cut(self, pieces: list) -> cython.int:
        """Turn what was written into a piece."""
        pieces.append(PyBytes_FromStringAndSize(cython.cast(cython.p_char, self.data), self.size))
        self.total += self.size
        self.size = 0
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def int16(self, value: int16_t) -> cython.int:
        self.room(2)
        store16(self.data + self.size, value)
        self.size += 2
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def int32(self, value: int32_t) -> cython.int:
        self.room(4)
        store32(self.data + self.size, value)
        self.size += 4
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def int64(self, value: int64_t) -> cython.int:
        self.room(8)
        store64(self.data + self.size, value)
        self.size += 8
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def uvarint(self, value: uint32_t) -> cython.int:
        self.room(5)
        while value > 0x7F:
            self.data[self.size] = value & 0x7F | 0x80
            self.size += 1
            value >>= 7
        self.data[self.size] = value
        self.size += 1
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def array(self, size: cython.Py_ssize_t, flexible: cython.bint) -> cython.int:
        if size > 0x7FFFFFFF:
            raise OverflowError(f"{size} is too long for the protocol")
        return self.uvarint(cython.cast(uint32_t, size + 1)) if flexible else self.int32(cython.cast(int32_t, size))

    @cython.cfunc
    @cython.exceptval(-1)
    def raw(self, source: cython.p_uchar, size: cython.Py_ssize_t) -> cython.int:
        self.room(size)
        memcpy(self.data + self.size, source, size)
        self.size += size
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def copy(self, buf) -> cython.int:
        view: Py_buffer
        PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
        try:
            return self.raw(cython.cast(cython.p_uchar, view.buf), view.len)
        finally:
            PyBuffer_Release(cython.address(view))

    @cython.cfunc
    @cython.exceptval(-1)
    def string(self, text, flexible: cython.bint) -> cython.int:
        size: cython.Py_ssize_t = -1
        utf8: cython.p_const_char = cython.NULL
        if text is not None:
            utf8 = PyUnicode_AsUTF8AndSize(text, cython.address(size))
        if flexible:
            self.array(size, True)
        else:
            if size > 0x7FFF:
                raise OverflowError(f"a string of {size} bytes is too long for the protocol")
            self.int16(cython.cast(int16_t, size))
        return self.raw(cython.cast(cython.p_uchar, utf8), size) if size > 0 else 0

    @cython.cfunc
    @cython.exceptval(-1)
    def topic(self, topic, flexible: cython.bint) -> cython.int:
        return self.string(topic, flexible) if isinstance(topic, str) else self.copy(topic)

    @cython.cfunc
    @cython.exceptval(-1)
    def records(self, records, flexible: cython.bint, pieces: list) -> cython.int:
        if records is None:
            return self.array(-1, flexible)
        size: cython.Py_ssize_t = len(records)
        self.array(size, flexible)
        if size == 0:
            return 0
        if size > _INLINE or type(records) is FileSlice:
            self.cut(pieces)
            pieces.append(records)
            self.total += size
            return 0
        return self.copy(records)

    @cython.cfunc
    @cython.exceptval(-1)
    def produced_partition(self, partition: tuple, version: cython.int, flexible: cython.bint) -> cython.int:
        full: cython.bint = len(partition) == 8
        if not full and len(partition) != 5:
            raise ValueError(f"a partition's answer has 5 or 8 fields, not {len(partition)}")
        self.int32(partition[0])
        self.int16(partition[1])
        self.int64(partition[2])
        self.int64(partition[3])
        if version >= 5:
            self.int64(partition[4])
        if version >= 8:
            if full:
                self.record_errors(partition[5], flexible)
                self.string(partition[6], flexible)
            else:
                self.array(0, flexible)
                self.string(None, flexible)
        if flexible:
            if full and version >= 10 and _is_set(partition[7]):
                self.uvarint(1)
                self.pair(0, partition[7], False, False)
            else:
                self.uvarint(0)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def record_errors(self, errors, flexible: cython.bint) -> cython.int:
        self.array(len(errors), flexible)
        for batch_index, text in errors:
            self.int32(batch_index)
            self.string(text, flexible)
            if flexible:
                self.uvarint(0)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def fetched_partition(
        self, partition: tuple, version: cython.int, flexible: cython.bint, pieces: list
    ) -> cython.int:
        full: cython.bint = len(partition) == 11
        if not full and len(partition) != 8:
            raise ValueError(f"a partition's answer has 8 or 11 fields, not {len(partition)}")
        self.int32(partition[0])
        self.int16(partition[1])
        self.int64(partition[2])
        self.int64(partition[3])
        if version >= 5:
            self.int64(partition[4])
        aborted = partition[5]
        if aborted is None:
            self.array(-1, flexible)
        else:
            self.array(len(aborted), flexible)
            for producer_id, first_offset in aborted:
                self.int64(producer_id)
                self.int64(first_offset)
                if flexible:
                    self.uvarint(0)
        if version >= 11:
            self.int32(partition[6])
        self.records(partition[7], flexible, pieces)
        if flexible:
            if full:
                self.fetched_tags(partition)
            else:
                self.uvarint(0)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def fetched_tags(self, partition: tuple) -> cython.int:
        diverging: cython.bint = _is_set(partition[8])
        leader: cython.bint = _is_set(partition[9])
        snapshot: cython.bint = _is_set(partition[10])
        self.uvarint(cython.cast(uint32_t, diverging + leader + snapshot))
        if diverging:
            self.pair(0, partition[8], False, True)
        if leader:
            self.pair(1, partition[9], False, False)
        if snapshot:
            self.pair(2, partition[10], True, False)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def pair(self, tag: uint32_t, pair, first_is_long: cython.bint, second_is_long: cython.bint) -> cython.int:
        """A tagged structure of two numbers."""
        self.uvarint(tag)
        self.uvarint(9 + 4 * cython.cast(uint32_t, first_is_long + second_is_long))
        if first_is_long:
            self.int64(pair[0])
        else:
            self.int32(pair[0])
        if second_is_long:
            self.int64(pair[1])
        else:
            self.int32(pair[1])
        return self.uvarint(0)

    @cython.cfunc
    @cython.exceptval(-1)
    def node_endpoints(self, endpoints) -> cython.int:
        """The last section of tagged fields."""
        if len(endpoints) == 0:
            return self.uvarint(0)
        inner: _Writer = _Writer.__new__(_Writer)
        inner.array(len(endpoints), True)
        for node_id, host, port, rack in endpoints:
            inner.int32(node_id)
            inner.string(host, True)
            inner.int32(port)
            inner.string(rack, True)
            inner.uvarint(0)
        self.uvarint(1)
        self.uvarint(0)
        self.uvarint(cython.cast(uint32_t, inner.size))
        return self.raw(inner.data, inner.size)


@cython.cfunc
@cython.exceptval(-1)
def _is_set(pair) -> cython.int:
    """Whether a tagged structure differs from its default."""
    return 0 if pair is None or (pair[0] == -1 and pair[1] == -1) else 1
