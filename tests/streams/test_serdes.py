"""Bytes as Kafka's own serdes write them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import pytest

from ottla.engine.changed_serde import ChangedSerde, read_varint, write_varint
from ottla.streams import (
    Boolean,
    Bytes,
    Change,
    Double,
    Float,
    Int,
    Json,
    List,
    Long,
    Pickle,
    Serde,
    SerializationError,
    SessionWindowed,
    Short,
    String,
    TimeWindowed,
    Uuid,
    Window,
    Windowed,
)


@dataclass
class Order:
    name: str
    count: int = 1


class Colour(Enum):
    GREEN = "green"


@dataclass
class Basket:
    orders: list[Order]
    by_name: dict[str, Order | None]
    tags: set[str]
    at: datetime
    id: uuid.UUID | None = None
    colour: Colour = Colour.GREEN
    inner: Basket | None = None
    either: int | str = 0


ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (Bytes(), b"\x00\x01", b"\x00\x01"),
        (String(), "żółw", "żółw".encode()),
        (Short(), -2, b"\xff\xfe"),
        (Int(), 258, b"\x00\x00\x01\x02"),
        (Long(), -1, b"\xff" * 8),
        (Float(), 1.5, b"\x3f\xc0\x00\x00"),
        (Double(), 1.5, b"\x3f\xf8" + b"\x00" * 6),
        (Boolean(), True, b"\x01"),
        (Uuid(), ID, str(ID).encode()),
        (Json(), {"a": [1, None, "ż"]}, '{"a":[1,null,"ż"]}'.encode()),
        (Json(), 2**70, str(2**70).encode()),
        (Json(Order), Order("tea", 2), b'{"name":"tea","count":2}'),
        (Pickle(), {1, 2}, None),
        (
            List(Int()),
            [1, None, 2],
            bytes.fromhex("00 00000001 00000001 00000003 00000001 00000002"),
        ),
        (List(String()), ["a", None], bytes.fromhex("01 00000002 00000001 61 ffffffff")),
        (List(String()), [], bytes.fromhex("01 00000000")),
        (TimeWindowed(String(), 10), Windowed("k", Window(5, 15)), b"k" + b"\x00" * 7 + b"\x05"),
        (
            SessionWindowed(String()),
            Windowed("k", Window(5, 9)),
            b"k" + b"\x00" * 7 + b"\x09" + b"\x00" * 7 + b"\x05",
        ),
        (ChangedSerde(String()), Change("n", None), b"n\x01"),
        (ChangedSerde(String()), Change(None, "o"), b"o\x00"),
        (ChangedSerde(String()), Change("new", "old"), b"\x06newold\x02"),
        (Serde.of(str.encode, bytes.decode), "x", b"x"),
    ],
)
def test_values_survive_a_round_trip(serde: Serde[Any], value: Any, data: bytes | None) -> None:
    written = serde.serialize("topic", value)
    assert data is None or written == data
    assert serde.deserialize("topic", written) == value
    assert serde.serialize("topic", None) is None
    assert serde.deserialize("topic", None) is None


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (Int(), b"\x00"),
        (Boolean(), b"\x02"),
        (TimeWindowed(String()), b"short"),
        (SessionWindowed(String()), b"short"),
        (List(Int()), b"\x00\x00"),
        (List(String()), bytes.fromhex("00 00000000 00000000")),
        (ChangedSerde(String()), b"x\x07"),
        (ChangedSerde(String()), b"\x80\x02"),
    ],
)
def test_malformed_bytes_are_refused(serde: Serde[Any], data: bytes) -> None:
    with pytest.raises(SerializationError):
        serde.deserialize("topic", data)


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Short(), 2**15),
        (Long(), "x"),
        (String(), 5),
        (Json(), object()),
        (ChangedSerde(String()), Change(None, None)),
    ],
)
def test_unserializable_values_are_refused(serde: Serde[Any], value: Any) -> None:
    with pytest.raises(SerializationError):
        serde.serialize("topic", value)


def test_json_of_a_dataclass_ignores_unknown_fields() -> None:
    serde = Json(Order)
    assert serde.deserialize("t", b'{"name":"tea","colour":"green"}') == Order("tea")
    assert serde.deserialize("t", b"null") is None
    assert Json().deserialize("t", b"[Infinity]") == [float("inf")]


def test_json_of_a_dataclass_builds_the_declared_types() -> None:
    serde = Json(Basket)
    inner = Basket([], {}, set(), datetime(2026, 1, 2, 3, 4, 5))
    basket = Basket(
        [Order("tea", 2)],
        {"x": Order("y"), "z": None},
        {"t"},
        inner.at,
        ID,
        Colour.GREEN,
        inner,
        "e",
    )
    assert serde.deserialize("t", serde.serialize("t", basket)) == basket


@pytest.mark.parametrize("number", [0, 1, 63, 64, 300, 2**31 - 1])
def test_varints_survive_a_round_trip(number: int) -> None:
    data = write_varint(number)
    assert read_varint(data + b"rest") == (number, len(data))
