"""A topic whose schema evolves under a pipeline that is killed in between: tables get the columns, each record once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.scale import rounds

from kavka.spark.lake.iceberg import Iceberg
from kavka.spark.pipelines.spec import load
from kavka.testing import Cluster

with warnings.catch_warnings():  # its HTTP library says that it will have another name
    warnings.simplefilter("ignore")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.error import SchemaRegistryError

pytestmark = pytest.mark.timeout(rounds(7200, 1800))

ROWS: Final = rounds(20_000, 400)
KILLS: Final = rounds(5, 1)
AT_ONCE: Final = ROWS // rounds(20, 4)
SPEC: Final = """
bootstrap: {bootstrap}
registry: {registry}
flows:
  - name: delta
    source: {{topic: {topic}, format: avro, options: {{maxOffsetsPerTrigger: {at_once}}}}}
    sink: {{table: {{format: delta, path: delta}}}}
  - name: iceberg
    source: {{topic: {topic}, format: avro, options: {{maxOffsetsPerTrigger: {at_once}}}}}
    sink: {{table: {{format: iceberg, path: iceberg}}}}
"""


@pytest.fixture
def confluent(node: Cluster) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.registry}) as client:
        yield client


def schema(*fields: Any) -> str:
    named = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": named})


class Shop:
    """Sends orders by a version of their schema, and knows what a table has to have of them."""

    def __init__(self, node: Cluster, registry: SchemaRegistryClient, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": node.bootstrap})
        self._registry = registry
        self._topic = topic
        self.expected: list[tuple[Any, ...]] = []

    def sell(self, text: str, count: int, more: dict[str, Any], shown: tuple[Any, ...]) -> None:
        write = AvroSerializer(self._registry, text)
        context = SerializationContext(self._topic, MessageField.VALUE)
        for _ in range(count):
            id_ = len(self.expected)
            value = write({"id": id_, "amount": id_ / 2, **more}, context)
            self._producer.produce(self._topic, value, str(id_), on_delivery=_taken)
            self.expected.append((id_, id_ / 2, *shown))
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def refused(self, value: bytes) -> int:
        """The error with which the topic refuses a value."""
        errors: list[Any] = []
        self._producer.produce(self._topic, value, on_delivery=lambda error, _: errors.append(error))
        assert self._producer.flush(60) == 0
        code: int = errors[0].code()
        return code


def _taken(error: Any, _: Any) -> None:
    assert error is None


def read(folder: Path) -> dict[str, int]:
    """By flow, how many records are in the batches that it has committed."""
    pipeline = load(folder)
    found = {}
    for flow in pipeline.flows:
        place = Path(pipeline.checkpoint_of(flow))
        done = [int(each.name) for each in (place / "commits").glob("[0-9]*")]
        text = (place / "offsets" / str(max(done))).read_text().splitlines()[-1] if done else "{}"
        parts = [ends for topic, ends in json.loads(text).items() if not topic.startswith("@")]
        found[flow.name] = sum(sum(ends.values()) for ends in parts)
    return found


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "kavka", "pipeline", "run", str(folder), "--master", "local[2]", *more]


def killed(folder: Path, count: int) -> None:
    """Run the pipeline, and kill it when each flow has written something of what was left of so many records."""
    before = read(folder)
    # A process group of its own, so that its JVM and Python workers die with it.
    driver = subprocess.Popen(command(folder), start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 900
        while any(now == before[flow] < count for flow, now in read(folder).items()):
            assert driver.poll() is None, "the pipeline ended by itself"
            assert time.monotonic() < deadline, "the pipeline makes no progress"
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def finished(folder: Path) -> None:
    done = subprocess.run(command(folder, "--once"), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if "Error" in line)[:3000]


def tables(folder: Path) -> dict[str, pa.Table]:
    from deltalake import DeltaTable

    found: dict[str, pa.Table] = {}
    for flow in load(folder).flows:
        spec = flow.sink.table
        assert spec is not None
        if spec.format == "delta":
            found[flow.name] = pa.table(DeltaTable(spec.path).to_pyarrow_table())
        else:
            opened = Iceberg(spec)._open()
            assert opened is not None
            found[flow.name] = opened.scan().to_arrow()
    return found


def test_tables_follow_a_schema_that_evolves_while_drivers_are_killed(
    node: Cluster, confluent: SchemaRegistryClient, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=2, confluent_value_schema_validation="true")
    text = SPEC.format(bootstrap=node.bootstrap, registry=node.registry, topic=name, at_once=AT_ONCE)
    (tmp_path / "pipeline.yaml").write_text(text)
    shop = Shop(node, confluent, name)
    first = schema(("id", "long"), ("amount", "double"))
    added = schema(("id", "long"), ("amount", "double"), ("note", "string", "none"))
    other_default = schema(("id", "long"), ("amount", "double"), ("note", "string", "new"))

    def lands() -> None:
        for _ in range(KILLS):
            killed(tmp_path, len(shop.expected))
        finished(tmp_path)

    shop.sell(first, ROWS, {}, (None,))  # there was no such column yet
    lands()
    shop.sell(added, ROWS, {"note": "n"}, ("n",))
    shop.sell(first, ROWS, {}, ("none",))
    lands()
    shop.sell(other_default, ROWS, {"note": "m"}, ("m",))
    shop.sell(first, ROWS, {}, ("new",))
    lands()
    with pytest.raises(SchemaRegistryError) as error:
        shop.sell(schema(("id", "string"), ("amount", "double")), 1, {}, ())
    assert error.value.http_status_code == 409
    assert shop.refused(b"\0\xff\xff\xff\xff an attempt without the registry") == KafkaError.INVALID_RECORD
    shop.sell(other_default, ROWS, {"note": "last"}, ("last",))
    lands()

    types = {"id": pa.int64(), "amount": pa.float64(), "note": pa.string()}
    for form, table in tables(tmp_path).items():
        rows = sorted(tuple(row[column] for column in types) for row in table.select(list(types)).to_pylist())
        assert rows == shop.expected, form
        assert {column: _plain(table.schema.field(column).type) for column in types} == types, form


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(kind) else kind
