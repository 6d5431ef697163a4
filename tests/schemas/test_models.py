"""Dataclasses and Pydantic models become schemas, and come back as instances."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from ottla.schemas.avro.codec import AvroCodec
from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.json_schema.validator import JsonValidator
from ottla.schemas.models.avro_schema import avro_text
from ottla.schemas.models.json_schema import json_text
from ottla.schemas.models.proto_file import proto_file
from ottla.schemas.models.python_type import Digits, describe
from ottla.schemas.models.values import AVRO, JSON, PROTOBUF, ModelValues
from ottla.schemas.protobuf.message_types import MessageTypes
from ottla.schemas.protobuf.values import MessageValues
from ottla.schemas.schema_types import parse


class State(enum.Enum):
    NEW = "new"
    PAID = "paid"


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: int
    at: datetime.datetime
    price: Annotated[Decimal, Digits(9, 2)]
    key: uuid.UUID
    day: datetime.date
    state: State
    lines: list[Line]
    by_sku: dict[str, Line] = field(default_factory=dict)
    note: str | None = None
    data: bytes = b""
    next: Order | None = None
    ratio: float = 0.5
    tags: tuple[str, ...] = ()


class Customer(BaseModel):
    id: int
    name: str = "nobody"
    state: State
    since: datetime.datetime
    limit: Decimal = Field(max_digits=6, decimal_places=2)
    last: Line | None = None


@dataclass(slots=True)
class Circle:
    radius: float


@dataclass
class Square:
    side: float


@dataclass
class Drawing:
    shapes: list[Circle | Square]


AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.UTC)


def _order() -> Order:
    inner = Order(
        1, AT, Decimal("1.50"), uuid.UUID(int=3), AT.date(), State.NEW, [], tags=("a", "b")
    )
    return Order(
        2,
        AT,
        Decimal("20.25"),
        uuid.UUID(int=4),
        AT.date(),
        State.PAID,
        [Line("a"), Line("b", 3)],
        {"a": Line("a")},
        "thanks",
        b"\x00\xff",
        inner,
    )


def _customer() -> Customer:
    return Customer(id=1, state=State.PAID, since=AT, limit=Decimal("12.50"), last=Line("z"))


def _avro(value: Any) -> Any:
    kind = describe(type(value))
    values = ModelValues(kind, AVRO, lambda name: f"shop.{name}")
    codec = AvroCodec(
        parse("AVRO", avro_text(kind, "shop"), {}), record_names=values.has_named_unions
    )
    return values.from_plain(codec.decode(codec.encode(values.to_plain(value))))


def _json(value: Any) -> Any:
    kind = describe(type(value))
    values = ModelValues(kind, JSON, str)
    plain = json.loads(json.dumps(values.to_plain(value)))
    JsonValidator(parse("JSON", json_text(kind), {})).check(plain)
    return values.from_plain(plain)


def _protobuf(value: Any) -> Any:
    kind = describe(type(value))
    values = ModelValues(kind, PROTOBUF, str)
    made = MessageTypes(parse("PROTOBUF", proto_file(kind, "shop"), {})).by_indexes((0,))
    assert made.DESCRIPTOR.full_name == f"shop.{type(value).__name__}"
    messages = MessageValues(made)
    data = messages.from_dict(values.to_plain(value)).SerializeToString()
    return values.from_plain(messages.to_dict(made.FromString(data)))


@pytest.mark.parametrize("way", [_avro, _json, _protobuf])
@pytest.mark.parametrize("make", [_order, _customer])
def test_an_instance_survives_a_round_trip(way: Any, make: Any) -> None:
    assert way(make()) == make()


@pytest.mark.parametrize("way", [_avro, _json])
def test_a_union_of_models_keeps_its_member(way: Any) -> None:
    drawing = Drawing([Circle(1.0), Square(2.0)])
    assert way(drawing) == drawing


def test_defaults_are_in_the_schema() -> None:
    fields = {entry["name"]: entry for entry in json.loads(avro_text(describe(Order)))["fields"]}
    assert fields["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert fields["ratio"]["default"] == 0.5
    assert fields["by_sku"]["default"] == {}
    assert "default" not in fields["id"]
    schema = json.loads(json_text(describe(Order)))
    assert schema["properties"]["note"]["default"] is None
    assert schema["required"] == ["id", "at", "price", "key", "day", "state", "lines"]


def test_numbers_of_protobuf_fields_can_be_given() -> None:
    @dataclass
    class Late:
        a: int = field(metadata={"number": 2})
        b: int
        c: int

    assert "int64 a = 2;\n  int64 b = 1;\n  int64 c = 3;" in proto_file(describe(Late))


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (complex, "no schema for"),
        (dict[int, str], "the keys of a map are str"),
        (tuple[int, str], "a tuple in a schema"),
    ],
)
def test_an_inexpressible_annotation_is_an_error(of: Any, words: str) -> None:
    with pytest.raises(InvalidSchema, match=words):
        describe(of)


def test_a_decimal_without_a_size_is_an_error_in_avro() -> None:
    with pytest.raises(InvalidSchema, match="Digits"):
        avro_text(describe(Decimal))


def test_a_dataclass_pickled_by_value_still_has_no_defaults() -> None:
    """As Spark's workers get a class of a job's file: the marker for no default is a copy."""

    @dataclass
    class Sale:
        product: str
        amount: int

    before = avro_text(describe(Sale), "")
    for entry in dataclasses.fields(Sale):
        entry.default = entry.default_factory = type(dataclasses.MISSING)()  # type: ignore[call-arg]
    assert avro_text(describe(Sale), "") == before
