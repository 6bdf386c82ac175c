# What `_walk` and `_batches` share: a walk through the records of one batch, and its next steps.

from libc.stdint cimport int32_t, int64_t, uint64_t

cdef enum:  # what of a record comes next
    _SIZE
    _ATTRIBUTES
    _TIMESTAMP
    _OFFSET
    _KEY
    _VALUE
    _HEADERS
    _NAME
    _CONTENT
    _COMPLETE

cdef enum:  # faults
    _IS_BAD = 1
    _HAS_MORE

cdef enum:  # why a record is rejected: the numbers of kavka.kernels.layout
    _NO_KEY = 1
    _BAD_TIME

cdef extern from "Python.h":
    Py_ssize_t _NOWHERE "(PY_SSIZE_T_MAX >> 1)"  # a position after any end


cdef struct Walk:
    # what is walked through
    int32_t count
    int64_t base_timestamp
    int64_t append_time
    bint appended
    # what is asked of every record
    bint keyed
    bint timed
    int64_t now_ms
    int64_t before_max_ms
    int64_t after_max_ms
    # what is looked for
    bint seeking
    int64_t wanted_timestamp
    int64_t wanted_delta
    # where the walk is, in the middle of a record perhaps
    int state
    int shift
    uint64_t value
    int64_t skip
    int64_t left
    int64_t headers
    int64_t timestamp
    int64_t delta
    bint keyless
    # what it has found
    int32_t seen
    int64_t max_timestamp
    int64_t last_delta
    bint consecutive
    bint increasing
    bint headed
    bint negative
    int fault
    int rejected
    bint found


cdef void begin(Walk *walk, int32_t count, int64_t base_timestamp, bint appended, int64_t append_time) noexcept nogil
cdef void demand(
    Walk *walk, int64_t now_ms, int64_t before_max_ms, int64_t after_max_ms, bint keyed, bint timed
) noexcept nogil
cdef Py_ssize_t go_on(Walk *walk, const unsigned char *data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil
