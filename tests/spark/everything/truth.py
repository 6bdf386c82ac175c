"""What the tables of a round must hold, by DuckDB: of the journal by SQL, and of the tables by its own readers."""

from __future__ import annotations

import importlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
from tests.spark.everything.producing import Written

EVENTS = """
    SELECT "partition" AS part, "offset" AS place, "key" AS who, (document->>'id')::BIGINT AS id,
        document->>'name' AS name, (document->>'amount')::DOUBLE AS amount, document->>'extra' AS extra
    FROM journal WHERE topic = '{topic}' AND NOT malformed AND (committed OR NOT {committed_only})
"""
PRICES = """
    SELECT "key" AS sku, (document->>'price')::DOUBLE AS price, (document->>'number')::BIGINT AS number, "offset"
    FROM (SELECT *, max("offset") OVER (PARTITION BY "partition", "key") AS last FROM journal
        WHERE topic = '{topic}' AND committed)
    WHERE "offset" = last AND document IS NOT NULL
"""
"""The latest of each key, which stays in one partition; a tombstone is nothing."""


class Truth:
    """The journal of a round as a DuckDB table, and everything else beside it."""

    def __init__(self, written: Sequence[Written]) -> None:
        self._db = duckdb.connect()
        for name in ("avro", "delta", "iceberg"):
            module = importlib.import_module(f"duckdb_extension_{name}")
            assert module.__file__ is not None
            folder = Path(module.__file__).parent / "extensions" / f"v{duckdb.__version__}"
            self._db.execute(f"LOAD '{folder / f'{name}.duckdb_extension'}'")
        self._db.execute(
            'CREATE TABLE journal (topic TEXT, "partition" INT, "offset" BIGINT, "key" TEXT, value BLOB, '
            "document TEXT, malformed BOOL, committed BOOL)"
        )
        self._fill(
            "journal",
            [
                (
                    each.topic,
                    each.partition,
                    each.offset,
                    each.key,
                    each.value,
                    each.document,
                    each.malformed,
                    each.committed,
                )
                for each in written
            ],
        )

    def _fill(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            self._db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def wrong(self, expected: str, actual: str) -> list[str]:
        """The rows that one of two queries has and the other has not, or not as often; none if they are equal."""
        names = [column[0] for column in self._db.execute(f"DESCRIBE {expected}").fetchall()]
        mine = ", ".join(f'"{name}"' for name in names)
        said = []
        for label, left, right in (("missing", expected, actual), ("too many", actual, expected)):
            sql = f"SELECT {mine} FROM ({left}) EXCEPT ALL SELECT {mine} FROM ({right})"
            rows = self._db.execute(f"SELECT * FROM ({sql}) ORDER BY ALL").fetchall()
            if rows:
                said.append(f"{label}: {len(rows)} rows, such as {rows[:3]}")
        return said

    def rows(self, query: str) -> int:
        """How many rows a query has."""
        found = self._db.execute(f"SELECT count(*) FROM ({query})").fetchone()
        assert found is not None
        return int(found[0])

    def messages(self, table: str, found: Sequence[Any]) -> str:
        """What a topic has, as a table of places and values."""
        self._db.execute(f'CREATE OR REPLACE TABLE {table} ("partition" INT, "offset" BIGINT, "key" TEXT, value BLOB)')
        self._fill(
            table,
            [(each.partition(), each.offset(), (each.key() or b"").decode(), each.value()) for each in found],
        )
        return table

    def rows_of_messages(self, table: str, found: Sequence[Any], *, extra: bool) -> str:
        """The rows that a topic has as JSON, as a query."""
        documents = [json.loads(each.value()) for each in found]
        self._db.execute(
            f"CREATE OR REPLACE TABLE {table} (part INT, place BIGINT, who TEXT, id BIGINT, name TEXT, "
            "amount DOUBLE, extra TEXT)"
        )
        names = ("part", "place", "who", "id", "name", "amount", *(("extra",) if extra else ()))
        self._fill(table, [(*(each.get(name) for name in names), *(() if extra else (None,))) for each in documents])
        return f"SELECT * FROM {table}"

    def letters(self, table: str, found: Sequence[Any]) -> str:
        """The records that dead letters are of, each once however often it was written, as a query."""
        self._db.execute(f'CREATE OR REPLACE TABLE {table} ("partition" INT, "offset" BIGINT, "key" TEXT, value BLOB)')
        rows = set()
        for each in found:
            headers = dict(each.headers() or ())
            place = int(headers["kavka.partition"]), int(headers["kavka.offset"])
            rows.add((*place, (each.key() or b"").decode(), each.value()))
        self._fill(table, sorted(rows, key=repr))
        return f"SELECT * FROM {table}"


def lake(form: str, folder: Path) -> str:
    """A table, for DuckDB to read."""
    if form == "delta":
        return f"delta_scan('{folder}')"
    with sqlite3.connect(folder / "catalog.db") as catalog:
        (location,) = catalog.execute("SELECT metadata_location FROM iceberg_tables").fetchone()
    catalog.close()
    return f"iceberg_scan('{location.removeprefix('file://')}')"
