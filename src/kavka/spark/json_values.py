"""JSON values to an Arrow struct, by the rules of Spark's `from_json` in FAILFAST; docs/spark.md has them as a table.

All the rules are here; `json_batches` reads what needs few of them, and leaves the rest to this. Values are parsed one
by one and then made into arrays column by column: a column whose items all have the type it wants costs one look at
them, and an item that does not fit spoils its own row alone.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kavka.spark.ddl import SchemaError
from kavka.spark.moments import date_from, local_moment_from, moment_from

try:
    import orjson
except ImportError:  # an executor may have nothing but what came with the job
    orjson = None  # type: ignore[assignment]

Report = Callable[[int, str], object]
Build = Callable[[list[Any], Report], Any]
Bad = list[tuple[int, str]]

_NOTHING: Final = type(None)
_NUMBERS: Final = Context(prec=200)
_INFINITE: Final = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "+INF": math.inf,
    "-Infinity": -math.inf,
    "-INF": -math.inf,
}


class _Number(float):
    """A number with a point or an exponent, and how it was written."""

    text: str

    def __new__(cls, text: str) -> _Number:
        """Made by the parser, of the text."""
        made = super().__new__(cls, text)
        made.text = text
        return made


class _InexactError(ValueError):
    """The text of a number is needed, and was not kept."""


class RowDecoder:
    """One JSON object for each value; fields that it lacks are null, those that the schema lacks are left out."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._build = _struct(kind, "")
        # The quick parser makes a float of each number that has a point; a decimal wants to see its digits.
        self._parse = _exactly if any(map(pa.types.is_decimal, _leaves(kind))) else _quickest()

    def decode(self, values: Sequence[bytes | None]) -> tuple[Any, Bad]:
        """An Arrow array with a row for each value, null where it is bad, and which are bad and why."""
        again: list[int] = []
        reasons: dict[int, str] = {}
        array = self._rows([self._quick(value, index, again) for index, value in enumerate(values)], reasons)
        again += [index for index, reason in reasons.items() if reason is _INEXACT]
        if again:
            # Only these rows are decoded a second time, and take their places in the result.
            again.sort()
            few: dict[int, str] = {}
            documents = [self._exact(values[index], index_in_few, few) for index_in_few, index in enumerate(again)]
            array = spliced(array, self._rows(documents, few), again)
            reasons = {index: reason for index, reason in reasons.items() if reason is not _INEXACT}
            reasons.update((again[index], reason) for index, reason in few.items())
        # A reason may quote what is no text, and is to be one.
        return array, sorted((row, why.encode(errors="backslashreplace").decode()) for row, why in reasons.items())

    def _rows(self, documents: list[Any], reasons: dict[int, str]) -> Any:
        array = self._build(documents, reasons.setdefault)
        if not reasons:
            return array
        return array.take(pa.array([None if row in reasons else row for row in range(len(array))], pa.int64()))

    def _quick(self, value: bytes | None, index: int, again: list[int]) -> Any:
        if value is None:
            return None
        try:
            document = self._parse(value)
        except (ValueError, RecursionError):
            again.append(index)
            return None
        return document if document is not None else _NULL

    def _exact(self, value: bytes | None, index: int, reasons: dict[int, str]) -> Any:
        assert value is not None
        try:
            document = _exactly(value)
        except (ValueError, RecursionError) as error:
            reasons[index] = f"{type(error).__name__}: {error}"[:300]
            return None
        return document if document is not None else _NULL


_INEXACT: Final = "the text of a number is needed"
_NULL: Final = object()  # JSON's null in the place of an object, which is not a record without a value


def _quickest() -> Callable[[bytes], Any]:
    return _exactly if orjson is None else orjson.loads


def _exactly(value: bytes) -> Any:
    return json.loads(value.decode(), parse_float=_Number)


def spliced(array: Any, few: Any, places: list[int]) -> Any:
    """An array with other rows in some places."""
    order = list(range(len(array)))
    for number, place in enumerate(places):
        order[place] = len(array) + number
    return pa.concat_arrays([array, few]).take(pa.array(order))


def _leaves(kind: Any) -> Iterator[Any]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(field.type)
    elif pa.types.is_list(kind):
        yield from _leaves(kind.value_type)
    elif pa.types.is_map(kind):
        yield from _leaves(kind.item_type)
    else:
        yield kind


def _builder(kind: Any, name: str) -> Build:
    if pa.types.is_struct(kind):
        return _struct(kind, name)
    if pa.types.is_list(kind):
        return _list(kind, name)
    if pa.types.is_map(kind):
        return _map(kind, name)
    if kind in _USUAL:
        return _temporal(kind, name)
    if kind not in _LEAVES and not pa.types.is_decimal(kind):
        raise SchemaError(f"there is no JSON value that column {name!r} of type {kind} could be read from")
    exact, convert = _LEAVES[kind] if kind in _LEAVES else ((), lambda item: _decimal(item, kind))
    return _leaf(kind, name, frozenset((_NOTHING, *exact)), convert)


