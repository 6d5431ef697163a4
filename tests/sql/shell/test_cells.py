"""Values in cells, and columns whose widths stay."""

from __future__ import annotations

import io
import json

import pytest

from ottla.sql.shell.cells import lines_of, shown, widths_by_rows, widths_by_type
from ottla.sql.shell.client import ExactNumber
from ottla.sql.shell.screen import OutputFormat, Screen, excerpt

MANY_DIGITS = "12345678901234567890.123456789"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (5, "5"),
        ("x", "x"),
        ([1, None, "a"], "[1, null, a]"),
        ({"A": 1, "B": {"C": [True]}}, "{A=1, B={C=[true]}}"),
        (json.loads(MANY_DIGITS, parse_float=ExactNumber), MANY_DIGITS),
    ],
)
def test_a_value_is_shown_as_ksqldbs_shell_shows_it(value: object, text: str) -> None:
    assert shown(value) == text


def test_columns_get_their_widths_from_their_types() -> None:
    widths = widths_by_type(["ID", "FLAG", "TEXT"], ["BIGINT", "BOOLEAN", "STRING"], 100)
    assert widths == [15, 5, 60]
    assert widths_by_type(["A" * 30], ["INTEGER"], 100) == [30]


def test_columns_fit_into_the_terminal() -> None:
    for room in (30, 60, 100, 200):
        widths = widths_by_type(["A", "B", "C"], ["STRING", "BIGINT", "ARRAY<STRING>"], room)
        assert sum(widths) + 3 * len(widths) + 1 <= room
    narrow = widths_by_type(["A"] * 40, ["STRING"] * 40, 80)
    assert set(narrow) == {4}  # more columns than fit are shown anyway


def test_a_result_that_ends_has_columns_as_wide_as_it_needs() -> None:
    assert widths_by_rows(["A", "LONG"], [["xyz", "1"], ["x", "2\n345678"]], 100) == [3, 6]


def test_wide_values_wrap() -> None:
    assert lines_of(["abcdefg", "x"], [3, 2]) == [["abc", "x "], ["def", "  "], ["g  ", "  "]]
    assert lines_of(["日本語", "x"], [4, 1]) == [["日本", "x"], ["語  ", " "]]
    assert lines_of(["", "x"], [2, 1]) == [["  ", "x"]]


def test_rows_are_drawn_as_they_come() -> None:
    out = io.StringIO()
    screen = Screen(out, out)
    rows = [[1, "one"], [2, None]]
    assert screen.rows(["ID", "T"], ["INTEGER", "STRING"], rows, endless=False) == 2
    assert out.getvalue().splitlines() == [
        "┌────┬──────┐",
        "│ ID │ T    │",
        "├────┼──────┤",
        "│ 1  │ one  │",
        "│ 2  │ null │",
        "└────┴──────┘",
    ]


def test_markup_in_a_value_is_text() -> None:
    out = io.StringIO()
    screen = Screen(out, out)
    screen.rows(["A"], ["STRING"], [["[red]x[/] :smile:"]], endless=False)
    assert "[red]x[/] :smile:" in out.getvalue()
    screen.output = OutputFormat.JSON
    screen.rows(["A"], ["STRING"], [["[b]"]], endless=False)
    assert out.getvalue().endswith('{"A": "[b]"}\n')


@pytest.mark.parametrize("room", [30, 80, 119, 120, 200])
@pytest.mark.parametrize("word", ["first", "FORM", "last"])
def test_an_error_in_a_long_line_shows_its_surroundings(room: int, word: str) -> None:
    statement = f"first {'a, ' * 20}FORM {'b, ' * 20}last"
    at = statement.index(word)
    line, place = excerpt(statement, at, room)
    assert len(line) <= room
    assert line[place : place + len(word)] in (word, f"{word[:-1]}…")
    assert line.strip("…") in statement
