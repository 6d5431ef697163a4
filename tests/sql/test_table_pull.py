"""Pull queries on tables in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from pull_rows import COLUMNS, HIDDEN, ROWS

from ottla.rows import types as t
from ottla.rows.errors import SqlError
from ottla.rows.schema import (
    Column,
    FormatInfo,
    Layout,
    LogicalSchema,
    Role,
    WindowInfo,
    WindowKind,
)
from ottla.spark.table_store import ANY, Bounds
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import Select
from ottla.sql.table_pull import TablePull, table_pull

LAYOUT = Layout(LogicalSchema(COLUMNS), FormatInfo("KAFKA"), FormatInfo("JSON"), is_table=True)
TWO_KEYS = Layout(
    LogicalSchema(
        (
            Column("A", t.INTEGER, Role.KEY),
            Column("B", t.STRING, Role.KEY),
            Column("V", t.INTEGER),
        )
    ),
    FormatInfo("JSON"),
    FormatInfo("JSON"),
    is_table=True,
)
WINDOWED = Layout(
    LogicalSchema((Column("ID", t.STRING, Role.KEY), Column("N", t.BIGINT))),
    FormatInfo("KAFKA"),
    FormatInfo("JSON"),
    is_table=True,
    windowed=WindowInfo(WindowKind.TUMBLING, 1000),
)


class Seen:
    """A table that records the access path."""

    def __init__(self, rows: list[dict[str, Any]], keys: Sequence[str]) -> None:
        self.rows = rows
        self.names = keys
        self.way: Any = None
        self.bounds = ANY

    def get(self, keys: Iterable[Sequence[Any]], bounds: Bounds = ANY) -> list[dict[str, Any]]:
        self.way, self.bounds = sorted(set(keys)), bounds
        return [row for row in self.rows if self._key(row) in self.way]

    def range(self, wanted: Any, bounds: Bounds = ANY) -> list[dict[str, Any]]:
        self.way, self.bounds = "range", bounds
        return [row for row in self.rows if wanted(self._key(row))]

    def scan(self, bounds: Bounds = ANY) -> list[dict[str, Any]]:
        self.way, self.bounds = "scan", bounds
        return self.rows

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.names)


def planned(text: str, layout: Layout = LAYOUT) -> TablePull | None:
    (statement,) = parse(text + ";")
    assert isinstance(statement, Select)
    return table_pull(statement.query, layout)


def ids(where: str) -> str:
    pull = planned(f"SELECT ID FROM T WHERE {where}")
    assert pull is not None
    return "".join(row[0] for row in pull.rows(Seen(ROWS, ["ID"])))


@pytest.mark.parametrize(
    ("where", "way"),
    [
        ("ID = 'a'", [("a",)]),
        ("'a' = ID", [("a",)]),
        ("T.ID = 'a'", [("a",)]),
        ("ID IN ('a', 'b') AND I > 1", [("a",), ("b",)]),
        ("(ID = 'a' OR ID = 'c') AND I > 1", [("a",), ("c",)]),
        ("ID = 'a' OR I > 1", "scan"),
        ("ID = 'a' AND ID = 'b'", []),
        ("ID IN ('a', 'b') AND ID IN ('b', 'c')", [("b",)]),
        ("ID > 'a'", "range"),
        ("ID LIKE 'a%' AND I > 1", "range"),
        ("ID BETWEEN 'a' AND 'b'", "range"),
        ("I > 1", "scan"),
        ("ID <> 'a' AND S IS NOT NULL", "range"),
        ("NOT ID = 'a'", "range"),
        ("ID = S", "scan"),
    ],
)
def test_a_condition_determines_the_lookup(where: str, way: Any) -> None:
    pull = planned(f"SELECT * FROM T WHERE {where}")
    assert pull is not None
    table = Seen(ROWS, ["ID"])
    found = pull.rows(table)
    assert table.way == way
    every = planned("SELECT * FROM T")
    assert every is not None
    checked = planned(f"SELECT * FROM T WHERE ({where}) IS NOT DISTINCT FROM TRUE")
    assert checked is not None
    assert [row[0] for row in found] == [row[0] for row in checked.rows(Seen(ROWS, ["ID"]))]


@pytest.mark.parametrize(
    ("where", "layout", "expected"),
    [
        ("ID > 'a'", LAYOUT, True),
        ("'a' <= ID", LAYOUT, True),
        ("ID > 'a' AND I > 1", LAYOUT, True),
        ("ID > 'a' AND ID < 'c'", LAYOUT, False),
        ("ID <> 'a'", LAYOUT, False),
        ("ID > S", LAYOUT, False),
        ("ID < 'a' OR ID > 'c'", LAYOUT, False),
        ("I > 1", LAYOUT, False),
        ("A > 1", TWO_KEYS, False),
        ("B > 'x'", TWO_KEYS, False),
        ("ID > 'a'", WINDOWED, False),
    ],
)
def test_range_conditions_become_range_scans(where: str, layout: Layout, expected: bool) -> None:
    pull = planned(f"SELECT * FROM T WHERE {where}", layout)
    assert pull is not None
    assert pull.is_range_scan is expected


def test_keys_of_two_columns() -> None:
    rows = [{"A": a, "B": b, "V": a, **HIDDEN} for a in range(3) for b in "xy"]

    def way(where: str) -> tuple[Any, int]:
        pull = planned(f"SELECT V FROM T WHERE {where}", TWO_KEYS)
        assert pull is not None
        table = Seen(rows, ["A", "B"])
        found = pull.rows(table)
        return table.way, len(found)

    assert way("A = 1 AND B = 'x'") == ([(1, "x")], 1)
    assert way("A IN (1, 2) AND B IN ('x', 'y') AND V = 2") == (
        [(1, "x"), (1, "y"), (2, "x"), (2, "y")],
        2,
    )
    assert way("A = 1") == ("range", 2)
    assert way("A = 1 OR B = 'x'") == ("range", 4)
    assert way("(A = 1 AND B = 'x') OR (A = 2 AND B = 'y')") == ([(1, "x"), (2, "y")], 2)


def test_windows() -> None:
    rows = [
        {"ID": "a", "N": n, **HIDDEN, "WINDOWSTART": n * 1000, "WINDOWEND": n * 1000 + 1000}
        for n in range(10)
    ]
    pull = planned(
        "SELECT * FROM T WHERE ID = 'a' AND WINDOWSTART >= 2000 AND WINDOWSTART < 5000"
        " AND WINDOWEND <= '1970-01-01T00:00:04'",
        WINDOWED,
    )
    assert pull is not None
    assert [column.name for column in pull.columns] == ["ID", "WINDOWSTART", "WINDOWEND", "N"]
    table = Seen(rows, ["ID"])
    assert [row[1] for row in pull.rows(table)] == [2000, 3000]
    assert table.bounds == Bounds(2000, 4999, 0, 4000)
    between = planned("SELECT N FROM T WHERE 3000 = WINDOWSTART", WINDOWED)
    assert between is not None
    assert between.rows(table) == [(3,)]
    assert (table.way, table.bounds) == ("scan", Bounds(3000, 3000))
    later = planned("SELECT N FROM T WHERE WINDOWSTART BETWEEN 8000 AND 20000", WINDOWED)
    assert later is not None
    assert later.rows(table) == [(8,), (9,)]


def test_names_and_types_of_columns() -> None:
    pull = planned("SELECT ID, I + 1, I * 2 AS KSQL_COL_0, U->F AS UF, U->*, T.S, I * 1.5E0 FROM T")
    assert pull is not None
    assert [(column.name, str(column.type)) for column in pull.columns] == [
        ("ID", "STRING"),
        ("KSQL_COL_1", "INTEGER"),
        ("KSQL_COL_0", "INTEGER"),
        ("UF", "INTEGER"),
        ("F", "INTEGER"),
        ("G", "STRING"),
        ("S", "STRING"),
        ("KSQL_COL_2", "DOUBLE"),
    ]
    assert pull.rows(Seen(ROWS, ["ID"]))[:2] == [
        ("a", 6, 10, 1, 1, "g", "abc%d", 7.5),
        ("b", -6, -14, None, None, None, " Ünï\ncode ", -10.5),
    ]


def test_limit() -> None:
    pull = planned("SELECT ID FROM T LIMIT 2")
    assert pull is not None
    assert pull.rows(Seen(ROWS, ["ID"])) == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("D = 0.1", "a"),  # a DECIMAL, beside a DOUBLE
        ("D > 5", "b"),  # NaN is above all
        ("X = 1.5 OR X < 0", "ab"),
        ("B", "a"),
        ("NOT B", "b"),
        ("NOT (I = 5)", "bc"),  # a comparison with NULL is false
        ("S LIKE 'abc!%_' ESCAPE '!'", "a"),
        ("S LIKE '%Ü%'", "b"),
        ("T > '2020-01-01'", "a"),
        ("'1970' > T", "b"),
        ("DAY = '2020-02-03'", "a"),
        ("ROWTIME > '2020-01-01T00:00:00'", "abc"),
        ("I IN (5, -7)", "ab"),
        ("I IS NULL", "c"),
        ("A[1] = 1 AND A[-2] = 2 AND A[4] IS NULL", "a"),
        ("M['k'] = 1", "a"),
        ("U->G = 'g'", "a"),
        ("I IS DISTINCT FROM 5", "bc"),
        ("CASE WHEN I > 0 THEN 'x' WHEN I < 0 THEN 'y' END = 'y'", "b"),
        ("CASE I WHEN 5 THEN TRUE ELSE FALSE END", "a"),
        ("LEN(S) = 5 AND UCASE(S) = 'ABC%D'", "a"),
        ("COALESCE(I, 9) = 9", "c"),
        ("CAST(I AS STRING) = '-7'", "b"),
        ("I / 0 IS NULL", "abc"),
        ("S LIKE ID + '%'", "a"),
        ("A = ARRAY[1, 2, NULL]", "a"),
        ("X + X = 3", "a"),
        ("SUBSTRING(S, 1, 2) = 'ab'", "a"),
        ("CAST(D AS STRING) IN ('0.1', 'NaN')", "ab"),
        ("ARRAY_LENGTH(FILTER(A, x => x > 1)) = 1", "a"),
    ],
)
def test_conditions(where: str, expected: str) -> None:
    assert ids(where) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM T",
        "SELECT MAX(I) + 1 AS N, COUNT(*) FROM T WHERE ID = 'a'",
        "SELECT ID FROM T ORDER BY ID",
    ],
)
def test_other_conditions_are_left_to_spark(text: str) -> None:
    assert planned(text) is None


def test_a_stream_is_queried_by_spark() -> None:
    stream = Layout(LogicalSchema(COLUMNS), FormatInfo("KAFKA"), FormatInfo("JSON"))
    assert planned("SELECT * FROM T WHERE ID = 'a'", stream) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT NOPE FROM T", "cannot be resolved"),
        ("SELECT ID FROM T WHERE I", "boolean"),
        ("SELECT ID FROM T WHERE ID = 5", "Cannot compare"),
        ("SELECT Z.* FROM T", "not a valid stream/table name or alias"),
        ("SELECT S->* FROM T", "not a STRUCT"),
        ("SELECT ID FROM T WHERE WINDOWSTART > 5", "cannot be resolved"),
        ("SELECT S, S FROM T", "Duplicate value columns found in schema: `S` STRING"),
        ("SELECT *, ID FROM T", "Duplicate key columns found in schema: `ID` STRING KEY"),
        ("SELECT ID FROM T WHERE ID IN ('a', NULL)", "Primary key columns can not be NULL"),
        (
            "SELECT *, ROWPARTITION, ROWOFFSET + 1 FROM T",
            "columns in SELECT clauses: `ROWPARTITION`, `ROWOFFSET`",
        ),
        (
            "SELECT ID FROM T WHERE ID = 'a' AND ROWOFFSET < 3",
            "columns in WHERE clauses: `ROWOFFSET`",
        ),
    ],
)
def test_invalid_statements_are_refused(text: str, words: str) -> None:
    with pytest.raises(SqlError, match=words):
        planned(text)


def test_a_limit_takes_the_first_keys_of_the_first_partitions() -> None:
    places = ((0, 2, "x"), (1, 1, "z"), (0, 1, "y"), (0, 1, "x"))
    rows = [{"ROWPARTITION": place, "A": a, "B": b, "V": 0} for place, a, b in places]

    def first(count: int) -> list[Any]:
        pull = planned(f"SELECT a, b FROM t LIMIT {count}", TWO_KEYS)
        assert pull is not None
        return pull.rows(Seen(rows, ("A", "B")))

    assert first(2) == [(1, "x"), (1, "y")]
    assert first(9) == [(1, "x"), (1, "y"), (2, "x"), (1, "z")]


@pytest.mark.parametrize("values", ["'10', 8", "8, '10'"])
def test_text_is_no_number_where_a_key_is_looked_up(values: str) -> None:
    with pytest.raises(SqlError, match=r"'10' can not be converted .*: A INTEGER KEY"):
        planned(f"SELECT * FROM t WHERE A IN ({values})", TWO_KEYS)
    assert planned(f"SELECT * FROM t WHERE V IN ({values})", TWO_KEYS) is not None


@pytest.mark.parametrize(
    ("sql", "layout", "keys"),
    [
        ("SELECT a, v, b AS c FROM t", TWO_KEYS, ["A", "C"]),
        ("SELECT a + 1 AS a FROM t", TWO_KEYS, []),
        ("SELECT * FROM t", WINDOWED, ["ID", "WINDOWSTART", "WINDOWEND"]),
    ],
)
def test_columns_of_the_key_are_marked(sql: str, layout: Layout, keys: list[str]) -> None:
    pull = planned(sql, layout)
    assert pull is not None
    assert [column.name for column in pull.columns if column.role is Role.KEY] == keys
