"""Rows with a column of every type, for tests of pull queries."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

from ottla.rows import types as t
from ottla.rows.schema import Column, Role

COLUMNS = (
    Column("ID", t.STRING, Role.KEY),
    Column("I", t.INTEGER),
    Column("L", t.BIGINT),
    Column("D", t.DOUBLE),
    Column("S", t.STRING),
    Column("B", t.BOOLEAN),
    Column("X", t.decimal(6, 2)),
    Column("T", t.TIMESTAMP),
    Column("DAY", t.DATE),
    Column("A", t.array(t.INTEGER)),
    Column("M", t.map_of(t.STRING, t.INTEGER)),
    Column("U", t.struct(("F", t.INTEGER), ("G", t.STRING))),
)
HIDDEN = {"ROWTIME": 1_600_000_000_000, "ROWPARTITION": 0, "ROWOFFSET": 7}
ROWS: list[dict[str, Any]] = [
    {
        "ID": "a",
        "I": 5,
        "L": 10**12,
        "D": 0.1,
        "S": "abc%d",
        "B": True,
        "X": Decimal("1.50"),
        "T": dt.datetime(2020, 2, 3, 4, 5, 6, tzinfo=dt.UTC),
        "DAY": dt.date(2020, 2, 3),
        "A": [1, 2, None],
        "M": {"k": 1},
        "U": {"F": 1, "G": "g"},
        **HIDDEN,
    },
    {
        "ID": "b",
        "I": -7,
        "L": -(2**63),
        "D": math.nan,
        "S": " Ünï\ncode ",
        "B": False,
        "X": Decimal("-0.10"),
        "T": dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
        "DAY": dt.date(1969, 12, 31),
        "A": [],
        "M": {},
        "U": None,
        **HIDDEN,
    },
    {"ID": "c", **dict.fromkeys([column.name for column in COLUMNS[1:]]), **HIDDEN},
]
