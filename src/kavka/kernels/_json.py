"""JSON objects to the buffers of Arrow columns, compiled: Cython in pure-Python syntax.

What is written as most JSON is becomes rows here. Everything else is left to the caller: values that do not fit and may
be refused, texts with half of a surrogate pair, numbers that need rounding, times in unusual forms, fields that come
twice. So there is nothing here about what is refused and why.

Rule: no byte is read before its position was compared with the end of the row, and none is written before there is room
for it. A row that is left takes back all that it has written.
"""
# ruff: noqa: F821  (a C variable is declared by its annotation)

import cython

if not cython.compiled:
    raise ImportError("this kernel is not compiled")

from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.kavka.kernels._native import string_to_double
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memcmp, memcpy, memset

from kavka.kernels.json_layout import Column

# The numbers of json_layout, for C.
_BOOLEAN = cython.declare(cython.int, 1)
_INTEGER = cython.declare(cython.int, 2)
_FLOAT = cython.declare(cython.int, 3)
_DOUBLE = cython.declare(cython.int, 4)
_DECIMAL = cython.declare(cython.int, 5)
_TEXT = cython.declare(cython.int, 6)
_BINARY = cython.declare(cython.int, 7)
_DATE = cython.declare(cython.int, 8)
_MOMENT = cython.declare(cython.int, 9)
_LOCAL_MOMENT = cython.declare(cython.int, 10)
_LIST = cython.declare(cython.int, 11)
_MAP = cython.declare(cython.int, 12)
_STRUCT = cython.declare(cython.int, 13)

_INT32_MAX = cython.declare(int64_t, 0x7FFFFFFF)
_NOT_ASCII = cython.declare(uint64_t, 0x8080808080808080)
_EXACT = cython.declare(uint64_t, 1 << 53)  # whole numbers up to here are doubles
_DEEP = cython.declare(cython.int, 64)  # what lies deeper in values that no column wants is left
_LONG = cython.declare(cython.int, 300)  # characters of a number
_KEYS = cython.declare(int64_t, 32)  # keys of a map that are compared with one another
_LEFT = cython.declare(cython.int, 1)
_NO_MEMORY = cython.declare(cython.int, -1)

Node = cython.struct(
    kind=cython.int,
    nullable=cython.bint,
    width=cython.int,
    precision=cython.int,
    scale=cython.int,
    child=cython.int,  # the first, -1: none
    sibling=cython.int,  # the next field of the same struct, -1: none
    cursor=cython.int,  # of a struct: the field that is expected next
    name=cython.p_uchar,
    name_size=cython.Py_ssize_t,
    rows=int64_t,
    nulls=int64_t,
    used=int64_t,
    room=int64_t,
    data_room=int64_t,
    valid=cython.p_uchar,
    offsets=cython.pointer[int32_t],
    data=cython.p_uchar,
)
Mark = cython.struct(rows=int64_t, nulls=int64_t, used=int64_t)
Number = cython.struct(
    digits=uint64_t,
    count=cython.int,  # of the digits; those beyond 19 are not in `digits`
    exponent=cython.int,
    negative=cython.bint,
    whole=cython.bint,
)

_TENS = cython.declare(cython.double[23])
_POWERS = cython.declare(uint64_t[20])


@cython.cfunc
def _fill_tables():
    i: cython.int
    ten: cython.double = 1.0
    power: uint64_t = 1
    for i in range(23):
        _TENS[i] = ten
        ten *= 10.0
    for i in range(20):
        _POWERS[i] = power
        power *= 10


_fill_tables()


