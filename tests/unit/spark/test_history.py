"""Every version of a row: what a dictionary of timelines says, whatever order changes come in."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kavka.spark.lake import TableSpec, open_table
from kavka.spark.lake.history import CURRENT, FROM, TO
from kavka.spark.lake.iceberg import Iceberg
from kavka.spark.lake.upsert import DELETED, Upsert
from kavka.spark.pipelines.spec import SpecError, parse

FORMATS = ("delta", "iceberg")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("part", pa.string()),
        pa.field("text", pa.string()),
        pa.field("tags", pa.list_(pa.field("element", pa.string()))),
        pa.field("_offset", pa.int64()),
        pa.field(FROM, pa.int64()),
        pa.field(TO, pa.int64()),
        pa.field(CURRENT, pa.bool_()),
    ]
)
Change = tuple[int, str, str | None, int]
"""id, part, text (None: deleted), offset"""


def spec_of(form: Any, folder: Path) -> TableSpec:
    return TableSpec(str(folder), form, upsert=Upsert(("id", "part"), history=True))


def put(spec: TableSpec, batch: int, *changes: Change, schema: Any = SCHEMA, **more: Any) -> int:
    table = open_table(spec)
    folder = table.staging("query", batch)
    Path(folder).mkdir(parents=True)
    rows = [
        {"id": id_, "part": part, "text": text, "tags": [text], "_offset": at, FROM: at, CURRENT: True, **more}
        | {DELETED: text is None}
        for id_, part, text, at in changes
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema.append(pa.field(DELETED, pa.bool_()))), f"{folder}/0.parquet")
    return table.commit("query", batch, folder, table.check(schema))


def content(spec: TableSpec, *more: str) -> list[tuple[Any, ...]]:
    if spec.format == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(spec.path).to_pyarrow_table()
    else:
        opened = Iceberg(spec)._open()
        assert opened is not None
        found = opened.scan().to_arrow()
    assert DELETED not in found.column_names
    names = ("id", "part", FROM, TO, CURRENT, "text", *more)
    return sorted(tuple(row[name] for name in names) for row in found.to_pylist())


@pytest.mark.parametrize("form", FORMATS)
def test_versions_end_where_the_next_change_is(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path)
    put(spec, 0, (1, "a", "one", 0), (2, "a", "two", 1), (1, "a", "uno", 2))
    put(spec, 1, (2, "a", None, 3), (3, "a", "three", 4), (1, "a", "eins", 9))
    put(spec, 2, (1, "a", "late", 5), (2, "a", "again", 7), (4, "a", None, 8))
    assert content(spec) == [
        (1, "a", 0, 2, False, "one"),
        (1, "a", 2, 5, False, "uno"),
        (1, "a", 5, 9, False, "late"),
        (1, "a", 9, None, True, "eins"),
        (2, "a", 1, 3, False, "two"),
        (2, "a", 7, None, True, "again"),
        (3, "a", 4, None, True, "three"),
        (4, "a", 8, 8, False, None),
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_a_deletion_that_ends_no_version_ends_the_one_that_comes_late(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path)
    put(spec, 0, (1, "a", "one", 0), (1, "a", None, 9), (2, "a", None, 7))
    put(spec, 1, (1, "a", None, 5), (2, "a", None, 9))
    assert content(spec, "_offset") == [
        (1, "a", 0, 5, False, "one", 0),
        (1, "a", 9, 9, False, None, 9),
        (2, "a", 7, 7, False, None, 7),
        (2, "a", 9, 9, False, None, 9),
    ]
    put(spec, 2, (1, "a", "late", 6), (2, "a", "late", 6), (2, "a", "later", 8))
    assert content(spec) == [
        (1, "a", 0, 5, False, "one"),
        (1, "a", 6, 9, False, "late"),
        (2, "a", 6, 7, False, "late"),
        (2, "a", 8, 9, False, "later"),
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_a_batch_that_comes_again_changes_nothing(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path)
    put(spec, 0, (1, "a", "one", 0))
    put(spec, 1, (1, "a", None, 0))  # a deletion at the very place of a version
    assert content(spec) == [(1, "a", 0, 0, False, None)]
    assert put(spec, 0, (1, "a", "one", 0)) == 0
    assert content(spec) == [(1, "a", 0, 0, False, None)]


@pytest.mark.parametrize("form", FORMATS)
def test_new_columns_come_to_versions_too(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path)
    put(spec, 0, (1, "a", "one", 0), (2, "a", "two", 1))
    put(spec, 1, (1, "a", "uno", 2), schema=SCHEMA.append(pa.field("more", pa.int64())), more=7)
    put(spec, 2, (1, "a", "eins", 3))
    assert content(spec, "more", "tags") == [
        (1, "a", 0, 2, False, "one", None, ["one"]),
        (1, "a", 2, 3, False, "uno", 7, ["uno"]),
        (1, "a", 3, None, True, "eins", None, ["eins"]),
        (2, "a", 1, None, True, "two", None, ["two"]),
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_random_changes_in_any_order_leave_the_timelines_that_they_tell_of(form: Any, tmp_path: Path) -> None:
    draw = random.Random(7)
    spec = spec_of(form, tmp_path)
    truth: dict[tuple[int, str], dict[int, str | None]] = {}
    places = draw.sample(range(1000), 80)
    for batch in range(5):
        changes: list[Change] = []
        for _ in range(16):
            key = (draw.randrange(4), draw.choice("ab"))
            place = places.pop()
            text = None if draw.random() < 0.25 else f"text {place}"
            changes.append((*key, text, place))
            truth.setdefault(key, {})[place] = text
        put(spec, batch, *changes)
        expected: list[tuple[Any, ...]] = []
        for (id_, part), line in truth.items():
            ordered = sorted(line)
            for before, place, after in zip([None, *ordered], ordered, [*ordered[1:], None], strict=False):
                if line[place] is not None:
                    expected.append((id_, part, place, after, after is None, line[place]))
                elif before is None or line[before] is None:
                    expected.append((id_, part, place, place, False, None))
        assert sorted(content(spec), key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.decimal128(38, 3)])
def test_versions_are_found_by_keys_of_any_type(kind: Any, form: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), form, upsert=Upsert(("id",), history=True))
    schema = SCHEMA.set(0, pa.field("id", kind))
    made: dict[Any, Callable[[int], Any]] = {
        pa.string(): lambda number: f"ž{number}",
        pa.binary(): lambda number: bytes([255, number]),
        pa.decimal128(38, 3): lambda number: Decimal(f"{number}00000000000000000000.001"),
    }
    for batch in range(5):
        put(spec, batch, *((made[kind](id_), "a", "text", 10 * batch + id_) for id_ in range(1, 4)), schema=schema)
    lines = {id_: [10 * batch + id_ for batch in range(5)] for id_ in range(1, 4)}
    assert [row[:4] for row in content(spec)] == [
        (made[kind](id_), "a", place, after)
        for id_, line in lines.items()
        for place, after in zip(line, [*line[1:], None], strict=True)
    ]


def test_versions_become_wider_in_the_commit_that_brings_them(tmp_path: Path) -> None:
    spec = spec_of("iceberg", tmp_path)
    put(spec, 0, (1, "a", "one", 0), schema=SCHEMA.append(pa.field("more", pa.int32())), more=1)
    put(spec, 1, (1, "a", "uno", 1), schema=SCHEMA.append(pa.field("more", pa.int64())), more=1 << 40)
    assert content(spec, "more") == [(1, "a", 0, 1, False, "one", 1), (1, "a", 1, None, True, "uno", 1 << 40)]


def test_a_spec_asks_for_history(tmp_path: Path) -> None:
    def table(**upsert: Any) -> Any:
        flow = {"name": "f", "source": {"topic": "t"}, "sink": {"table": {"path": "p", "upsert": upsert}}}
        return parse({"flows": [flow]}, tmp_path).flows[0].sink.table

    assert table(key=["id"], history=True).upsert == Upsert(("id",), "_offset", True)
    assert not table(key=["id"]).upsert.history
    with pytest.raises(SpecError, match="history must be true or false"):
        table(key=["id"], history="yes")
