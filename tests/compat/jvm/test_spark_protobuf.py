"""Protobuf by our reader and by Spark's own `from_protobuf`: the same rows and refusals, for random schemas and values.

Spark is asked for what our columns hold: unsigned numbers in wider types, and defaults that a writer left out.
"""

from __future__ import annotations

import base64
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from kavka.spark.ddl import SchemaError
from kavka.spark.protobuf_values import message_class
from kavka.spark.values import ProtobufDecoder

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[3] / "tools")]

pytestmark = pytest.mark.filterwarnings("ignore")

OPTIONS: Final = {"upcast.unsigned.ints": "true", "emit.default.values": "true"}
ONE, NEEDED, MANY = 1, 2, 3
STRING, MESSAGE, ENUM = 9, 11, 14
WHOLE: Final = {3: 63, 4: 64, 5: 31, 6: 31, 7: 31, 13: 32, 15: 31, 16: 63, 17: 31, 18: 63}
"""Types of whole numbers, and how many bits are drawn: `fixed32` and `fixed64` of many more are negative in Spark."""
UNSIGNED: Final = (4, 6, 7, 13)
SCALARS: Final = (1, 2, 8, STRING, 12, *WHOLE)
KEYS: Final = (3, 5, 8, STRING, 13, 17)
TIME: Final = ".google.protobuf.Timestamp"
SYMBOLS: Final = ("NEW", "OLD", "GONE")


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from spark_jars.fetch import PROTOBUF, FetchError, jars

    from kavka.spark.session import start

    try:
        found = jars(PROTOBUF)
    except FetchError as reason:
        pytest.skip(f"the jar of Spark's Protobuf functions: {reason}")
    session = start("protobuf", conf={"spark.jars": ",".join(map(str, found))})
    yield session
    session.stop()


class Files:
    """Random files with a message Top, and values that fit it."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def file(self) -> Any:
        """A file of proto2 or proto3; the last field of Top is in every row."""
        syntax = self.draw.choice(("proto2", "proto3"))
        made = descriptor_pb2.FileDescriptorProto(name="random.proto", package="drawn", syntax=syntax)
        made.dependency.append("google/protobuf/timestamp.proto")
        kind = made.enum_type.add(name="Kind")
        for number, name in enumerate(SYMBOLS):
            kind.value.add(name=name, number=number)
        inner: list[str] = []
        for name in ("Low", "Middle", "Top"):
            message = made.message_type.add(name=name)
            for number in range(1, self.draw.randrange(3, 9)):
                self._field(message, number, syntax, inner)
            inner.append(f".drawn.{name}")
        last = made.message_type[-1].field.add(name="last", number=99, type=STRING, label=ONE)
        if syntax == "proto2":
            last.default_value = "end"
        return made

    def _field(self, message: Any, number: int, syntax: str, inner: list[str]) -> None:
        draw = self.draw
        name = f"f{number}"
        match draw.randrange(8):
            case 0:
                self._map(message, name, number, inner)
                return
            case 1 | 2:
                field = message.field.add(name=name, number=number, label=draw.choice((ONE, MANY)), type=MESSAGE)
                field.type_name = draw.choice([*inner, TIME])
                return
            case 3:
                field = message.field.add(name=name, number=number, label=draw.choice((ONE, MANY)), type=ENUM)
                field.type_name = ".drawn.Kind"
            case _:
                type_ = draw.choice(SCALARS)
                field = message.field.add(name=name, number=number, label=draw.choice((ONE, ONE, MANY)), type=type_)
        if field.label != ONE or draw.random() < 0.5:
            return
        if syntax == "proto2":
            defaults = {ENUM: "OLD", STRING: "said", 8: "true", 12: "x", 1: "-0.5", 2: "1.5"}
            field.default_value = defaults.get(field.type, "7")
        else:  # one that may be missing
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")

    def _map(self, message: Any, name: str, number: int, inner: list[str]) -> None:
        entry = message.nested_type.add(name=f"F{number}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=ONE, type=self.draw.choice(KEYS))
        value = entry.field.add(name="value", number=2, label=ONE, type=self.draw.choice((*SCALARS, MESSAGE, ENUM)))
        if value.type in (MESSAGE, ENUM):
            value.type_name = self.draw.choice([*inner, TIME]) if value.type == MESSAGE else ".drawn.Kind"
        field = message.field.add(name=name, number=number, label=MANY, type=MESSAGE)
        field.type_name = f".drawn.{message.name}.{entry.name}"

    def fill(self, message: Any) -> None:
        """Values for some of a message's fields."""
        if message.DESCRIPTOR.full_name == TIME[1:]:
            message.seconds, message.nanos = self.draw.randrange(-(1 << 33), 1 << 33), self.draw.randrange(10**9)
            return
        for field in message.DESCRIPTOR.fields:
            if field.name != "last" and self.draw.random() < 0.3:
                continue
            content = getattr(message, field.name)
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                parts = field.message_type.fields_by_name
                for _ in range(self.draw.randrange(3)):
                    key = self._scalar(parts["key"])
                    if parts["value"].message_type is not None:
                        self.fill(content[key])
                    else:
                        content[key] = self._scalar(parts["value"])
            elif field.is_repeated:
                for _ in range(self.draw.randrange(3)):
                    if field.message_type is not None:
                        self.fill(content.add())
                    else:
                        content.append(self._scalar(field))
            elif field.message_type is not None:
                content.SetInParent()
                self.fill(content)
            else:
                setattr(message, field.name, self._scalar(field))

    def _scalar(self, field: Any) -> Any:
        draw = self.draw
        match field.type:
            case 1:
                return draw.choice((0.0, draw.uniform(-1e9, 1e9)))
            case 2:
                return draw.randrange(-1000, 1000) / 4
            case 8:
                return draw.random() < 0.5
            case 9:
                return draw.choice(("", "x", "žluť", "\U0001f600" * 3))
            case 12:
                return draw.randbytes(draw.randrange(4))
            case 14:
                return draw.randrange(3 if field.enum_type.is_closed else 5)
        bits = draw.randrange(WHOLE[field.type] + 1)
        return draw.randrange(1 << bits) if field.type in UNSIGNED else draw.randrange(-(1 << bits), 1 << bits)