@cython.final
@cython.cclass
class JsonColumns:
    """Columns by a schema, made anew by each `read`."""

    _nodes: cython.pointer[Node]
    _marks: cython.pointer[Mark]
    _count: cython.int
    _names: list
    _p: cython.p_uchar
    _end: cython.p_uchar

    READS = True

    def __cinit__(self, nodes):
        i: cython.int
        self._count = len(nodes)
        self._nodes = cython.cast(cython.pointer[Node], calloc(self._count + 1, cython.sizeof(Node)))
        self._marks = cython.cast(cython.pointer[Mark], calloc(self._count + 1, cython.sizeof(Mark)))
        if self._nodes == cython.NULL or self._marks == cython.NULL:
            raise MemoryError
        self._names = [bytes(node.name) for node in nodes]
        for i in range(self._count):
            self._plan(i, nodes[i])

    @cython.cfunc
    def _plan(self, i: cython.int, given):
        node: cython.pointer[Node] = cython.address(self._nodes[i])
        name: bytes = self._names[i]
        node.kind = given.kind
        node.nullable = given.nullable
        node.precision, node.scale = given.precision, given.scale
        node.width = given.width
        node.name = cython.cast(cython.p_uchar, PyBytes_AS_STRING(name))
        node.name_size = len(name)
        node.child = node.sibling = node.cursor = -1
        if node.kind == _BOOLEAN:
            node.width = 1
        elif node.kind == _FLOAT or node.kind == _DATE:
            node.width = 4
        elif node.kind == _DOUBLE or node.kind == _MOMENT or node.kind == _LOCAL_MOMENT:
            node.width = 8
        elif node.kind == _DECIMAL:
            node.width = 16
        parent: cython.int = given.parent
        if parent >= i or (parent < 0 and i > 0):
            raise ValueError("a parent comes before its children")
        if parent < 0:
            return
        last: cython.int = self._nodes[parent].child
        if last < 0:
            self._nodes[parent].child = self._nodes[parent].cursor = i
            return
        while self._nodes[last].sibling >= 0:
            last = self._nodes[last].sibling
        self._nodes[last].sibling = i

    def __dealloc__(self):
        i: cython.int
        if self._nodes != cython.NULL:
            for i in range(self._count):
                free(self._nodes[i].valid)
                free(self._nodes[i].offsets)
                free(self._nodes[i].data)
            free(self._nodes)
        free(self._marks)

    def read(self, offsets, data, rows: cython.Py_ssize_t, first: cython.Py_ssize_t, validity):
        """Read the rows of a binary Arrow array from `first` on; which of them were left, and are null for now."""
        where: Py_buffer
        what: Py_buffer
        known: Py_buffer
        left: list = []
        i: cython.int
        for i in range(self._count):
            self._nodes[i].rows = self._nodes[i].nulls = self._nodes[i].used = 0
        PyObject_GetBuffer(offsets, cython.address(where), PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(data, cython.address(what), PyBUF_SIMPLE)
            try:
                if validity is None:
                    self._rows(cython.address(where), cython.address(what), cython.NULL, rows, first, left)
                    return left
                PyObject_GetBuffer(validity, cython.address(known), PyBUF_SIMPLE)
                try:
                    self._rows(cython.address(where), cython.address(what), cython.address(known), rows, first, left)
                finally:
                    PyBuffer_Release(cython.address(known))
            finally:
                PyBuffer_Release(cython.address(what))
        finally:
            PyBuffer_Release(cython.address(where))
        return left

    @cython.cfunc
    def _rows(
        self,
        where: cython.pointer[Py_buffer],
        what: cython.pointer[Py_buffer],
        known: cython.pointer[Py_buffer],
        rows: cython.Py_ssize_t,
        first: cython.Py_ssize_t,
        left: list,
    ):
        if rows < 0 or first < 0 or where.len < 4 * (first + rows + 1) or what.len > _INT32_MAX:
            raise ValueError("these are not the buffers of a binary array")
        if known != cython.NULL and known.len < (first + rows + 7) >> 3:
            raise ValueError("the validity is shorter than the array")
        at: cython.pointer[int32_t] = cython.cast(cython.pointer[int32_t], where.buf) + first
        data: cython.p_uchar = cython.cast(cython.p_uchar, what.buf)
        bits: cython.p_uchar = cython.NULL
        if known != cython.NULL:
            bits = cython.cast(cython.p_uchar, known.buf)
        row: cython.Py_ssize_t
        found: cython.int
        for row in range(rows):
            if bits != cython.NULL and not bits[(first + row) >> 3] >> ((first + row) & 7) & 1:
                found = self._null(0)
            elif at[row] < 0 or at[row + 1] < at[row] or at[row + 1] > what.len:
                raise ValueError("the offsets of an array go beyond its data")
            else:
                self._p = data + at[row]
                self._end = data + at[row + 1]
                found = self._document()
                if found == _LEFT:
                    left.append(row)
                    found = self._null(0)
            if found:
                raise MemoryError

    def columns(self):
        """What was read, a column for each node."""
        return [self._column(cython.address(self._nodes[i])) for i in range(self._count)]

    @cython.cfunc
    def _column(self, node: cython.pointer[Node]):
        kind: cython.int = node.kind
        validity = offsets = data = None
        if node.nulls:
            validity = _packed(node.valid, node.rows)
        if kind in (_TEXT, _BINARY, _LIST, _MAP):
            offsets = b"\0\0\0\0"
            if node.rows:
                offsets = PyBytes_FromStringAndSize(cython.cast(cython.p_char, node.offsets), 4 * (node.rows + 1))
        if kind in (_TEXT, _BINARY):
            data = PyBytes_FromStringAndSize(cython.cast(cython.p_char, node.data), node.used) if node.used else b""
        elif kind == _BOOLEAN:
            data = _packed(node.data, node.rows)
        elif node.width:
            data = b""
            if node.rows:
                data = PyBytes_FromStringAndSize(cython.cast(cython.p_char, node.data), node.width * node.rows)
        return Column(node.rows, node.nulls, validity, offsets, data)

    # Rows and their places

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _document(self) -> cython.int:
        i: cython.int
        node: cython.pointer[Node]
        found: cython.int = _LEFT
        for i in range(self._count):
            node = cython.address(self._nodes[i])
            self._marks[i].rows, self._marks[i].nulls, self._marks[i].used = node.rows, node.nulls, node.used
        if _is_text(self._p, self._end):
            self._blank()
            if self._p < self._end and self._p[0] == ord("{"):
                found = self._struct(0)
                if not found:
                    self._blank()
                    if self._p != self._end:
                        found = _LEFT
        if found:
            for i in range(self._count):
                node = cython.address(self._nodes[i])
                node.rows, node.nulls, node.used = self._marks[i].rows, self._marks[i].nulls, self._marks[i].used
        return found

    @cython.cfunc
    @cython.exceptval(check=False)
    def _grown(self, node: cython.pointer[Node]) -> cython.int:
        """Room for more rows."""
        room: int64_t = max(1024, 2 * node.room)
        kind: cython.int = node.kind
        valid: cython.p_uchar = cython.cast(cython.p_uchar, realloc(node.valid, room))
        if valid == cython.NULL:
            return _NO_MEMORY
        node.valid = valid
        if kind in (_TEXT, _BINARY, _LIST, _MAP):
            offsets: cython.pointer[int32_t] = cython.cast(
                cython.pointer[int32_t], realloc(node.offsets, 4 * (room + 1))
            )
            if offsets == cython.NULL:
                return _NO_MEMORY
            node.offsets = offsets
            offsets[0] = 0
        elif node.width:
            data: cython.p_uchar = cython.cast(cython.p_uchar, realloc(node.data, room * node.width))
            if data == cython.NULL:
                return _NO_MEMORY
            node.data = data
        node.room = room
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _room(self, node: cython.pointer[Node]) -> cython.int:
        """Make sure that there is room for one more row."""
        return 0 if node.rows < node.room else self._grown(node)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _data_room(self, node: cython.pointer[Node], more: int64_t) -> cython.int:
        """Make sure that there is room for so many bytes of a text."""
        if node.used + more <= node.data_room:
            return 0
        if node.used + more > _INT32_MAX:
            return _LEFT
        room: int64_t = max(node.used + more, 2 * node.data_room, 4096)
        data: cython.p_uchar = cython.cast(cython.p_uchar, realloc(node.data, room))
        if data == cython.NULL:
            return _NO_MEMORY
        node.data = data
        node.data_room = room
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _null(self, n: cython.int) -> cython.int:
        """Add a null, below it, too."""
        node: cython.pointer[Node] = cython.address(self._nodes[n])
        if self._room(node):
            return _NO_MEMORY
        kind: cython.int = node.kind
        if kind == _STRUCT:
            child: cython.int = node.child
            while child >= 0:
                if self._null(child):
                    return _NO_MEMORY
                child = self._nodes[child].sibling
        elif node.width:
            memset(node.data + node.rows * node.width, 0, node.width)
        else:
            node.offsets[node.rows + 1] = node.offsets[node.rows]
        node.valid[node.rows] = 0
        node.nulls += 1
        node.rows += 1
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _done(self, node: cython.pointer[Node]) -> cython.int:
        """A row is written."""
        node.valid[node.rows] = 1
        node.rows += 1
        return 0

    # Values

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _blank(self) -> cython.void:
        while self._p < self._end and (
            self._p[0] == 0x20 or self._p[0] == 0x0A or self._p[0] == 0x0D or self._p[0] == 0x09
        ):
            self._p += 1

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _word(self, word: cython.p_char, size: cython.int) -> cython.bint:
        """Step over a word, if it is here; what follows is looked at by whoever reads on."""
        if self._end - self._p < size or memcmp(self._p, word, size) != 0:
            return False
        self._p += size
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _value(self, n: cython.int) -> cython.int:
        """Read the value that is here into a column."""
        node: cython.pointer[Node] = cython.address(self._nodes[n])
        kind: cython.int = node.kind
        self._blank()
        if self._p >= self._end:
            return _LEFT
        c: cython.uchar = self._p[0]
        if c == ord("n"):
            if not node.nullable or not self._word(b"null", 4):
                return _LEFT
            return self._null(n)
        if kind == _STRUCT:
            return self._struct(n) if c == ord("{") else _LEFT
        if kind == _LIST:
            return self._list(n) if c == ord("[") else _LEFT
        if kind == _MAP:
            return self._map(n) if c == ord("{") else _LEFT
        if self._room(node):
            return _NO_MEMORY
        if kind == _TEXT:
            return self._text(node) if c == ord('"') else self._written(node)
        if kind == _INTEGER:
            return self._integer(node)
        if kind in (_DOUBLE, _FLOAT):
            return self._double(node)
        if kind == _BOOLEAN:
            return self._boolean(node)
        if kind == _DECIMAL:
            return self._decimal(node)
        if kind == _BINARY:
            return self._base64(node) if c == ord('"') else _LEFT
        if c == ord('"'):
            return self._time(node)
        return self._seconds(node) if kind == _MOMENT else _LEFT

    @cython.cfunc
    @cython.exceptval(check=False)
    def _struct(self, n: cython.int) -> cython.int:
        node: cython.pointer[Node] = cython.address(self._nodes[n])
        before: int64_t = node.rows
        found: cython.int
        field: cython.int
        key: cython.p_uchar
        size: cython.Py_ssize_t
        self._p += 1
        self._blank()
        if self._p < self._end and self._p[0] == ord("}"):
            self._p += 1
        else:
            while True:
                size = self._key()
                if size < 0:
                    return _LEFT
                key = self._p
                self._p += size + 1
                self._blank()
                if self._p >= self._end or self._p[0] != ord(":"):
                    return _LEFT
                self._p += 1
                field = self._field(node, key, size)
                if field < 0:
                    found = self._skip(0)
                elif self._nodes[field].rows != before:
                    return _LEFT  # it was here already
                else:
                    found = self._value(field)
                if found:
                    return found
                found = self._next(ord("}"))
                if found == _LEFT:
                    return _LEFT
                if found == 2:
                    break
        field = node.child
        while field >= 0:
            if self._nodes[field].rows == before:
                if not self._nodes[field].nullable:
                    return _LEFT
                if self._null(field):
                    return _NO_MEMORY
            field = self._nodes[field].sibling
        if self._room(node):
            return _NO_MEMORY
        return self._done(node)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _next(self, closing: cython.uchar) -> cython.int:
        """After an item: 0 if there is another one, 2 if this was the last."""
        self._blank()
        if self._p >= self._end:
            return _LEFT
        c: cython.uchar = self._p[0]
        self._p += 1
        if c == ord(","):
            return 0
        return 2 if c == closing else _LEFT

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _key(self) -> cython.Py_ssize_t:
        """Step to the text of a key; its length, -1 if there is none or it has to be looked at more closely."""
        self._blank()
        if self._p >= self._end or self._p[0] != ord('"'):
            return -1
        self._p += 1
        q: cython.p_uchar = self._p
        while q < self._end and q[0] != ord('"'):
            if q[0] == ord("\\") or q[0] < 0x20:
                return -1
            q += 1
        return q - self._p if q < self._end else -1

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _field(self, node: cython.pointer[Node], key: cython.p_uchar, size: cython.Py_ssize_t) -> cython.int:
        """The field of a name, looked for from the one on that comes after the last; -1 if there is none."""
        start: cython.int = node.cursor
        field: cython.int = start
        if field < 0:
            return -1
        while True:
            if self._nodes[field].name_size == size and memcmp(self._nodes[field].name, key, size) == 0:
                node.cursor = self._nodes[field].sibling
                if node.cursor < 0:
                    node.cursor = node.child
                return field
            field = self._nodes[field].sibling
            if field < 0:
                field = node.child
            if field == start:
                return -1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _list(self, n: cython.int) -> cython.int:
        node: cython.pointer[Node] = cython.address(self._nodes[n])
        found: cython.int
        self._p += 1
        self._blank()
        if self._p < self._end and self._p[0] == ord("]"):
            self._p += 1
        else:
            while True:
                found = self._value(node.child)
                if found:
                    return found
                found = self._next(ord("]"))
                if found == _LEFT:
                    return _LEFT
                if found == 2:
                    break
        return self._ended(node)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _ended(self, node: cython.pointer[Node]) -> cython.int:
        """The items of a list or a map are all there."""
        total: int64_t = self._nodes[node.child].rows
        if total > _INT32_MAX:
            return _LEFT
        if self._room(node):
            return _NO_MEMORY
        node.offsets[node.rows + 1] = cython.cast(int32_t, total)
        return self._done(node)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _map(self, n: cython.int) -> cython.int:
        node: cython.pointer[Node] = cython.address(self._nodes[n])
        keys: cython.pointer[Node] = cython.address(self._nodes[node.child])
        first: int64_t = keys.rows
        found: cython.int
        size: cython.Py_ssize_t
        self._p += 1
        self._blank()
        if self._p < self._end and self._p[0] == ord("}"):
            self._p += 1
            return self._ended(node)
        while True:
            size = self._key()
            if size < 0 or keys.rows - first >= _KEYS or self._repeated(keys, first, self._p, size):
                return _LEFT
            if self._room(keys):
                return _NO_MEMORY
            found = self._copied(keys, self._p, size)
            if found:
                return found
            self._p += size + 1
            self._blank()
            if self._p >= self._end or self._p[0] != ord(":"):
                return _LEFT
            self._p += 1
            found = self._value(keys.sibling)
            if found:
                return found
            found = self._next(ord("}"))
            if found == _LEFT:
                return _LEFT
            if found == 2:
                return self._ended(node)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _repeated(
        self, keys: cython.pointer[Node], first: int64_t, key: cython.p_uchar, size: cython.Py_ssize_t
    ) -> cython.bint:
        """Whether a map has a key already."""
        row: int64_t
        for row in range(first, keys.rows):
            if (
                keys.offsets[row + 1] - keys.offsets[row] == size
                and memcmp(keys.data + keys.offsets[row], key, size) == 0
            ):
                return True
        return False

    @cython.cfunc
    @cython.exceptval(check=False)
    def _skip(self, depth: cython.int) -> cython.int:
        """Step over a value that no column wants."""
        number: Number
        size: cython.Py_ssize_t
        found: cython.int
        self._blank()
        if self._p >= self._end or depth >= _DEEP:
            return _LEFT
        c: cython.uchar = self._p[0]
        if c == ord('"'):
            return self._skip_text()
        if c == ord("t"):
            return 0 if self._word(b"true", 4) else _LEFT
        if c == ord("f"):
            return 0 if self._word(b"false", 5) else _LEFT
        if c == ord("n"):
            return 0 if self._word(b"null", 4) else _LEFT
        if c != ord("{") and c != ord("["):
            return self._number(cython.address(number))
        self._p += 1
        self._blank()
        if self._p < self._end and self._p[0] == c + 2:  # the closing one
            self._p += 1
            return 0
        while True:
            if c == ord("{"):
                size = self._key()
                if size < 0:
                    return _LEFT
                self._p += size + 1
                self._blank()
                if self._p >= self._end or self._p[0] != ord(":"):
                    return _LEFT
                self._p += 1
            found = self._skip(depth + 1)
            if found:
                return found
            found = self._next(c + 2)
            if found == _LEFT:
                return _LEFT
            if found == 2:
                return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _skip_text(self) -> cython.int:
        q: cython.p_uchar = self._p + 1
        code: cython.int
        while q < self._end and q[0] != ord('"'):
            if q[0] < 0x20:
                return _LEFT
            if q[0] == ord("\\"):
                q += 1
                if q >= self._end:
                    return _LEFT
                if q[0] == ord("u"):
                    code = _hex4(q + 1, self._end)
                    if code < 0 or 0xD800 <= code < 0xE000:
                        return _LEFT
                    q += 4
                elif _escaped(q[0]) == 0:
                    return _LEFT
            q += 1
        if q >= self._end:
            return _LEFT
        self._p = q + 1
        return 0

    # Texts

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _copied(self, node: cython.pointer[Node], start: cython.p_uchar, size: cython.Py_ssize_t) -> cython.int:
        """Add a text; there is room for the row."""
        found: cython.int = self._data_room(node, size)
        if found:
            return found
        memcpy(node.data + node.used, start, size)
        node.used += size
        node.offsets[node.rows + 1] = cython.cast(int32_t, node.used)
        return self._done(node)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _text(self, node: cython.pointer[Node]) -> cython.int:
        start: cython.p_uchar = self._p + 1
        q: cython.p_uchar = start
        while q < self._end and q[0] != ord('"') and q[0] != ord("\\") and q[0] >= 0x20:
            q += 1
        if q >= self._end or q[0] < 0x20:
            return _LEFT
        if q[0] == ord("\\"):
            return self._unescaped(node, start)
        self._p = q + 1
        return self._copied(node, start, q - start)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _unescaped(self, node: cython.pointer[Node], q: cython.p_uchar) -> cython.int:
        found: cython.int = self._data_room(node, self._end - q)  # a text is never longer than how it was written
        if found:
            return found
        out: cython.p_uchar = node.data + node.used
        code: cython.int
        low: cython.int
        while q < self._end and q[0] != ord('"'):
            if q[0] < 0x20:
                return _LEFT
            if q[0] != ord("\\"):
                out[0] = q[0]
                out += 1
                q += 1
                continue
            q += 1
            if q >= self._end:
                return _LEFT
            if q[0] != ord("u"):
                code = _escaped(q[0])
                if code == 0:
                    return _LEFT
                q += 1
            else:
                code = _hex4(q + 1, self._end)
                q += 5
                if code < 0 or 0xDC00 <= code < 0xE000:
                    return _LEFT
                if 0xD800 <= code < 0xDC00:
                    if self._end - q < 6 or q[0] != ord("\\") or q[1] != ord("u"):
                        return _LEFT
                    low = _hex4(q + 2, self._end)
                    if low < 0xDC00 or low >= 0xE000:
                        return _LEFT
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    q += 6
            out = _put_utf8(out, code)
        if q >= self._end:
            return _LEFT
        self._p = q + 1
        node.used = out - node.data
        node.offsets[node.rows + 1] = cython.cast(int32_t, node.used)
        return self._done(node)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _written(self, node: cython.pointer[Node]) -> cython.int:
        """A text of a number or a boolean, as it is written."""
        number: Number
        start: cython.p_uchar = self._p
        if start[0] == ord("t") or start[0] == ord("f"):
            if not (self._word(b"true", 4) or self._word(b"false", 5)):
                return _LEFT
        elif self._number(cython.address(number)) or (number.negative and number.digits == 0):
            return _LEFT
        return self._copied(node, start, self._p - start)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _base64(self, node: cython.pointer[Node]) -> cython.int:
        q: cython.p_uchar = self._p + 1
        start: cython.p_uchar = q
        bits: uint32_t = 0
        six: cython.int
        while q < self._end and q[0] != ord('"'):
            q += 1
        size: cython.Py_ssize_t = q - start
        if q >= self._end or size & 3:
            return _LEFT
        padding: cython.int = 0
        if size and start[size - 1] == ord("="):
            padding = 2 if start[size - 2] == ord("=") else 1
        found: cython.int = self._data_room(node, size)
        if found:
            return found
        out: cython.p_uchar = node.data + node.used
        i: cython.Py_ssize_t
        for i in range(size):
            six = 0 if i >= size - padding else _six(start[i])
            if six < 0:
                return _LEFT
            bits = bits << 6 | six
            if i & 3 == 3:
                out[0], out[1], out[2] = bits >> 16 & 255, bits >> 8 & 255, bits & 255
                out += 3
        if (padding == 1 and bits & 255) or (padding == 2 and bits & 65535):
            return _LEFT  # bits that belong to no byte
        self._p = q + 1
        node.used = out - node.data - padding
        node.offsets[node.rows + 1] = cython.cast(int32_t, node.used)
        return self._done(node)

    # Numbers

    @cython.cfunc
    @cython.exceptval(check=False)
    def _number(self, number: cython.pointer[Number]) -> cython.int:
        """Step over a number, as JSON has it, with something behind it that ends it."""
        q: cython.p_uchar = self._p
        end: cython.p_uchar = self._end
        begin: cython.p_uchar
        digits: uint64_t = 0
        count: cython.int = 0
        exponent: cython.int = 0
        given: cython.int = 0
        minus: cython.bint = False
        if end - q > _LONG:
            end = q + _LONG
        number.whole = True
        number.negative = q < end and q[0] == ord("-")
        if number.negative:
            q += 1
        if q >= end or not (ord("0") <= q[0] <= ord("9")):
            return _LEFT
        if q[0] == ord("0"):
            q += 1
        else:
            while q < end and ord("0") <= q[0] <= ord("9"):
                count += 1
                if count <= 19:
                    digits = digits * 10 + (q[0] - ord("0"))
                else:
                    exponent += 1
                q += 1
        if q < end and q[0] == ord("."):
            number.whole = False
            q += 1
            begin = q
            while q < end and ord("0") <= q[0] <= ord("9"):
                if digits or q[0] != ord("0"):
                    count += 1
                if count <= 19:
                    digits = digits * 10 + (q[0] - ord("0"))
                    exponent -= 1
                q += 1
            if q == begin:
                return _LEFT
        if q < end and (q[0] == ord("e") or q[0] == ord("E")):
            number.whole = False
            q += 1
            if q < end and (q[0] == ord("+") or q[0] == ord("-")):
                minus = q[0] == ord("-")
                q += 1
            begin = q
            while q < end and ord("0") <= q[0] <= ord("9"):
                given = given * 10 + (q[0] - ord("0"))
                q += 1
                if q - begin > 5:
                    return _LEFT
            if q == begin:
                return _LEFT
            exponent += -given if minus else given
        if q >= end or not (
            q[0] == ord(",") or q[0] == ord("}") or q[0] == ord("]") or q[0] == 0x20 or 0x09 <= q[0] <= 0x0D
        ):
            return _LEFT
        number.digits, number.count, number.exponent = digits, count, exponent
        self._p = q
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _integer(self, node: cython.pointer[Node]) -> cython.int:
        number: Number
        if self._number(cython.address(number)) or not number.whole or number.count > 19:
            return _LEFT
        most: uint64_t = (cython.cast(uint64_t, 1) << (8 * node.width - 1)) - 1
        if number.digits > most + (1 if number.negative else 0) or (number.negative and number.digits == 0):
            return _LEFT
        value: int64_t = cython.cast(int64_t, 0 - number.digits if number.negative else number.digits)
        memcpy(node.data + node.rows * node.width, cython.address(value), node.width)  # the low bytes come first
        return self._done(node)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _double(self, node: cython.pointer[Node]) -> cython.int:
        number: Number
        start: cython.p_uchar = self._p
        rest: cython.p_char = cython.NULL
        value: cython.double
        if self._number(cython.address(number)) or (number.negative and number.digits == 0):
            return _LEFT
        if number.count <= 19 and number.digits <= _EXACT and -22 <= number.exponent <= 22:
            # Both are exact, so their product or quotient is rounded once.
            value = cython.cast(cython.double, cython.cast(int64_t, number.digits))
            if number.exponent < 0:
                value /= _TENS[-number.exponent]
            else:
                value *= _TENS[number.exponent]
            if number.negative:
                value = -value
        else:
            value = string_to_double(cython.cast(cython.p_char, start), cython.address(rest), cython.NULL)
        if node.kind == _DOUBLE:
            cython.cast(cython.pointer[cython.double], node.data)[node.rows] = value
        else:
            cython.cast(cython.pointer[cython.float], node.data)[node.rows] = cython.cast(cython.float, value)
        return self._done(node)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _decimal(self, node: cython.pointer[Node]) -> cython.int:
        number: Number
        if self._number(cython.address(number)) or number.count > 18:
            return _LEFT
        shift: cython.int = number.exponent + node.scale
        if shift < 0 or shift + number.count > 18 or (number.negative and number.digits == 0):
            return _LEFT
        digits: uint64_t = number.digits * _POWERS[shift]
        if node.precision < 19 and digits >= _POWERS[node.precision]:
            return _LEFT
        place: cython.pointer[int64_t] = cython.cast(cython.pointer[int64_t], node.data) + 2 * node.rows
        place[0] = cython.cast(int64_t, 0 - digits if number.negative else digits)
        place[1] = -1 if number.negative else 0
        return self._done(node)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _boolean(self, node: cython.pointer[Node]) -> cython.int:
        if self._word(b"true", 4):
            node.data[node.rows] = 1
        elif self._word(b"false", 5):
            node.data[node.rows] = 0
        else:
            return _LEFT
        return self._done(node)

    # Times

    @cython.cfunc
    @cython.exceptval(check=False)
    def _seconds(self, node: cython.pointer[Node]) -> cython.int:
        number: Number
        if self._number(cython.address(number)) or not number.whole or number.count > 11:
            return _LEFT
        most: uint64_t = 62135596800 if number.negative else 253402300799
        if number.digits > most or (number.negative and number.digits == 0):
            return _LEFT
        value: int64_t = cython.cast(int64_t, number.digits) * 1000000
        cython.cast(cython.pointer[int64_t], node.data)[node.rows] = -value if number.negative else value
        return self._done(node)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _time(self, node: cython.pointer[Node]) -> cython.int:
        """A date, or a date and a time of day, in the form that most write them in."""
        q: cython.p_uchar = self._p + 1
        end: cython.p_uchar = self._end
        if end - q < 11 or q[4] != ord("-") or q[7] != ord("-"):
            return _LEFT
        year: cython.int = _two(q) * 100 + _two(q + 2)
        month: cython.int = _two(q + 5)
        day: cython.int = _two(q + 8)
        if _two(q) < 0 or _two(q + 2) < 0 or year < 1 or month < 1 or month > 12 or day < 1:
            return _LEFT
        if day > _month_days(year, month):
            return _LEFT
        days: int64_t = _days(year, month, day)
        q += 10
        if node.kind == _DATE:
            if q[0] != ord('"'):
                return _LEFT
            self._p = q + 1
            cython.cast(cython.pointer[int32_t], node.data)[node.rows] = cython.cast(int32_t, days)
            return self._done(node)
        if end - q < 10 or not (q[0] == ord("T") or q[0] == 0x20) or q[3] != ord(":") or q[6] != ord(":"):
            return _LEFT
        hour: cython.int = _two(q + 1)
        minute: cython.int = _two(q + 4)
        second: cython.int = _two(q + 7)
        if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
            return _LEFT
        q += 9
        micros: int64_t = 0
        unit: int64_t = 1000000
        if q[0] == ord("."):
            q += 1
            while q < end and ord("0") <= q[0] <= ord("9"):
                if unit == 1:
                    return _LEFT
                unit //= 10
                micros += (q[0] - ord("0")) * unit
                q += 1
            if unit == 1000000 or q >= end:
                return _LEFT
        away: cython.int = 0
        if q[0] != ord('"'):
            if node.kind == _LOCAL_MOMENT:
                return _LEFT
            if q[0] == ord("Z"):
                q += 1
            elif q[0] == ord("+") or q[0] == ord("-"):
                if end - q < 7 or q[3] != ord(":") or year == 1 or year == 9999:
                    return _LEFT
                if _two(q + 1) < 0 or _two(q + 1) > 17 or _two(q + 4) < 0 or _two(q + 4) > 59:
                    return _LEFT
                away = _two(q + 1) * 3600 + _two(q + 4) * 60
                if q[0] == ord("-"):
                    away = -away
                q += 6
            if q >= end or q[0] != ord('"'):
                return _LEFT
        self._p = q + 1
        seconds: int64_t = days * 86400 + hour * 3600 + minute * 60 + second - away
        cython.cast(cython.pointer[int64_t], node.data)[node.rows] = seconds * 1000000 + micros
        return self._done(node)


@cython.cfunc
def _packed(flags: cython.p_uchar, rows: int64_t):
    """A bit for each byte."""
    packed: bytes = PyBytes_FromStringAndSize(cython.NULL, (rows + 7) >> 3)
    out: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(packed))
    i: int64_t
    memset(out, 0, (rows + 7) >> 3)
    for i in range(rows):
        out[i >> 3] |= (flags[i] & 1) << (i & 7)
    return packed


