"""Classes as schemas, and values of them as plain ones and back."""

from __future__ import annotations

import datetime
import io
import json
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import fastavro
import jsonschema
import pydantic
import pytest

from kavka.client.schemas.avro_models import avro_of
from kavka.client.schemas.avro_references import has_weightless_lists, whole
from kavka.client.schemas.json_models import json_schema_of
from kavka.client.schemas.models import Form, Precision, maker, plain

UTC = datetime.UTC


def instance(kind: Any, value: Any, form: Form) -> Any:
    return maker(kind, form)(value)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Line:
    item: str
    count: int = 1


@dataclass(frozen=True)
class Gift:
    item: str
    wrapped: bool


@dataclass
class Order:
    id: uuid.UUID
    at: datetime.datetime
    day: datetime.date
    price: Annotated[Decimal, Precision(10, 2)]
    colour: Colour
    lines: list[Line]
    labels: dict[str, str] = field(default_factory=dict)
    note: str | None = None
    extra: Line | Gift | None = None
    raw: bytes = b""
    weight: float = 0.5
    kind: Literal["a", "b"] = "a"
    urgent: bool = False
    parent: Order | None = None
    codes: tuple[int, ...] = ()


FULL = Order(
    uuid.uuid4(),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    datetime.date(2026, 1, 2),
    Decimal("12.34"),
    Colour.BLUE,
    [Line("a"), Line("b", 2)],
    {"k": "v"},
    "note",
    Gift("c", True),
    b"\x00\xff",
    1.5,
    "b",
    True,
    Order(
        uuid.uuid4(),
        datetime.datetime(1969, 1, 2, tzinfo=UTC),
        datetime.date(1969, 1, 2),
        Decimal("-0.01"),
        Colour.RED,
        [],
    ),
    (1, 2),
)


class Customer(pydantic.BaseModel):
    name: str
    born: datetime.date | None = None
    lines: list[Line] = []
    likes: Colour = Colour.RED
    extra: Line | Gift | None = None


@pytest.mark.parametrize("value", [FULL, FULL.parent], ids=["full", "defaults"])
def test_a_dataclass_in_avro_and_back(value: Order) -> None:
    schema = fastavro.parse_schema(json.loads(avro_of(Order)))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, plain(value, "avro"))
    out.seek(0)
    found = fastavro.schemaless_reader(out, schema, None, return_record_name=True, return_record_name_override=True)
    assert instance(Order, found, "avro") == value


@pytest.mark.parametrize("value", [FULL, FULL.parent], ids=["full", "defaults"])
def test_a_dataclass_in_json_and_back(value: Order) -> None:
    schema = json.loads(json_schema_of(Order))
    jsonschema.Draft7Validator.check_schema(schema)
    text = json.dumps(plain(value, "json"))
    jsonschema.validate(json.loads(text), schema)
    assert instance(Order, json.loads(text), "json") == value


def test_the_avro_schema_says_defaults_first_and_names_once() -> None:
    fields = {each["name"]: each for each in json.loads(avro_of(Order))["fields"]}
    assert fields["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert fields["labels"]["default"] == {}
    assert fields["weight"]["default"] == 0.5
    assert fields["parent"]["type"] == ["null", "Order"]
    assert fields["extra"]["type"][:2] == ["null", "Line"]
    assert fields["price"]["type"]["precision"] == 10
    assert fields["colour"]["type"]["symbols"] == ["RED", "BLUE"]
    assert "default" not in fields["id"]


def test_a_newer_class_reads_what_an_older_one_wrote() -> None:
    older = fastavro.parse_schema({"type": "record", "name": "Line", "fields": [{"name": "item", "type": "string"}]})
    out = io.BytesIO()
    fastavro.schemaless_writer(out, older, {"item": "x"})
    out.seek(0)
    found = fastavro.schemaless_reader(out, older, fastavro.parse_schema(json.loads(avro_of(Line))))
    assert instance(Line, found, "avro") == Line("x", 1)


def test_models_of_pydantic_are_schemas() -> None:
    customer = Customer(
        name="Ada", born=datetime.date(1815, 12, 10), lines=[Line("a")], likes=Colour.BLUE, extra=Gift("b", True)
    )
    schema = fastavro.parse_schema(json.loads(avro_of(Customer)))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, plain(customer, "avro"))
    out.seek(0)
    found = fastavro.schemaless_reader(out, schema, None, return_record_name=True, return_record_name_override=True)
    assert instance(Customer, found, "avro") == customer
    said = plain(customer, "json")
    jsonschema.validate(said, json.loads(json_schema_of(Customer)))
    assert instance(Customer, said, "json") == customer
    with pytest.raises(ValueError, match="name"):
        instance(Customer, {}, "json")


