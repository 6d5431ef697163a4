"""Serdes of keys and rows: equal keys have equal bytes, and values survive a round trip."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from ottla.sql import SqlTestDriver
from ottla.sql.lowering.row_serdes import RowValueSerde, StoredRowSerde, StoreKeySerde, packed

KEYS: list[tuple[Any, ...]] = [
    ("",),
    ("a b",),
    (0,),
    (-(1 << 63),),
    (1.5,),
    (True,),
    (None,),
    (Decimal("1.50"),),
    (b"\x00\xff",),
    ("a", 1),
    (None, None),
    ([1, None, 2],),
    ({"A": 1, "B": "x"},),
    (date(2026, 1, 2), datetime(2026, 1, 2, 3, 4)),
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_survives_a_round_trip(key: tuple[Any, ...]) -> None:
    serde = StoreKeySerde()
    data = serde.serialize("", key)
    assert data is not None
    again = serde.deserialize("", data)
    assert again == key
    assert [type(item) for item in again or ()] == [type(part) for part in key]


def test_keys_that_differ_have_other_bytes() -> None:
    serde = StoreKeySerde()
    assert len({serde.serialize("", key) for key in KEYS}) == len(KEYS)


def test_bytes_do_not_depend_on_object_identity() -> None:
    word = "".join(["a", "b"])
    assert packed((word, word)) == packed(("".join(["a", "b"]), "".join(["a", "b"])))


def test_numbers_and_texts_sort_as_in_kafka() -> None:
    serde = StoreKeySerde()
    texts = [serde.serialize("", (text,)) or b"" for text in ("a", "a b", "ab", "b")]
    numbers = [serde.serialize("", (number,)) or b"" for number in (0, 9, 10, 1 << 40, -1)]
    assert texts == sorted(texts)
    assert numbers == sorted(numbers)


def test_a_row_has_the_columns_that_were_named() -> None:
    serde = StoredRowSerde(("A", "B"))
    data = serde.serialize("", {"A": 1, "C": 3})
    assert serde.deserialize("", data) == {"A": 1, "B": None}
    assert serde.serialize("", None) is None


ROWS = [
    b'{"a": 1, "B": "x", "c": 1.5, "d": true, "e": 12345678901}',
    b'{"A": null, "b": "\\u00e9", "c": -2, "d": false}',
    b"null",
    None,
    b'{"b": ""}',
]


def row_value() -> RowValueSerde:
    with SqlTestDriver() as driver:
        driver.execute(
            "CREATE STREAM s (k STRING KEY, a INT, b STRING, c DOUBLE, d BOOLEAN, e BIGINT)"
            " WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
        )
        return RowValueSerde(driver.source("s").layout)


@pytest.mark.parametrize("times", [1, 300])
def test_a_batch_is_read_like_its_single_values(times: int) -> None:
    """300 times: enough for Arrow's own reader."""
    serde = row_value()
    regular = [row for row in ROWS if row is not None and row.startswith(b'{"a": 1')]
    for data in (ROWS * times, regular * 600):
        found = serde.deserialize_batch("s", data)
        assert found is not None
        expected = [serde.deserialize("s", datum) for datum in data]
        assert found == expected
        types = [[type(cell) for cell in row or ()] for row in found]
        assert types == [[type(cell) for cell in row or ()] for row in expected]


@pytest.mark.parametrize("bad", [b"{", b'{"a": "x"}', b"[]", b'{"a": 2147483648}'])
def test_a_batch_with_a_value_that_can_not_be_read_is_read_one_by_one(bad: bytes) -> None:
    assert row_value().deserialize_batch("s", [*ROWS, bad] * 200) is None