def _leaf(kind: Any, name: str, exact: frozenset[type], convert: Callable[[Any], Any]) -> Build:
    """Items that Arrow takes as they are, if all of them have the right types; one by one if not."""

    def build(items: list[Any], report: Report) -> Any:
        if len(exact) > 1 and exact.issuperset(map(type, items)):
            try:
                return pa.array(items, kind)
            except (pa.ArrowException, ValueError, OverflowError):
                pass  # a number that is too large, a text that is none: found below
        made = list(items)
        for index, item in enumerate(items):
            if item is None:
                continue
            try:
                made[index] = convert(item)
            except _InexactError:
                made[index] = None
                report(index, _INEXACT)
            except (ValueError, OverflowError, RecursionError) as error:
                made[index] = None
                report(index, f"field {name!r}: {error}"[:300])
        return pa.array(made, kind)

    return build


def _temporal(kind: Any, name: str) -> Build:
    """Texts in the usual form are read by Arrow, all at once."""
    pattern, convert = _USUAL[kind]
    one_by_one = _leaf(kind, name, frozenset(), convert)

    def build(items: list[Any], report: Report) -> Any:
        if {str, _NOTHING}.issuperset(map(type, items)):
            try:
                texts = pa.array(items, pa.string())
                if pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
                    return texts.cast(kind)
            except (pa.ArrowException, ValueError):
                pass  # a day that the month does not have: found below
        return one_by_one(items, report)

    return build


def _struct(kind: Any, name: str) -> Build:
    fields = list(kind)
    inner = [_builder(field.type, f"{name}.{field.name}".lstrip(".")) for field in fields]

    def build(items: list[Any], report: Report) -> Any:
        objects = _of_type(dict, items, name, report)
        columns = []
        for field, make in zip(fields, inner, strict=True):
            key = field.name
            column = [None if item is None else item.get(key) for item in objects]
            if not field.nullable and None in column:
                for index, item in enumerate(column):
                    if item is None and objects[index] is not None:
                        report(index, f"field {f'{name}.{key}'.lstrip('.')!r} is missing")
            columns.append(make(column, report))
        mask = pa.array([item is None for item in objects], pa.bool_())
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)

    return build


def _list(kind: Any, name: str) -> Build:
    make = _builder(kind.value_type, f"{name}[]")

    def build(items: list[Any], report: Report) -> Any:
        arrays = _of_type(list, items, name, report)
        offsets, owners = _spread(arrays)
        flat = [item for array in arrays if array is not None for item in array]
        _need(kind.value_field, flat, f"{name}[]", owners, report)
        values = make(flat, lambda index, reason: report(owners[index], reason))
        return pa.ListArray.from_arrays(offsets, values, type=kind)

    return build


def _map(kind: Any, name: str) -> Build:
    if not pa.types.is_string(kind.key_type):
        raise SchemaError(f"the keys of JSON's objects are texts: column {name!r} is a map of {kind.key_type}")
    make = _builder(kind.item_type, f"{name}{{}}")

    def build(items: list[Any], report: Report) -> Any:
        objects = _of_type(dict, items, name, report)
        offsets, owners = _spread(objects)
        keys = _keys([key for object_ in objects if object_ is not None for key in object_], owners, report)
        flat = [item for object_ in objects if object_ is not None for item in object_.values()]
        _need(kind.item_field, flat, f"{name}{{}}", owners, report)
        values = make(flat, lambda index, reason: report(owners[index], reason))
        return pa.MapArray.from_arrays(offsets, keys, values, type=kind)

    return build


def _need(field: Any, items: list[Any], name: str, owners: list[int], report: Report) -> None:
    """Tell of what is null and must not be."""
    if not field.nullable and None in items:
        for index, item in enumerate(items):
            if item is None:
                report(owners[index], f"field {name!r} is missing")


def _keys(keys: list[str], owners: list[int], report: Report) -> Any:
    try:
        return pa.array(keys, pa.string())
    except UnicodeEncodeError as error:
        for index, key in enumerate(keys):
            if not key.isprintable() and key.encode(errors="replace") != key.encode(errors="surrogatepass"):
                report(owners[index], f"a key is no text: {error}")
        return pa.array([key.encode(errors="replace").decode() for key in keys], pa.string())


def _of_type(wanted: type, items: list[Any], name: str, report: Report) -> list[Any]:
    """The items without those that are something else than they should be, which are told of."""
    if {wanted, _NOTHING}.issuperset(map(type, items)):
        return items
    what = "object" if wanted is dict else "array"
    checked = list(items)
    for index, item in enumerate(items):
        if item is not None and type(item) is not wanted:
            checked[index] = None
            place = f"field {name!r}: " if name else ""
            report(index, f"{place}a JSON {what} was expected, not {_said(item)}")
    return checked