def described(file: Any) -> bytes:
    time = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    return descriptor_pb2.FileDescriptorSet(file=[time, file]).SerializeToString()


def by_spark(spark: Any, values: list[bytes], descriptors: bytes, mode: str = "PERMISSIVE") -> list[Any]:
    from pyspark.sql.protobuf.functions import from_protobuf

    frame = spark.createDataFrame([(n, bytearray(v)) for n, v in enumerate(values)], "number int, value binary")
    read = from_protobuf("value", "drawn.Top", options={**OPTIONS, "mode": mode}, binaryDescriptorSet=descriptors)
    rows = frame.coalesce(1).orderBy("number").select(read.alias("r")).toArrow().column("r").to_pylist()
    # A value that cannot be read is a struct of nulls there.
    return [row if row is not None and any(each is not None for each in row.values()) else None for row in rows]


def ordered(item: Any) -> Any:
    """Rows with maps in one order: Java's have none."""
    if isinstance(item, dict):
        return {name: ordered(each) for name, each in item.items()}
    if isinstance(item, list):
        pairs = [ordered(each) for each in item]
        return sorted(pairs, key=lambda pair: pair[0]) if pairs and isinstance(pairs[0], tuple) else pairs
    return (item[0], ordered(item[1])) if isinstance(item, tuple) else item


def drawn(files: Files, made: Any) -> bytes:
    message = made()
    files.fill(message)
    value: bytes = message.SerializeToString()
    return value


def test_random_values_of_random_schemas_are_what_from_protobuf_makes_of_them(spark: Any) -> None:
    from scale import rounds

    files = Files(1)
    refused = 0
    for _ in range(rounds(full=60, ci=8)):
        descriptors = described(files.file())
        text = base64.b64encode(descriptors).decode()
        made, decoder = message_class(text, "drawn.Top"), ProtobufDecoder(text, "drawn.Top")
        good = [drawn(files, made) for _ in range(30)]
        values = good + [value[: files.draw.randrange(len(value))] for value in good[:10] if value]
        array, bad = decoder.decode(values)
        theirs = by_spark(spark, values, descriptors)
        for value, we, they in zip(values, array.to_pylist(), theirs, strict=True):
            assert ordered(we) == ordered(they), f"{value!r} by {text}"
        assert all(row >= len(good) for row, _ in bad)
        refused += len(bad)
    assert refused >= rounds(full=60, ci=8) * 3


def test_a_field_of_another_type_is_refused_by_both(spark: Any) -> None:
    files = Files(2)
    file = files.file()
    file.message_type[-1].field.add(name="asked", number=50, type=STRING, label=ONE)
    descriptors = described(file)
    file.message_type[-1].field[-1].type = 1
    other = base64.b64encode(described(file)).decode()
    made = message_class(other, "drawn.Top")
    values = [drawn(files, made) for _ in range(30)]
    has = [any(field.name == "asked" for field, _ in made.FromString(value).ListFields()) for value in values]
    _, bad = ProtobufDecoder(base64.b64encode(descriptors).decode(), "drawn.Top").decode(values)
    assert [row for row, _ in bad] == [row for row, each in enumerate(has) if each]
    assert [row is None for row in by_spark(spark, values, descriptors)] == has
    assert any(has)


def test_a_message_without_what_it_must_have_is_refused_by_both(spark: Any) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="needed.proto", package="drawn", syntax="proto2")
    file.message_type.add(name="Top").field.add(name="last", number=1, type=STRING, label=NEEDED)
    descriptors = described(file)
    rows, bad = ProtobufDecoder(base64.b64encode(descriptors).decode(), "drawn.Top").decode([b"\x0a\x01x", b""])
    assert ([row for row, _ in bad], rows[0].as_py()) == ([1], {"last": "x"})
    assert by_spark(spark, [b"\x0a\x01x"], descriptors, "FAILFAST") == [{"last": "x"}]
    with pytest.raises(Exception, match="MALFORMED_PROTOBUF_MESSAGE"):
        by_spark(spark, [b""], descriptors, "FAILFAST")


def test_what_holds_itself_is_refused_by_both(spark: Any) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="node.proto", package="drawn", syntax="proto3")
    field = file.message_type.add(name="Top").field.add(name="next", number=1, type=MESSAGE, label=ONE)
    field.type_name = ".drawn.Top"
    descriptors = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    with pytest.raises(SchemaError, match=r"drawn\.Top contains itself"):
        ProtobufDecoder(base64.b64encode(descriptors).decode(), "drawn.Top")
    with pytest.raises(Exception, match="RECURSI"):
        by_spark(spark, [b""], descriptors)
