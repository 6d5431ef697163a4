"""Keys and rows in stores: equal ones are equal bytes, and come back as they were."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from ottla.sql.lowering.row_serdes import StoredRow, StoreKey, packed

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
def test_a_key_comes_back(key: tuple[Any, ...]) -> None:
    serde = StoreKey()
    data = serde.serialize("", key)
    assert data is not None
    again = serde.deserialize("", data)
    assert again == key
    assert [type(each) for each in again or ()] == [type(each) for each in key]


def test_keys_that_differ_have_other_bytes() -> None:
    serde = StoreKey()
    assert len({serde.serialize("", each) for each in KEYS}) == len(KEYS)


def test_bytes_do_not_depend_on_which_objects_are_the_same() -> None:
    word = "".join(["a", "b"])
    assert packed((word, word)) == packed(("".join(["a", "b"]), "".join(["a", "b"])))


def test_numbers_and_texts_lie_in_kafkas_order() -> None:
    serde = StoreKey()
    texts = [serde.serialize("", (each,)) or b"" for each in ("a", "a b", "ab", "b")]
    numbers = [serde.serialize("", (each,)) or b"" for each in (0, 9, 10, 1 << 40, -1)]
    assert texts == sorted(texts)
    assert numbers == sorted(numbers)


def test_a_row_has_the_columns_that_were_named() -> None:
    serde = StoredRow(("A", "B"))
    data = serde.serialize("", {"A": 1, "C": 3})
    assert serde.deserialize("", data) == {"A": 1, "B": None}
    assert serde.serialize("", None) is None