def _spread(items: list[Any]) -> tuple[Any, list[int]]:
    """Where each item's content begins in that of all (None: it has none), and to which item a content belongs."""
    ends = list(accumulate((0 if item is None else len(item) for item in items), initial=0))
    starts = [None if item is None else start for item, start in zip(items, ends, strict=False)]
    owners = [index for index, item in enumerate(items) if item is not None for _ in item]
    return pa.array([*starts, ends[-1]], pa.int32()), owners


def _said(item: Any) -> str:
    """An item as it is called in a message."""
    if item is _NULL:
        return "null"
    if isinstance(item, _Number):
        return item.text
    return f"{json.dumps(item, ensure_ascii=False, default=str):.80}"


def _refuse(item: Any, wanted: str) -> ValueError:
    return ValueError(f"{_said(item)} does not fit {wanted}")


def _boolean(item: Any) -> bool:
    if type(item) is not bool:
        raise _refuse(item, "a BOOLEAN")
    return item


def _integer(bits: int) -> Callable[[Any], int]:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    wanted = {8: "a TINYINT", 16: "a SMALLINT", 32: "an INT", 64: "a BIGINT"}[bits]

    def convert(item: Any) -> int:
        if type(item) is not int or not least <= item <= most:
            raise _refuse(item, wanted)
        return item

    return convert


def _floating(item: Any) -> float:
    if isinstance(item, float):
        return float(item)
    if type(item) is int:
        try:
            return float(item)
        except OverflowError:
            return math.inf if item > 0 else -math.inf
    if type(item) is str and item in _INFINITE:
        return _INFINITE[item]
    raise _refuse(item, "a DOUBLE or a FLOAT")


def _decimal(item: Any, kind: Any) -> Decimal:
    if type(item) is str and "," in item:
        raise ValueError(f"{_said(item)} is not a DECIMAL: the comma may mean two things")
    text = item.text if type(item) is _Number else item
    if type(text) not in (str, int) or (type(text) is str and not _PLAIN.issuperset(text)):
        raise _refuse(item, f"a DECIMAL({kind.precision}, {kind.scale})")
    try:
        found = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _NUMBERS)
    except InvalidOperation:
        raise _refuse(item, f"a DECIMAL({kind.precision}, {kind.scale})") from None
    if found.adjusted() >= kind.precision - kind.scale:
        raise _refuse(item, f"a DECIMAL({kind.precision}, {kind.scale})")
    return found


_PLAIN: Final = frozenset("0123456789+-.eE")


def _text(item: Any) -> str:
    text = item if type(item) is str else _written(item)
    text.encode()  # half of a surrogate pair is no text
    return text


def _written(item: Any) -> str:
    """JSON without spaces, its numbers as they were written."""
    match item:
        case _Number():
            return item.text
        case float():
            if math.isnan(item) or math.isinf(item):
                return "NaN" if math.isnan(item) else "Infinity" if item > 0 else "-Infinity"
            raise _InexactError
        case dict():
            return "{" + ",".join(f"{_written(key)}:{_written(each)}" for key, each in item.items()) + "}"
        case list():
            return "[" + ",".join(map(_written, item)) + "]"
        case _:
            return json.dumps(item, ensure_ascii=False)


def _binary(item: Any) -> bytes:
    if type(item) is not str:
        raise _refuse(item, "a BINARY, which is a text in base64")
    try:
        return base64.b64decode(item, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{_said(item)} is not base64: {error}") from None


_LEAVES: Final[dict[Any, tuple[tuple[type, ...], Callable[[Any], Any]]]] = {
    pa.bool_(): ((bool,), _boolean),
    pa.int8(): ((int,), _integer(8)),
    pa.int16(): ((int,), _integer(16)),
    pa.int32(): ((int,), _integer(32)),
    pa.int64(): ((int,), _integer(64)),
    pa.float32(): ((float, _Number, int), _floating),
    pa.float64(): ((float, _Number, int), _floating),
    pa.string(): ((str,), _text),
    pa.binary(): ((), _binary),
}
"""For each type the Python types that Arrow turns into it as they are, and the rule for anything else."""
_USUAL_DAY: Final = r"^(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-\d\d-\d\d"
_USUAL_TIME: Final = _USUAL_DAY + r"[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?"
_USUAL: Final[dict[Any, tuple[str, Callable[[Any], Any]]]] = {
    pa.date32(): (_USUAL_DAY + "$", date_from),
    pa.timestamp("us", tz="UTC"): (_USUAL_TIME + "Z$", moment_from),
    pa.timestamp("us"): (_USUAL_TIME + "$", local_moment_from),
}