def test_a_namespace_is_said_by_the_class() -> None:
    @dataclass
    class Spaced:
        id: int

    Spaced.__namespace__ = "shop.v1"  # type: ignore[attr-defined]
    assert json.loads(avro_of(Spaced)) == {
        "type": "record",
        "name": "Spaced",
        "namespace": "shop.v1",
        "fields": [{"name": "id", "type": "long"}],
    }


@dataclass
class Odd:
    thing: complex


@dataclass
class Bare:
    price: Decimal


@dataclass
class Holder:
    odd: Odd


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (avro_of, Odd, r"Odd\.thing: Avro has no type for complex"),
        (avro_of, Bare, r"Bare\.price: a Decimal needs its digits"),
        (avro_of, Holder, r"^Odd\.thing"),
        (avro_of, int, "neither a dataclass nor"),
        (json_schema_of, Odd, r"Odd\.thing: JSON Schema has no type"),
    ],
)
def test_a_field_without_a_type_is_named(make: Any, kind: type, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(kind)


@pytest.mark.parametrize(
    "said",
    [{"item": 1}, {"item": "a", "other": 1}, {}, {"item": "a", "count": True}, [], None, {"item": "a", "count": "1"}],
)
def test_what_is_no_instance_is_refused(said: Any) -> None:
    with pytest.raises(ValueError):
        instance(Line, said, "json")


def test_schemas_that_build_on_others_are_made_whole() -> None:
    street = json.dumps({"type": "record", "name": "Street", "namespace": "geo", "fields": []})
    town = json.dumps({"type": "record", "name": "Town", "fields": [{"name": "main", "type": "geo.Street"}]})
    person = json.dumps(
        {
            "type": "record",
            "name": "Person",
            "namespace": "people",
            "fields": [
                {"name": "home", "type": ["null", "Town"]},
                {"name": "work", "type": {"type": "array", "items": "geo.Street"}},
            ],
        }
    )
    made = fastavro.parse_schema(whole(person, [street, town]))
    out = io.BytesIO()
    value = {"home": {"main": {}}, "work": [{}]}
    fastavro.schemaless_writer(out, made, value)
    out.seek(0)
    assert fastavro.schemaless_reader(out, made, None) == value
    listed = fastavro.parse_schema(whole('{"type": "array", "items": "Town"}', [street, town]))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, listed, [{"main": {}}])
    assert out.getvalue() == b"\x02\x00"


def test_a_schema_on_its_own_stays_as_it_is() -> None:
    assert whole('"string"', []) == "string"
    assert whole("string", []) == "string"


EMPTY = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array", "items": "null"}, True),
        ({"type": "array", "items": EMPTY}, True),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, True),
        (["null", {"type": "map", "values": {"type": "array", "items": {"type": "null"}}}], True),
        (
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "a", "type": EMPTY}, {"name": "b", "type": {"type": "array", "items": "Empty"}}],
            },
            True,
        ),
        ({"type": "array", "items": ["null", "int"]}, False),
        ({"type": "array", "items": {"type": "array", "items": "string"}}, False),
        ({"type": "map", "values": "null"}, False),
        (EMPTY, False),
        ("null", False),
    ],
)
def test_lists_of_nothing_are_found(schema: Any, expected: bool) -> None:
    assert has_weightless_lists(fastavro.parse_schema(schema)) is expected