@cython.cfunc
@cython.exceptval(check=False)
def _is_text(p: cython.p_uchar, end: cython.p_uchar) -> cython.bint:
    """Whether bytes are UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF."""
    word: uint64_t
    c: cython.uchar
    more: cython.int
    low: cython.uchar
    high: cython.uchar
    while p < end:
        if end - p >= 8:
            memcpy(cython.address(word), p, 8)
            if not word & _NOT_ASCII:
                p += 8
                continue
        c = p[0]
        p += 1
        if c < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= c < 0xE0:
            more = 1
        elif 0xE0 <= c < 0xF0:
            more = 2
            if c == 0xE0:
                low = 0xA0
            elif c == 0xED:
                high = 0x9F
        elif 0xF0 <= c < 0xF5:
            more = 3
            if c == 0xF0:
                low = 0x90
            elif c == 0xF4:
                high = 0x8F
        else:
            return False
        if end - p < more or not (low <= p[0] <= high):
            return False
        p += 1
        while more > 1:
            if p[0] & 0xC0 != 0x80:
                return False
            p += 1
            more -= 1
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _hex4(p: cython.p_uchar, end: cython.p_uchar) -> cython.int:
    """Four hexadecimal digits, -1 if they are none."""
    code: cython.int = 0
    i: cython.int
    c: cython.uchar
    if end - p < 4:
        return -1
    for i in range(4):
        c = p[i]
        if ord("0") <= c <= ord("9"):
            code = code * 16 + c - ord("0")
        elif ord("a") <= c | 0x20 <= ord("f"):
            code = code * 16 + (c | 0x20) - ord("a") + 10
        else:
            return -1
    return code


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _escaped(c: cython.uchar) -> cython.int:
    """What a character behind a backslash stands for, 0 if for nothing."""
    if c == ord('"') or c == ord("\\") or c == ord("/"):
        return c
    if c == ord("n"):
        return 10
    if c == ord("t"):
        return 9
    if c == ord("r"):
        return 13
    if c == ord("b"):
        return 8
    if c == ord("f"):
        return 12
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_utf8(out: cython.p_uchar, code: cython.int) -> cython.p_uchar:
    if code < 0x80:
        out[0] = code
        return out + 1
    if code < 0x800:
        out[0], out[1] = 0xC0 | code >> 6, 0x80 | code & 63
        return out + 2
    if code < 0x10000:
        out[0], out[1], out[2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 63, 0x80 | code & 63
        return out + 3
    out[0], out[1] = 0xF0 | code >> 18, 0x80 | code >> 12 & 63
    out[2], out[3] = 0x80 | code >> 6 & 63, 0x80 | code & 63
    return out + 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _six(c: cython.uchar) -> cython.int:
    """The bits of a character of base64, -1 if it is none."""
    if ord("A") <= c <= ord("Z"):
        return c - ord("A")
    if ord("a") <= c <= ord("z"):
        return c - ord("a") + 26
    if ord("0") <= c <= ord("9"):
        return c - ord("0") + 52
    return 62 if c == ord("+") else 63 if c == ord("/") else -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _two(p: cython.p_uchar) -> cython.int:
    """Two digits, far below zero if they are none."""
    if p[0] < ord("0") or p[0] > ord("9") or p[1] < ord("0") or p[1] > ord("9"):
        return -100000
    return (p[0] - ord("0")) * 10 + (p[1] - ord("0"))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _month_days(year: cython.int, month: cython.int) -> cython.int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _days(year: cython.int, month: cython.int, day: cython.int) -> int64_t:
    """Days since 1970, by years that begin in March and have their leap day at the end."""
    y: cython.int = year - (1 if month <= 2 else 0)
    m: cython.int = month + (9 if month <= 2 else -3)
    return cython.cast(int64_t, 365) * y + y // 4 - y // 100 + y // 400 + (153 * m + 2) // 5 + day - 1 - 719468
